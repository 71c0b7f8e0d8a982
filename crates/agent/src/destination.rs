//! Destinations: folder, S3 bucket, profile servers.

pub mod s3;

use std::path::PathBuf;
use std::time::Duration;

use rprof_fleet_table::{TableFile, folder};
use rprof_push::{Answer, ClientOptions, PushClient, SenderCredentials, ServerKind};

use crate::config::{DestinationKind, To};
use crate::spool::WindowFile;

/// Outcome of sending a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The destination has the file.
    Sent,
    /// The destination did not accept the file; a retry may succeed.
    Later {
        /// Reason.
        why: String,
        /// Delay that the server asked for.
        after: Option<Duration>,
    },
    /// The destination rejected the file. A retry would fail too.
    Refused(String),
}

/// Destination that receives the tables or the profile of each completed window.
pub enum WindowDestination {
    /// Folder of tables.
    Folder(PathBuf),
    /// Bucket of tables.
    S3(Box<s3::Bucket>),
    /// Profile server.
    Server(Box<PushClient>),
}

impl WindowDestination {
    /// Creates a destination from its settings, without any request.
    ///
    /// # Errors
    /// Describes an invalid address, credentials or certificates, without any secret.
    pub fn new(to: &To) -> Result<WindowDestination, String> {
        let url = to.url.clone().unwrap_or_default();
        match (to.kind, to.kind.target()) {
            (_, Some(target)) => {
                client(to, target, url).map(|c| WindowDestination::Server(Box::new(c)))
            }
            (DestinationKind::S3, _) => Ok(WindowDestination::S3(Box::new(s3::Bucket::new(to)?))),
            _ => Ok(WindowDestination::Folder(
                to.path.clone().unwrap_or_default(),
            )),
        }
    }

    /// Returns the client of a profile server.
    pub fn client(&self) -> Option<&PushClient> {
        match self {
            WindowDestination::Server(client) => Some(client),
            _ => None,
        }
    }

    /// Returns true if the destination would count a duplicate upload. Tables are named by their
    /// content, so a duplicate replaces itself.
    pub fn sends_once(&self) -> bool {
        matches!(self, WindowDestination::Server(_))
    }

    /// Returns the maximum age of profiles that the server accepts. The newest window then goes
    /// first.
    pub fn oldest(&self) -> Option<Duration> {
        let client = self.client()?;
        client.target().oldest().map(Duration::from_secs)
    }

    /// Sends a file. Blocks for the destination's timeout at most; a folder has none.
    pub fn send(&self, item: &WindowFile) -> SendOutcome {
        match self {
            WindowDestination::Folder(path) => {
                let file = TableFile {
                    path: item.name.clone(),
                    bytes: item.bytes.clone(),
                };
                match folder::put(path, &file) {
                    Ok(_) => SendOutcome::Sent,
                    Err(error) => later(error.to_string()),
                }
            }
            WindowDestination::S3(bucket) => bucket.put(&item.name, &item.bytes),
            WindowDestination::Server(client) => match client.send(&item.bytes) {
                Answer::Taken { rejected: 0, .. } => SendOutcome::Sent,
                Answer::Taken { message, .. } => SendOutcome::Refused(message),
                Answer::Later { why, after } => SendOutcome::Later { why, after },
                Answer::TooLarge { why }
                | Answer::Refused { why }
                | Answer::Misconfigured { why } => SendOutcome::Refused(why),
            },
        }
    }

    /// Checks whether the destination is reachable, without sending data.
    ///
    /// # Errors
    /// Reason why it is not.
    pub fn probe(&self) -> Result<String, String> {
        match self {
            WindowDestination::Folder(path) => match std::fs::metadata(path) {
                Ok(meta) if meta.is_dir() => {
                    match rustix::fs::access(path, rustix::fs::Access::WRITE_OK) {
                        Ok(()) => Ok("writable".to_owned()),
                        Err(error) => Err(format!("{}: {error}", path.display())),
                    }
                }
                Ok(_) => Err(format!("{} is not a folder", path.display())),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    Ok("does not exist yet and will be created".to_owned())
                }
                Err(error) => Err(format!("{}: {error}", path.display())),
            },
            WindowDestination::S3(bucket) => bucket.probe(),
            WindowDestination::Server(client) => client
                .probe()
                .map(|status| format!("a server answers (status {status})"))
                .map_err(|why| format!("{}: {why}", client.address())),
        }
    }
}

fn later(why: String) -> SendOutcome {
    SendOutcome::Later { why, after: None }
}

fn client(to: &To, target: ServerKind, server: String) -> Result<PushClient, String> {
    let mut credentials = SenderCredentials::default();
    let mut add = || {
        if let Some(path) = &to.token_file {
            credentials.add_token(path)?;
        }
        if let Some(path) = &to.basic_auth_file {
            credentials.add_password(path)?;
        }
        if let Some(path) = &to.header_file {
            credentials.add_headers(path)?;
        }
        Ok(())
    };
    let added: Result<(), rprof_push::PushError> = add();
    added
        .and_then(|()| {
            PushClient::new(ClientOptions {
                target,
                server,
                credentials,
                plain_http: to.plain_http,
                authorities: to.ca_file.clone(),
                tenant: to.tenant.clone().unwrap_or_default(),
                patience: to.timeout(),
            })
        })
        .map_err(|error| {
            error
                .to_string()
                .replace("--plain-http", "plain-http = true")
        })
}

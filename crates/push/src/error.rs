//! [`PushError`]: reasons for which nothing can be sent.

use std::io;
use std::path::PathBuf;

/// Reason for which nothing can be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The address is none of a server.
    #[error("{0:?} is not an http:// or https:// address")]
    NotHttp(String),
    /// The address holds a user name or a password.
    #[error(
        "the address contains credentials, which other users can see in the process list; put them \
         into a file"
    )]
    CredentialsInAddress,
    /// Credentials would go over the network as they are.
    #[error("credentials would go unencrypted to {0}; give an https:// address, or --plain-http")]
    Plain(String),
    /// The proxy in the environment cannot carry the requests.
    #[error(transparent)]
    Proxy(#[from] rprof_proxy::ProxyError),
    /// A file with credentials or certificates could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file does not hold what it is to hold.
    #[error("{}: {what}", path.display())]
    BadFile {
        /// The file.
        path: PathBuf,
        /// The part that it lacks.
        what: &'static str,
    },
    /// A label has no form that servers take.
    #[error("{label:?} is not a label: {what}")]
    BadLabel {
        /// The label as it was given.
        label: String,
        /// The part that it lacks.
        what: &'static str,
    },
    /// The HTTP client could not be made.
    #[error("cannot make requests: {0}")]
    Client(String),
    /// The encoder of the profile failed.
    #[error("cannot encode the profile: {0}")]
    Encode(#[from] io::Error),
}

//! [`Client`]: one request and its [`Answer`].

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ureq::http::Response;
use ureq::http::header::RETRY_AFTER;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

use crate::answer::Answer;
use crate::body::{body, headers};
use crate::credentials::{Credentials, read};
use crate::error::PushError;
use crate::labels::Label;
use crate::policy::retry_after;
use crate::target::Target;

/// Most bytes of an answer that are read.
const MOST_ANSWER: u64 = 64 << 10;

/// Server, and how it is spoken to.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Kind of the server.
    pub target: Target,
    /// Address of the server: see [`Target::address`].
    pub server: String,
    /// Headers out of files.
    pub credentials: Credentials,
    /// True if credentials may go to other machines without encryption.
    pub plain_http: bool,
    /// File of certificates (PEM) that are believed in place of the usual ones.
    pub authorities: Option<PathBuf>,
    /// Name of the tenant, where a server has several; empty for none.
    pub tenant: String,
    /// Longest time for a request and its answer.
    pub patience: Duration,
}

/// Client of one server.
pub struct Client {
    options: ClientOptions,
    address: String,
    agent: Agent,
}

impl Client {
    /// Makes a client, without any request.
    ///
    /// # Errors
    /// [`PushError`], if address, credentials or certificates are not what they are to be.
    pub fn new(options: ClientOptions) -> Result<Client, PushError> {
        let address = options.target.address(&options.server)?;
        if !options.plain_http {
            options.credentials.check(&address)?;
        }
        let agent = http_agent(options.patience, options.authorities.as_deref())?;
        Ok(Client {
            address,
            agent,
            options,
        })
    }

    /// Returns the address of requests.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the kind of the server.
    pub fn target(&self) -> Target {
        self.options.target
    }

    /// Returns the headers of requests as they may be shown: credentials by the file that they come from.
    pub fn shown_headers(&self) -> Vec<String> {
        let own = headers(self.options.target).iter();
        let own = own.map(|(name, value)| format!("{name}: {value}"));
        let tenant = self
            .tenant_header()
            .map(|tenant| format!("x-scope-orgid: {tenant}"));
        let secret = self.options.credentials.shown();
        let secret = secret.map(|(name, path)| format!("{name}: (from {})", path.display()));
        own.chain(tenant).chain(secret).collect()
    }

    /// Pyroscope, and what stands before collectors, tell tenants by a header; Parca by a field of the request.
    fn tenant_header(&self) -> Option<&str> {
        let options = &self.options;
        let is_header = options.target != Target::Parca && !options.tenant.is_empty();
        is_header.then_some(&*options.tenant)
    }

    /// Returns the body of the request that carries an encoded profile.
    pub fn body(&self, labels: &[Label], profile: Vec<u8>) -> Vec<u8> {
        body(self.options.target, labels, &self.options.tenant, profile)
    }

    /// Sends a body once.
    pub fn send(&self, body: &[u8]) -> Answer {
        let mut request = self.agent.post(&self.address);
        for (name, value) in headers(self.options.target) {
            request = request.header(*name, *value);
        }
        if let Some(tenant) = self.tenant_header() {
            request = request.header("x-scope-orgid", tenant);
        }
        for (name, value) in self.options.credentials.headers() {
            request = request.header(name, value);
        }
        match request.send(body) {
            Ok(response) => self.answer(response),
            Err(error) => self.without_answer(&error),
        }
    }

    /// Asks for the address of requests without sending any data, and returns the status of the answer: whichever it is, a server is
    /// there. No credentials are sent.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn probe(&self) -> Result<u16, String> {
        match self.agent.head(&self.address).call() {
            Ok(response) => Ok(response.status().as_u16()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn answer(&self, mut response: Response<Body>) -> Answer {
        let status = response.status().as_u16();
        let after = response.headers().get(RETRY_AFTER);
        let after = after.and_then(|text| retry_after(text.to_str().ok()?, SystemTime::now()));
        let body = response.body_mut().with_config().limit(MOST_ANSWER);
        match body.read_to_vec() {
            Ok(body) => Answer::of(self.options.target, status, after, &body),
            // The status came, and says enough, but for a server that broke off while it said what it took.
            Err(_) if status >= 300 => Answer::of(self.options.target, status, after, b""),
            Err(error) => self.without_answer(&error),
        }
    }

    fn without_answer(&self, error: &ureq::Error) -> Answer {
        let later = |why: String| Answer::Later { why, after: None };
        match error {
            ureq::Error::Timeout(_) => later(format!(
                "no answer within {} s",
                self.options.patience.as_secs_f64()
            )),
            ureq::Error::Rustls(_) | ureq::Error::Tls(_) | ureq::Error::Pem(_) => {
                Answer::Misconfigured {
                    why: error.to_string(),
                }
            }
            ureq::Error::Io(error) if is_certificate(error) => Answer::Misconfigured {
                why: error.to_string(),
            },
            ureq::Error::Http(_)
            | ureq::Error::BadUri(_)
            | ureq::Error::InvalidProxyUrl
            | ureq::Error::RequireHttpsOnly(_) => Answer::Misconfigured {
                why: error.to_string(),
            },
            // Answers beyond any measure, which will not be shorter later.
            ureq::Error::BodyExceedsLimit(_) | ureq::Error::LargeResponseHeader(..) => {
                Answer::Misconfigured {
                    why: "the answer is none of such a server".to_owned(),
                }
            }
            error => later(error.to_string()),
        }
    }
}

/// Makes an HTTP client that follows no redirects, since a request that goes elsewhere would take its credentials there, and that waits
/// for an answer so long at most. `authorities` is a file of certificates (PEM) that are believed in place of the usual ones.
///
/// # Errors
/// [`PushError::Read`], [`PushError::BadFile`].
pub fn http_agent(patience: Duration, authorities: Option<&Path>) -> Result<Agent, PushError> {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .timeout_global(Some(patience))
        .user_agent(concat!("rprof/", env!("CARGO_PKG_VERSION")));
    if let Some(path) = authorities {
        let (pem, _) = read(path)?;
        let bad = |what| PushError::BadFile {
            path: path.to_owned(),
            what,
        };
        let mut certificates = Vec::new();
        for item in parse_pem(&pem) {
            match item {
                Ok(PemItem::Certificate(certificate)) => certificates.push(certificate),
                Ok(_) => {}
                Err(_) => return Err(bad("it is damaged")),
            }
        }
        if certificates.is_empty() {
            return Err(bad("it has no certificate in PEM form"));
        }
        let tls = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&certificates));
        config = config.tls_config(tls.build());
    }
    Ok(Agent::new_with_config(config.build()))
}

/// Returns true for the errors that TLS hands on as errors of the connection: certificates that are not believed.
fn is_certificate(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData
}

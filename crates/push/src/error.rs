//! [`PushError`]: reasons why sending is impossible.

use std::io;
use std::path::PathBuf;

/// Reason why sending is impossible.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The address is not an HTTP URL.
    #[error("{0:?} is not an http:// or https:// address")]
    NotHttp(String),
    /// The address contains a user name or a password.
    #[error(
        "the address contains credentials, which other users can see in the process list; put them \
         into a file"
    )]
    CredentialsInAddress,
    /// Credentials would be sent without encryption.
    #[error("credentials would go unencrypted to {0}; give an https:// address, or --plain-http")]
    Plain(String),
    /// The configured proxy cannot carry the requests.
    #[error(transparent)]
    Proxy(#[from] rprof_proxy::ProxyError),
    /// A file with credentials or certificates could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A file has invalid contents.
    #[error("{}: {what}", path.display())]
    BadFile {
        /// Path of the file.
        path: PathBuf,
        /// Description of the error.
        what: &'static str,
    },
    /// A label is invalid for the server.
    #[error("{label:?} is not a label: {what}")]
    BadLabel {
        /// Label as given.
        label: String,
        /// Description of the error.
        what: &'static str,
    },
    /// The HTTP client could not be created.
    #[error("cannot make requests: {0}")]
    Client(String),
    /// The encoder of the profile failed.
    #[error("cannot encode the profile: {0}")]
    Encode(#[from] io::Error),
}

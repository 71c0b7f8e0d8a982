//! Outcomes of requests, with messages for the user.

use rprof_image::{BuildId, RemoteKind};
use std::path::PathBuf;
use std::time::Duration;

/// Outcome of one request.
#[derive(Debug)]
pub struct RequestOutcome {
    /// Image without a local debug file.
    pub image: PathBuf,
    /// Build-id of the requested file.
    pub build_id: BuildId,
    /// Type of the requested file.
    pub kind: RemoteKind,
    /// Result of the request.
    pub result: FetchResult,
}

/// Result of a request.
#[derive(Debug)]
#[non_exhaustive]
pub enum FetchResult {
    /// The file was downloaded.
    Fetched {
        /// Size in bytes.
        bytes: u64,
        /// URL of the server.
        from: String,
    },
    /// The file was in the cache.
    Cached,
    /// No server has the file, according to the servers or a cached miss.
    Missing,
    /// The request failed, so it is unknown whether a server has the file.
    Failed(Failure),
}

/// Cause of a failed request. Each has its remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The server is unreachable, or violates the protocol.
    #[error("{url}: {error}; check the address and the network")]
    Server {
        /// URL of the server.
        url: String,
        /// Error of the connection or the protocol.
        error: String,
    },
    /// The configured proxy cannot carry the request.
    #[error("{url}: {error}")]
    Proxy {
        /// URL of the server.
        url: String,
        /// Cause and remedy.
        error: rprof_proxy::ProxyError,
    },
    /// The server returned an error.
    #[error("{url} answered with HTTP status {status}; try again later")]
    Status {
        /// URL of the server.
        url: String,
        /// HTTP status code.
        status: u16,
    },
    /// The server redirected to another server.
    #[error(
        "{url} redirects to another server, {to}, which was not asked; add it to DEBUGINFOD_URLS \
         if you trust it"
    )]
    Redirect {
        /// URL of the server.
        url: String,
        /// Scheme, host and port of the other server.
        to: String,
    },
    /// The server was too slow.
    #[error(
        "{url} sent too little within {} s; raise DEBUGINFOD_TIMEOUT to wait longer",
        patience.as_secs_f32()
    )]
    Slow {
        /// URL of the server.
        url: String,
        /// Timeout in effect.
        patience: Duration,
    },
    /// The file exceeds the size limit.
    #[error("{url} sends more than {max} bytes; raise DEBUGINFOD_MAXSIZE to accept more")]
    TooLarge {
        /// URL of the server.
        url: String,
        /// Limit in bytes.
        max: u64,
    },
    /// The server sent a file with another build-id.
    #[error("{url} sent a file with another build-id; it was discarded")]
    WrongFile {
        /// URL of the server.
        url: String,
    },
    /// The time for all downloads has expired.
    #[error(
        "downloads reached their time limit of {} s; run again to continue, or raise \
         DEBUGINFOD_MAXTIME",
        total.as_secs_f32()
    )]
    TimeOver {
        /// Time limit for all downloads together.
        total: Duration,
    },
    /// The user cancelled.
    #[error("you stopped the downloads; complete files stay in the cache")]
    Cancelled,
    /// The cache cannot be written.
    #[error("cannot write {}: {error}; set DEBUGINFOD_CACHE_PATH to a writable folder", path.display())]
    Cache {
        /// File or folder.
        path: PathBuf,
        /// Cause.
        error: std::io::Error,
    },
}

impl Failure {
    /// Returns true if the failure is persistent, so that further requests to the server would
    /// fail.
    pub(crate) fn lasts(&self) -> bool {
        matches!(
            self,
            Failure::Slow { .. }
                | Failure::Server { .. }
                | Failure::Redirect { .. }
                | Failure::Proxy { .. }
        )
    }
}

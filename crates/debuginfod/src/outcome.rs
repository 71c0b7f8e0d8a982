//! Outcomes of requests, with messages for the user.

use rprof_image::{BuildId, RemoteKind};
use std::path::PathBuf;
use std::time::Duration;

/// Outcome of one request.
#[derive(Debug)]
pub struct Outcome {
    /// Image that lacks the file.
    pub image: PathBuf,
    /// Build-id of the requested file.
    pub build_id: BuildId,
    /// Kind of the requested file.
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
        /// Server that had it.
        from: String,
    },
    /// The file was in the cache.
    Cached,
    /// No server has it, or none had it minutes ago.
    Missing,
    /// The request failed: it is not known whether a server has the file.
    Failed(Failure),
}

/// Cause for which a server was no help. Each has its remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The server cannot be reached, or breaks the protocol.
    #[error("{url}: {error}; check the address and the network")]
    Server {
        /// The server.
        url: String,
        /// Error of the connection or the protocol.
        error: String,
    },
    /// The proxy in the environment cannot carry the request.
    #[error("{url}: {error}")]
    Proxy {
        /// The server.
        url: String,
        /// Cause and remedy.
        error: rprof_proxy::ProxyError,
    },
    /// The server answered with an error.
    #[error("{url} answered with HTTP status {status}; try again later")]
    Status {
        /// The server.
        url: String,
        /// HTTP status code.
        status: u16,
    },
    /// The server sent the request on to another one.
    #[error(
        "{url} redirects to another server, {to}, which was not asked; add it to DEBUGINFOD_URLS \
         if you trust it"
    )]
    Redirect {
        /// The server.
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
        /// The server.
        url: String,
        /// Time that was waited.
        patience: Duration,
    },
    /// The file is larger than the limit.
    #[error("{url} sends more than {max} bytes; raise DEBUGINFOD_MAXSIZE to accept more")]
    TooLarge {
        /// The server.
        url: String,
        /// Limit in bytes.
        max: u64,
    },
    /// The server sent another file.
    #[error("{url} sent a file with another build-id; it was discarded")]
    WrongFile {
        /// The server.
        url: String,
    },
    /// The time for all downloads is over.
    #[error(
        "downloads reached their time limit of {} s; run again to continue, or raise \
         DEBUGINFOD_MAXTIME",
        total.as_secs_f32()
    )]
    TimeOver {
        /// Limit for all downloads together.
        total: Duration,
    },
    /// The user cancelled.
    #[error("you stopped the downloads; complete files stay in the cache")]
    Cancelled,
    /// The cache cannot be written.
    #[error("cannot write {}: {error}; set DEBUGINFOD_CACHE_PATH to a writable folder", path.display())]
    Cache {
        /// The file or folder.
        path: PathBuf,
        /// Cause.
        error: std::io::Error,
    },
}

impl Failure {
    /// Returns true if further requests to the server would fail as well.
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

//! What came of a request, in words for the user.

use rprof_image::{BuildId, RemoteKind};
use std::path::PathBuf;
use std::time::Duration;

/// What came of one request.
#[derive(Debug)]
pub struct Outcome {
    /// The image that lacks the file.
    pub image: PathBuf,
    /// The build-id that was asked for.
    pub build_id: BuildId,
    /// What was asked for.
    pub kind: RemoteKind,
    /// What came of it.
    pub result: FetchResult,
}

/// What came of a request.
#[derive(Debug)]
#[non_exhaustive]
pub enum FetchResult {
    /// It was downloaded.
    Fetched {
        /// Its size in bytes.
        bytes: u64,
        /// The server that had it.
        from: String,
    },
    /// It was in the cache.
    Cached,
    /// No server has it, or none had it minutes ago.
    Missing,
    /// It is not known whether a server has it.
    Failed(Failure),
}

/// Why a server was no help. Each has its remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The server cannot be reached, or breaks the protocol.
    #[error("{url}: {error}; is it the right address, and the network there?")]
    Server {
        /// The server.
        url: String,
        /// What it was.
        error: String,
    },
    /// The server answers with an error.
    #[error("{url} answers with HTTP status {status}; try again later")]
    Status {
        /// The server.
        url: String,
        /// The status.
        status: u16,
    },
    /// The server is too slow.
    #[error(
        "{url} sends too little in {} s; a larger DEBUGINFOD_TIMEOUT waits longer",
        patience.as_secs_f32()
    )]
    Slow {
        /// The server.
        url: String,
        /// How long was waited.
        patience: Duration,
    },
    /// The file is larger than allowed.
    #[error("{url} sends more than {max} bytes; a larger DEBUGINFOD_MAXSIZE takes more")]
    TooLarge {
        /// The server.
        url: String,
        /// How much is allowed.
        max: u64,
    },
    /// What the server sent is another file.
    #[error("{url} sent a file that is not the one of this build-id; it was thrown away")]
    WrongFile {
        /// The server.
        url: String,
    },
    /// The time for all downloads is over.
    #[error(
        "the time for downloads, {} s, is over; what came is kept, so ask again, or set \
         DEBUGINFOD_MAXTIME",
        total.as_secs_f32()
    )]
    TimeOver {
        /// How long was allowed.
        total: Duration,
    },
    /// The user had enough.
    #[error("stopped by you; what came is kept")]
    Cancelled,
    /// The cache cannot be written.
    #[error("cannot write {}: {error}; set DEBUGINFOD_CACHE_PATH to a folder that can be", path.display())]
    Cache {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

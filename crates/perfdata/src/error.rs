//! Errors: unreadable recordings, and damage within readable ones.

use std::path::PathBuf;

/// Reason why a recording cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// The path is neither a regular file nor a pipe.
    #[error("{} is a {kind}, not a recording", path.display())]
    NotAFile {
        /// Path of the file.
        path: PathBuf,
        /// Type of the file.
        kind: &'static str,
    },
    /// A stream exceeds the memory limit, and it could not be spooled to a file.
    #[error("cannot copy {} to a temporary file: {source}; set TMPDIR to a folder with enough room", path.display())]
    Spool {
        /// Name of the stream.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// The file is empty.
    #[error("{} is empty: the recording was stopped before anything was written", path.display())]
    Empty {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file does not start with a magic of perf.
    #[error("{} is not a perf.data file: it begins with \"{found}\" instead of \"PERFILE2\"", path.display())]
    NotPerfData {
        /// Path of the file.
        path: PathBuf,
        /// First bytes, with unprintable ones escaped.
        found: String,
    },
    /// The header contradicts itself or the file's length.
    #[error("{}: damaged header at byte {offset}: {what}; was it copied completely?", path.display())]
    BadHeader {
        /// Path of the file.
        path: PathBuf,
        /// Byte offset in the file.
        offset: u64,
        /// Description of the error.
        what: String,
    },
    /// The file describes no event, so samples cannot be decoded.
    #[error("{} describes no event, so its samples cannot be read; is its beginning missing?", path.display())]
    NoEvents {
        /// Path of the file.
        path: PathBuf,
    },
}

/// Position of damage. Data before it is intact.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("damaged at byte {offset}: {what}")]
pub struct Damage {
    /// Byte offset in the file.
    pub offset: u64,
    /// Description of the damage.
    pub what: String,
}

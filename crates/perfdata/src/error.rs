//! Errors: recordings that cannot be opened, and damage within them.

use std::path::PathBuf;

/// Reason for which a recording cannot be opened at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is no regular file, and no pipe was meant.
    #[error("{} is a {kind}, not a recording", path.display())]
    NotAFile {
        /// The file.
        path: PathBuf,
        /// Type of the file.
        kind: &'static str,
    },
    /// A stream is too long for memory, and no file could take it.
    #[error("cannot copy {} to a temporary file: {source}; set TMPDIR to a folder with enough room", path.display())]
    Spool {
        /// Name of the stream.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is nothing in it.
    #[error("{} is empty: the recording was stopped before anything was written", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The first bytes are not perf's.
    #[error("{} is not a perf.data file: it begins with \"{found}\" instead of \"PERFILE2\"", path.display())]
    NotPerfData {
        /// The file.
        path: PathBuf,
        /// First bytes, unprintable ones escaped.
        found: String,
    },
    /// The header contradicts itself or the file's length.
    #[error("{}: damaged header at byte {offset}: {what}; was it copied completely?", path.display())]
    BadHeader {
        /// The file.
        path: PathBuf,
        /// Offset in bytes from the file's start.
        offset: u64,
        /// Description of what is wrong.
        what: String,
    },
    /// No event is described, so no sample can be read.
    #[error("{} describes no event, so its samples cannot be read; is its beginning missing?", path.display())]
    NoEvents {
        /// The file.
        path: PathBuf,
    },
}

/// A place from which on a recording cannot be read. What stood before is good.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("damaged at byte {offset}: {what}")]
pub struct Damage {
    /// Offset in bytes from the file's start.
    pub offset: u64,
    /// Description of what is wrong there.
    pub what: String,
}

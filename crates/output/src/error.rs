//! [`OutputError`]: why an output cannot be created.

use std::io;
use std::path::PathBuf;

use crate::kind::Kind;

/// Error of an output. Nothing was changed, unless a variant says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// A special file or directory is at the path.
    #[error("{} is a {kind}, which is not written over", path.display())]
    InTheWay {
        /// The path.
        path: PathBuf,
        /// Type of the file.
        kind: Kind,
    },
    /// A link points to a special file or directory.
    #[error("{} is a link to a {kind}, which is not written over", path.display())]
    LinkToDevice {
        /// The link.
        path: PathBuf,
        /// Type of the target.
        kind: Kind,
    },
    /// A link is in, or points into, a kernel file system.
    #[error("{} is a link into {}, and not the name of a file", path.display(), into.display())]
    LinkIntoSystem {
        /// The link.
        path: PathBuf,
        /// `/proc`, `/sys` or `/dev`.
        into: PathBuf,
    },
    /// The FIFO has no reader, so opening it would block.
    #[error("{} is a named pipe that nobody reads", path.display())]
    NoReader {
        /// The FIFO.
        path: PathBuf,
    },
    /// Renaming the old recording failed.
    #[error("cannot rename {} to {}: {source}", path.display(), to.display())]
    Rename {
        /// The old file.
        path: PathBuf,
        /// New name of the old file.
        to: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// Creating or opening the output failed. The old recording may be renamed already.
    #[error("cannot create {}: {source}", path.display())]
    Create {
        /// The path.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// Writing or the final rename failed.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The path.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
}

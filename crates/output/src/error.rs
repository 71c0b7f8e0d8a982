//! [`OutputError`]: why an output cannot be made.

use std::io;
use std::path::PathBuf;

use crate::kind::Kind;

/// Cause for which an output cannot be made. Nothing was changed then, unless a variant says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// Something stands there that is never written over.
    #[error("{} is a {kind}, which is not written over", path.display())]
    InTheWay {
        /// The path.
        path: PathBuf,
        /// What stands there.
        kind: Kind,
    },
    /// A link leads to something that is never written over.
    #[error("{} is a link to a {kind}, which is not written over", path.display())]
    LinkToDevice {
        /// The link.
        path: PathBuf,
        /// What it leads to.
        kind: Kind,
    },
    /// A link stands in or leads into a file system of the kernel.
    #[error("{} is a link into {}, and not the name of a file", path.display(), into.display())]
    LinkIntoSystem {
        /// The link.
        path: PathBuf,
        /// `/proc`, `/sys` or `/dev`.
        into: PathBuf,
    },
    /// Nobody reads a FIFO: opening it for writing would wait for ever.
    #[error("{} is a named pipe that nobody reads", path.display())]
    NoReader {
        /// The FIFO.
        path: PathBuf,
    },
    /// The old recording could not be moved away.
    #[error("cannot rename {} to {}: {source}", path.display(), to.display())]
    Rename {
        /// The old file.
        path: PathBuf,
        /// New name of the old file.
        to: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The output could not be created or opened. An old recording may have been renamed before.
    #[error("cannot create {}: {source}", path.display())]
    Create {
        /// The path.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// Writing failed, or the finished file could not get its name.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The path.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
}

//! [`OutputError`]: why an output cannot be created.

use std::io;
use std::path::{Path, PathBuf};

use crate::kind::Kind;

/// Error of an output. Nothing was changed, unless a variant says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// A special file or directory is at the path.
    #[error("{} is a {kind} and was not overwritten", path.display())]
    InTheWay {
        /// Path of the output.
        path: PathBuf,
        /// Type of the file.
        kind: Kind,
    },
    /// A link points to a special file or directory.
    #[error("{} is a link to a {kind} and was not overwritten", path.display())]
    LinkToDevice {
        /// Path of the link.
        path: PathBuf,
        /// Type of the target.
        kind: Kind,
    },
    /// A link is in, or points into, a kernel file system.
    #[error("{} is a link into {} instead of a file name", path.display(), into.display())]
    LinkIntoSystem {
        /// Path of the link.
        path: PathBuf,
        /// `/proc`, `/sys` or `/dev`.
        into: PathBuf,
    },
    /// The FIFO has no reader, so opening it would block.
    #[error("{} is a named pipe without a reader", path.display())]
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
        /// Path of the output.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// Writing or the final rename failed.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Path of the output.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
}

impl OutputError {
    /// Returns the error of creating a file at `path`. A missing folder has its name in the cause.
    pub(crate) fn create(path: &Path, source: io::Error) -> OutputError {
        let is_missing = source.kind() == io::ErrorKind::NotFound;
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let source = match folder.filter(|_| is_missing) {
            Some(folder) => {
                let cause = format!("the folder {} does not exist", folder.display());
                io::Error::new(io::ErrorKind::NotFound, cause)
            }
            None => source,
        };
        OutputError::Create {
            path: path.to_owned(),
            source,
        }
    }
}

//! [`OpenError`]: why a file is not used.

use std::io::{Error, ErrorKind};

/// Cause for which a file cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The path leads to nothing, at least in this process's namespace.
    #[error("no such file")]
    NoSuchFile,
    /// The file may not be read.
    #[error("permission denied")]
    PermissionDenied,
    /// The path ends in a symbolic link, where none is followed: whoever made it chooses the file.
    #[error("it is a symbolic link")]
    SymbolicLink,
    /// The path leads to a directory, device, FIFO or socket, which are never read.
    #[error("not a regular file")]
    NotARegularFile,
    /// The file is empty.
    #[error("not an ELF program or library")]
    Empty,
    /// The file is longer than is read of a file whose owner is neither root nor this program's user.
    #[error("too long for a file of another user")]
    TooLong,
    /// This process, or the system, has as many open files as it may.
    #[error("too many open files (`ulimit -n`)")]
    TooManyFiles,
    /// Opening or mapping failed for another cause, such as an I/O error.
    #[error("could not be read")]
    Failed,
}

impl From<&Error> for OpenError {
    fn from(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::InvalidInput
            | ErrorKind::InvalidFilename => Self::NoSuchFile,
            ErrorKind::PermissionDenied => Self::PermissionDenied,
            // ESRCH: the process whose file it is has ended.
            _ => match error.raw_os_error() {
                Some(libc::EMFILE | libc::ENFILE) => Self::TooManyFiles,
                Some(libc::ELOOP | libc::ESRCH) => Self::NoSuchFile,
                _ => Self::Failed,
            },
        }
    }
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

//! [`OpenError`]: why a file cannot be used.

use std::io::{Error, ErrorKind};

/// Cause for not opening or using a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No file at this path in this process's namespace.
    #[error("no such file")]
    NoSuchFile,
    /// The file may not be read.
    #[error("permission denied")]
    PermissionDenied,
    /// A symbolic link that is not followed: its creator would choose the file.
    #[error("a symbolic link, which is not followed")]
    SymbolicLink,
    /// A directory, device, FIFO or socket, which are never read.
    #[error("not a regular file")]
    NotARegularFile,
    /// The file is empty.
    #[error("not an ELF program or library")]
    Empty,
    /// The file exceeds a length limit.
    #[error("file of another user exceeds the size limit")]
    TooLong,
    /// The process or the system has too many open files.
    #[error("too many open files; raise the limit with `ulimit -n`")]
    TooManyFiles,
    /// Another failure, such as an I/O error.
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
            // ESRCH: the process behind a `/proc` entry has ended.
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

//! Opening an image file: regular files only, whatever the path leads to.

use memmap2::{Mmap, UncheckedAdvice};
use std::fs::OpenOptions;
use std::io::{Error, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Cause for which a file cannot be used as an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The path leads to nothing, at least in this process's namespace.
    #[error("no such file")]
    NoSuchFile,
    /// The file may not be read.
    #[error("permission denied")]
    PermissionDenied,
    /// The path leads to a directory, device, FIFO or socket, which are never read.
    #[error("not a regular file")]
    NotARegularFile,
    /// The file is empty.
    #[error("not an ELF program or library")]
    Empty,
    /// Opening or mapping failed for another cause (I/O error, too many open files).
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
            _ if error.raw_os_error() == Some(libc::ELOOP) => Self::NoSuchFile,
            _ => Self::Failed,
        }
    }
}

/// A regular file, mapped read-only.
#[derive(Debug)]
pub struct ImageFile {
    bytes: Mmap,
    inode: u64,
}

impl ImageFile {
    /// Opens and maps a regular file, without blocking.
    ///
    /// The path comes from recorded data and may lead anywhere, so: `O_NONBLOCK`, lest a FIFO hang
    /// this process; and the kind is asked of the descriptor, not of the path. Symbolic links are
    /// followed (`libc.so.6` was one for decades).
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        // The kind is looked at first as well: opening a device can have effects.
        let before = std::fs::metadata(path).map_err(|error| OpenError::from(&error))?;
        if !before.is_file() {
            return Err(OpenError::NotARegularFile);
        }
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC)
            .open(path)
            .map_err(|error| OpenError::from(&error))?;
        let metadata = file.metadata().map_err(|error| OpenError::from(&error))?;
        if !metadata.is_file() {
            return Err(OpenError::NotARegularFile);
        }
        if metadata.len() == 0 {
            // Nor can an empty file be mapped.
            return Err(OpenError::Empty);
        }
        // SAFETY: the mapping is read-only and private. Another process may still change or
        // truncate the file while it is mapped. Every reader treats the bytes as
        // untrusted and copies each value before checking it; truncation ends in SIGBUS, as
        // with every tool that maps ELF files, the dynamic linker included.
        let bytes = unsafe { Mmap::map(&file) }.map_err(|error| OpenError::from(&error))?;
        Ok(Self {
            bytes,
            inode: metadata.ino(),
        })
    }

    /// Returns the bytes of the file. They may change while the file is written to, and reading
    /// them ends in SIGBUS when it is cut short: copy what is to be kept.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the inode number.
    #[must_use]
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Gives the memory of a range of bytes back to the system. They stay what they are, and are
    /// read from the file again when next touched.
    pub fn release(&self, range: Range<usize>) {
        let len = self.bytes.len();
        let range = range.start.min(len)..range.end.min(len);
        // SAFETY: the mapping is of a file and read-only, as `open` makes it, so that no page of it
        // differs from the file: what is dropped is read from there again when next touched, by
        // whichever thread.
        let advised = unsafe {
            let dont_need = UncheckedAdvice::DontNeed;
            (self.bytes).unchecked_advise_range(dont_need, range.start, range.len())
        };
        // Where this fails, memory is used for longer, and nothing else happens.
        drop(advised);
    }
}

impl AsRef<[u8]> for ImageFile {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_pages_are_read_again() {
        let file = ImageFile::open(Path::new("/proc/self/exe")).unwrap();
        let before = file.bytes().to_vec();
        file.release(4097..before.len());
        file.release(usize::MAX - 1..usize::MAX);
        assert!(before == file.bytes());
    }

    #[test]
    fn only_regular_files() {
        let why = |path: &str| ImageFile::open(Path::new(path)).err();
        assert_eq!(why("/dev/null"), Some(OpenError::NotARegularFile));
        assert_eq!(why("/"), Some(OpenError::NotARegularFile));
        assert_eq!(why("/nowhere/to/be/found"), Some(OpenError::NoSuchFile));
        assert_eq!(why("/etc/passwd/x"), Some(OpenError::NoSuchFile));
        assert_eq!(why("/a\0b"), Some(OpenError::NoSuchFile));
        assert_eq!(why("/proc/self/exe"), None);
        let empty = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(ImageFile::open(empty.path()).err(), Some(OpenError::Empty));
    }
}

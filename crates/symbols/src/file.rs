//! Opening an image file: regular files only, whatever the path leads to.

use crate::Reason;
use memmap2::{Mmap, UncheckedAdvice};
use std::fs::OpenOptions;
use std::io::{Error, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// An image file, mapped.
#[derive(Debug)]
pub struct ImageFile {
    pub(crate) bytes: Mmap,
    pub(crate) inode: u64,
}

impl ImageFile {
    /// Opens and maps a file; nothing but a regular one, and without waiting for anything.
    ///
    /// # Errors
    /// [`Reason`], of those that concern files.
    pub fn open(path: &Path) -> Result<Self, Reason> {
        open(path)
    }

    /// Its bytes. They may change while the file is written to, and reading them ends
    /// in SIGBUS when it is cut short: copy what is to be kept.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its inode number.
    #[must_use]
    pub fn inode(&self) -> u64 {
        self.inode
    }
}

/// Bytes of a file in memory, of which parts can be given back once they were read.
pub(crate) trait Pages: AsRef<[u8]> + Sync {
    /// Memory for this range is not needed any more for now. The bytes stay what they are.
    fn release(&self, range: Range<usize>);
}

impl Pages for Mmap {
    fn release(&self, range: Range<usize>) {
        let range = range.start.min(self.len())..range.end.min(self.len());
        // SAFETY: the mapping is of a file and read-only, as `open` makes it and nothing else does
        // here, so that no page of it differs from the file: what is dropped is read from there
        // again when next touched, by whichever thread.
        let advised = unsafe {
            self.unchecked_advise_range(UncheckedAdvice::DontNeed, range.start, range.len())
        };
        // Memory is used for longer then, and nothing else happens.
        drop(advised);
    }
}

impl Pages for Vec<u8> {
    fn release(&self, _: Range<usize>) {}
}

/// Maps the file. The path comes from recorded data and may lead anywhere, so:
/// `O_NONBLOCK`, lest a FIFO hang us; and the kind is asked of the descriptor, not of
/// the path. Symbolic links are followed (`libc.so.6` was one for decades).
pub(crate) fn open(path: &Path) -> Result<ImageFile, Reason> {
    // The kind is looked at first as well: opening a device can have effects.
    let before = std::fs::metadata(path).map_err(|error| reason(&error))?;
    if !before.is_file() {
        return Err(Reason::NotARegularFile);
    }
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC)
        .open(path)
        .map_err(|error| reason(&error))?;
    let metadata = file.metadata().map_err(|error| reason(&error))?;
    if !metadata.is_file() {
        return Err(Reason::NotARegularFile);
    }
    if metadata.len() == 0 {
        // Nor can an empty file be mapped.
        return Err(Reason::NotAnElf);
    }
    // SAFETY: the mapping is read-only and private. Another process may still change or
    // truncate the file while it is mapped. Every reader treats the bytes as
    // untrusted and copies each value before checking it; truncation ends in SIGBUS, as
    // with every tool that maps ELF files, the dynamic linker included.
    let bytes = unsafe { Mmap::map(&file) }.map_err(|error| reason(&error))?;
    Ok(ImageFile {
        bytes,
        inode: metadata.ino(),
    })
}

pub(crate) fn reason(error: &Error) -> Reason {
    match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::NotADirectory
        | ErrorKind::InvalidInput
        | ErrorKind::InvalidFilename => Reason::NoSuchFile,
        ErrorKind::PermissionDenied => Reason::PermissionDenied,
        _ if error.raw_os_error() == Some(libc::ELOOP) => Reason::NoSuchFile,
        _ => Reason::ReadFailed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_pages_are_read_again() {
        let bytes = open(Path::new("/proc/self/exe")).unwrap().bytes;
        let before = bytes.to_vec();
        bytes.release(4097..bytes.len());
        bytes.release(usize::MAX - 1..usize::MAX);
        assert!(before == bytes[..]);
    }

    #[test]
    fn only_regular_files() {
        let why = |path: &str| open(Path::new(path)).err();
        assert_eq!(why("/dev/null"), Some(Reason::NotARegularFile));
        assert_eq!(why("/"), Some(Reason::NotARegularFile));
        assert_eq!(why("/nowhere/to/be/found"), Some(Reason::NoSuchFile));
        assert_eq!(why("/etc/passwd/x"), Some(Reason::NoSuchFile));
        assert_eq!(why("/a\0b"), Some(Reason::NoSuchFile));
        assert_eq!(why("/proc/self/exe"), None);
    }
}

//! [`ImageFile`]: the bytes of an image, of a regular file only, whatever the path leads to.

use crate::file_version::FileVersion;
use crate::open_error::OpenError;
use crate::regular_file::RegularFile;
use memmap2::{Mmap, UncheckedAdvice};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

/// Longest file of another user that is read, in bytes. Longer ones, with debug information, are those of
/// whoever builds them.
const MAX_FOREIGN: u64 = 512 << 20;

/// Contents of a regular file: mapped read-only, or a copy where another user could cut the file short.
#[derive(Debug)]
pub struct ImageFile {
    bytes: Bytes,
    version: FileVersion,
    is_ours: bool,
}

#[derive(Debug)]
enum Bytes {
    Mapped(Mmap),
    Copied(Vec<u8>),
}

impl ImageFile {
    /// Opens a regular file, without blocking, and maps it; a file that belongs to another user is read, if it has at
    /// most 512 MiB.
    ///
    /// The path comes from recorded data and may lead anywhere: see [`RegularFile`]. Symbolic links are
    /// followed (`libc.so.6` was one for decades).
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::read(&RegularFile::open(path)?)
    }

    /// Maps or reads a file that is open already, as [`open`](Self::open) does.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn read(file: &RegularFile) -> Result<Self, OpenError> {
        if file.metadata().len() == 0 {
            // Nor can an empty file be mapped.
            return Err(OpenError::Empty);
        }
        Self::with_bytes(file, file.is_ours())
    }

    /// Copies a file that is open already, whoever it belongs to. The file itself is not in use any more then.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn copy(file: &RegularFile) -> Result<Self, OpenError> {
        Self::with_bytes(file, false)
    }

    fn with_bytes(file: &RegularFile, is_mapped: bool) -> Result<Self, OpenError> {
        let bytes = match is_mapped {
            true => Bytes::Mapped(map(file)?),
            false => match file.read_all(MAX_FOREIGN) {
                Err(error) if error.raw_os_error() == Some(libc::EFBIG) => {
                    return Err(OpenError::TooLong);
                }
                read => Bytes::Copied(read?),
            },
        };
        Ok(Self {
            bytes,
            version: FileVersion::of(file.metadata()),
            is_ours: file.is_ours(),
        })
    }

    /// Returns the bytes of the file. They may change while root or this program's user writes to it, and reading
    /// them ends in SIGBUS if one of these cuts it short.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped(bytes) => bytes,
            Bytes::Copied(bytes) => bytes,
        }
    }

    /// Returns true if the file itself is in use, as it is no copy.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        matches!(self.bytes, Bytes::Mapped(_))
    }

    /// Returns true if the path leads to this very file.
    #[must_use]
    pub fn is_at(&self, path: &Path) -> bool {
        let found = std::fs::metadata(path);
        found.is_ok_and(|found| FileVersion::of(&found).is_same_file(&self.version))
    }

    /// Returns the inode number.
    #[must_use]
    pub fn inode(&self) -> u64 {
        self.version.inode()
    }

    /// Returns the state that the file had when it was opened.
    #[must_use]
    pub fn version(&self) -> FileVersion {
        self.version
    }

    /// Returns true if [no stranger](RegularFile::is_ours) made the file.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.is_ours
    }

    /// Gives the memory of a range of bytes back to the system. They stay what they are, and are
    /// read from the file again when next touched. A copy stays where it is.
    pub fn release(&self, range: Range<usize>) {
        let Bytes::Mapped(mapped) = &self.bytes else {
            return;
        };
        let len = mapped.len();
        let range = range.start.min(len)..range.end.min(len);
        // SAFETY: the mapping is of a file and read-only, as `open` makes it, so that no page of it
        // differs from the file: what is dropped is read from there again when next touched, by
        // whichever thread.
        let advised = unsafe {
            let dont_need = UncheckedAdvice::DontNeed;
            mapped.unchecked_advise_range(dont_need, range.start, range.len())
        };
        // Where this fails, memory is used for longer, and nothing else happens.
        drop(advised);
    }
}

impl AsRef<[u8]> for ImageFile {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

fn map(file: &RegularFile) -> io::Result<Mmap> {
    // SAFETY: the mapping is read-only and private. Only root and this program's user may still change
    // or truncate the file while it is mapped. Every reader treats the bytes as untrusted and copies
    // each value before checking it; truncation ends in SIGBUS, as with every tool that maps ELF files,
    // the dynamic linker included.
    unsafe { Mmap::map(file.as_fd().as_raw_fd()) }
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

    /// A mapping would end this very process.
    #[test]
    fn a_file_of_another_user_may_be_cut_short() {
        rprof_testing::needs!(Root);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![7; 100_000]).unwrap();
        std::os::unix::fs::chown(file.path(), Some(65534), None).unwrap();
        let image = ImageFile::open(file.path()).unwrap();
        file.as_file().set_len(10).unwrap();
        image.release(0..100_000);
        assert_eq!(image.bytes(), vec![7; 100_000]);
        file.as_file().set_len(MAX_FOREIGN + 1).unwrap();
        let too_long = ImageFile::open(file.path()).err();
        assert_eq!(too_long, Some(OpenError::TooLong));
        std::os::unix::fs::chown(file.path(), Some(0), None).unwrap();
        assert_eq!(ImageFile::open(file.path()).err(), None);
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

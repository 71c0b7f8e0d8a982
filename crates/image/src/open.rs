//! [`ImageFile`]: the bytes of an image, from a regular file only.

use crate::file_version::FileVersion;
use crate::open_error::OpenError;
use crate::regular_file::RegularFile;
use memmap2::{Mmap, UncheckedAdvice};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::time::SystemTime;

/// Maximum length of another user's file, in bytes. Users usually own the longer ones, with debug
/// information.
const MAX_FOREIGN: u64 = 512 << 20;

/// Contents of a file: a read-only mapping, or a copy if another user could truncate the file.
#[derive(Debug)]
pub struct ImageFile {
    bytes: Bytes,
    version: FileVersion,
    /// The later one of creation and last write, as far as the file system records them.
    written: Option<SystemTime>,
    is_ours: bool,
}

#[derive(Debug)]
enum Bytes {
    Mapped(Mmap),
    Copied(Vec<u8>),
}

impl ImageFile {
    /// Maps a regular file, without blocking. Copies a file of another user, up to 512 MiB.
    ///
    /// The path may be untrusted: see [`RegularFile`]. Follows symbolic links (`libc.so.6` was one
    /// for decades).
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::read(&RegularFile::open(path)?)
    }

    /// Maps or copies an open file, as [`open`](Self::open) does.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn read(file: &RegularFile) -> Result<Self, OpenError> {
        if file.metadata().len() == 0 {
            return Err(OpenError::Empty);
        }
        Self::with_bytes(file, file.is_ours())
    }

    /// Copies an open file of any owner.
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
            written: written(file.metadata()),
            is_ours: file.is_ours(),
        })
    }

    /// Returns the bytes. They may change while root or this program's user writes to the file. If
    /// one of them truncates it, reading ends in SIGBUS.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped(bytes) => bytes,
            Bytes::Copied(bytes) => bytes,
        }
    }

    /// Returns true for a mapping, false for a copy.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        matches!(self.bytes, Bytes::Mapped(_))
    }

    /// Returns true if the path still leads to this file.
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

    /// Returns the version at the time of opening.
    #[must_use]
    pub fn version(&self) -> FileVersion {
        self.version
    }

    /// Returns true if the file was created or last written after `time`.
    #[must_use]
    pub fn was_written_after(&self, time: SystemTime) -> bool {
        self.written.is_some_and(|written| written > time)
    }

    /// Returns true if the file is [trusted](RegularFile::is_ours).
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.is_ours
    }

    /// Releases the memory of a byte range. The next access reads the file again. Does nothing for
    /// a copy.
    pub fn release(&self, range: Range<usize>) {
        let Bytes::Mapped(mapped) = &self.bytes else {
            return;
        };
        let len = mapped.len();
        let range = range.start.min(len)..range.end.min(len);
        // SAFETY: the mapping is of a file and read-only, as `map` makes it, so no page of it
        // differs from the file. Any thread that touches a dropped page reads it from the file
        // again.
        let advised = unsafe {
            let dont_need = UncheckedAdvice::DontNeed;
            mapped.unchecked_advise_range(dont_need, range.start, range.len())
        };
        // A failure only keeps memory in use.
        drop(advised);
    }
}

impl AsRef<[u8]> for ImageFile {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

fn written(metadata: &std::fs::Metadata) -> Option<SystemTime> {
    let times = [metadata.modified(), metadata.created()];
    times.into_iter().flatten().max()
}

fn map(file: &RegularFile) -> io::Result<Mmap> {
    // SAFETY: the mapping is read-only and private. Only root, this program's user, and a group
    // with write permission may still change or truncate the file while it is mapped. Readers treat
    // the bytes as untrusted and copy each value before checking it; truncation ends in SIGBUS, as
    // with every tool that maps ELF files, and the dynamic linker.
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

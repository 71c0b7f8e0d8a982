//! [`LocatedFile`] and [`RegularFile`]: check the type of a file before opening it.
//!
//! Opening a FIFO hangs, opening a device has effects, and a path may change after a check. So an
//! untrusted path is resolved once, to an `O_PATH` descriptor. It is checked, and then opened
//! through `/proc/self/fd`, even if the name leads elsewhere by then.

use crate::credentials::Credentials;
use crate::open_error::OpenError;
use rustix::fs::{Mode, OFlags, SeekFrom};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Treatment of a symbolic link at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastLink {
    /// Opens the target of the link.
    Follow,
    /// Do not follow it: its creator would choose the file.
    Refuse,
}

impl LastLink {
    /// Returns the `open(2)` flags for resolving only.
    pub(crate) fn flags(self) -> OFlags {
        match self {
            Self::Follow => OFlags::PATH | OFlags::CLOEXEC,
            Self::Refuse => OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        }
    }
}

/// File of any type at a resolved path, not open for reading.
#[derive(Debug)]
pub struct LocatedFile {
    place: OwnedFd,
    metadata: Metadata,
}

impl LocatedFile {
    /// Resolves a path in this program's namespace.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn at(path: &Path, last: LastLink) -> Result<Self, OpenError> {
        let place = rustix::fs::open(path, last.flags(), Mode::empty());
        Self::new(place.map_err(io::Error::from)?)
    }

    pub(crate) fn new(place: OwnedFd) -> Result<Self, OpenError> {
        let place = File::from(place);
        let metadata = place.metadata()?;
        Ok(Self {
            place: place.into(),
            metadata,
        })
    }

    /// Returns the metadata at the time of resolving.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Opens a regular file with the rights of this thread. Never blocks, even if the file has a
    /// lease (fcntl(2)).
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(&self) -> Result<RegularFile, OpenError> {
        if self.metadata.is_symlink() {
            return Err(OpenError::SymbolicLink);
        }
        if !self.metadata.is_file() {
            return Err(OpenError::NotARegularFile);
        }
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC)
            .open(format!("/proc/self/fd/{}", self.place.as_raw_fd()))?;
        let metadata = file.metadata()?;
        Ok(RegularFile { file, metadata })
    }
}

/// Regular file, open for reading.
#[derive(Debug)]
pub struct RegularFile {
    file: File,
    metadata: Metadata,
}

impl RegularFile {
    /// Opens a path with this program's rights. Follows symbolic links.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        LocatedFile::at(path, LastLink::Follow)?.open()
    }

    /// Returns the metadata at the time of opening. The length may have changed since.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the current length in bytes.
    ///
    /// # Errors
    /// Errors of `fstat`.
    pub fn current_len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Returns true if the file belongs to root or this program's user (under `sudo` also the
    /// invoking user), and is not world-writable. Other users cannot truncate it, unless their
    /// group may write to it. Reading a mapping past the end of its file kills the reader
    /// (`SIGBUS`).
    #[must_use]
    pub fn is_ours(&self) -> bool {
        let owner = self.metadata.uid();
        let us = rustix::process::geteuid().as_raw();
        let is_known = owner == 0 || owner == us || sudo_user() == Some(owner);
        is_known && self.metadata.mode() & 0o002 == 0
    }

    /// Returns true if a long file is almost only holes, which cost its creator nothing.
    ///
    /// Compressed files may occupy a third of their length. Programs whose segments are aligned to huge
    /// pages, as by BOLT, have holes of up to 2 MiB before each. Some remote file systems report no
    /// blocks.
    #[must_use]
    pub fn is_mostly_holes(&self) -> bool {
        const SHORT: u64 = 16 << 20;
        let Ok(now) = self.file.metadata() else {
            return false;
        };
        // stat(2) blocks always have 512 bytes.
        let allocated = now.blocks().saturating_mul(512);
        now.len() > SHORT && allocated > 0 && allocated < now.len() / 8
    }

    /// Fills the buffer from an offset, up to the end of the file. Returns the number of bytes.
    ///
    /// # Errors
    /// Errors of `pread`.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut have = 0;
        while let Some(rest) = into.get_mut(have..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, offset + have as u64) {
                Ok(0) => break,
                Ok(more) => have += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(have)
    }

    /// Reads the whole file, up to `most` bytes. Holes take no memory.
    ///
    /// # Errors
    /// `EFBIG` for a longer file; errors of `pread`.
    pub fn read_all(&self, most: u64) -> io::Result<Vec<u8>> {
        self.read_all_while(most, || true)
    }

    /// Reads as [`read_all`](Self::read_all) does, as long as `wanted` returns true. Checks every 4
    /// MiB.
    ///
    /// # Errors
    /// `ECANCELED` if not wanted; errors of [`read_all`](Self::read_all).
    pub fn read_all_while(
        &self,
        most: u64,
        mut wanted: impl FnMut() -> bool,
    ) -> io::Result<Vec<u8>> {
        const PIECE: u64 = 4 << 20;
        let len = self.current_len()?;
        let too_long = || io::Error::from_raw_os_error(libc::EFBIG);
        let size = usize::try_from(len).ok().filter(|_| len <= most);
        // A fixed length, as a file that keeps growing has no end. Zeroed allocations use no memory
        // until touched.
        let mut bytes = vec![0; size.ok_or_else(too_long)?];
        let mut at = 0;
        while at < len {
            let (start, end) = match self.data_from(at) {
                Some((start, end)) => (start, end.min(len).min(start.saturating_add(PIECE))),
                None => break,
            };
            if !wanted() {
                return Err(io::Error::from_raw_os_error(libc::ECANCELED));
            }
            let range = start as usize..end as usize;
            let Some(part) = bytes.get_mut(range).filter(|part| !part.is_empty()) else {
                break;
            };
            let (wanted, have) = (part.len(), self.read_at(part, start)?);
            if have < wanted {
                bytes.truncate(start as usize + have);
                break;
            }
            at = end;
        }
        Ok(bytes)
    }

    /// Returns the next data range, up to the end if the file system reports no holes. `None` if
    /// only holes are left.
    fn data_from(&self, at: u64) -> Option<(u64, u64)> {
        let seek = |from| rustix::fs::seek(&self.file, from);
        match seek(SeekFrom::Data(at)) {
            Ok(start) => {
                let end = seek(SeekFrom::Hole(start)).unwrap_or(u64::MAX);
                Some((start, end))
            }
            Err(rustix::io::Errno::NXIO) => None,
            Err(_) => Some((at, u64::MAX)),
        }
    }
}

fn sudo_user() -> Option<u32> {
    Credentials::of_sudo_user().map(|credentials| credentials.user())
}

impl AsFd for RegularFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl From<RegularFile> for File {
    fn from(file: RegularFile) -> File {
        file.file
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    fn fifo(path: &Path) {
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, Mode::from_raw_mode(0o600), 0).unwrap();
    }

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), "text").unwrap();
        symlink("file", path("link")).unwrap();
        symlink("/dev/full", path("device")).unwrap();
        fifo(&path("fifo"));
        let open = |name: &str, last| {
            let located = LocatedFile::at(&path(name), last);
            located.and_then(|file| file.open()).err()
        };
        use LastLink::{Follow, Refuse};
        assert_eq!(open("file", Refuse), None);
        assert_eq!(open("link", Follow), None);
        assert_eq!(open("link", Refuse), Some(OpenError::SymbolicLink));
        assert_eq!(open("device", Follow), Some(OpenError::NotARegularFile));
        assert_eq!(open("fifo", Follow), Some(OpenError::NotARegularFile));
        assert_eq!(open(".", Follow), Some(OpenError::NotARegularFile));
        assert_eq!(open("none", Follow), Some(OpenError::NoSuchFile));
    }

    #[test]
    fn what_was_looked_at_is_what_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "seen").unwrap();
        let located = LocatedFile::at(&path, LastLink::Follow).unwrap();
        std::fs::remove_file(&path).unwrap();
        fifo(&path);
        let file = located.open().unwrap();
        assert_eq!(file.read_all(10).unwrap(), b"seen");
        assert_eq!(file.metadata().ino(), located.metadata().ino());
    }

    #[test]
    fn files_are_read_to_their_end_and_no_further_than_allowed() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let data: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
        file.write_all(&data).unwrap();
        let opened = RegularFile::open(file.path()).unwrap();
        assert_eq!(opened.read_all(100_000).unwrap(), data);
        let refused = opened.read_all(99_999).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EFBIG));
        let mut part = [0; 10];
        assert_eq!(opened.read_at(&mut part, 99_995).unwrap(), 5);
        assert_eq!(part[..5], data[99_995..]);
        file.as_file().set_len(7).unwrap();
        assert_eq!(opened.read_all(100_000).unwrap(), data[..7]);
    }

    #[test]
    fn a_file_of_holes_is_known_by_its_blocks() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().write_all_at(&[1; 4096], 0).unwrap();
        let opened = RegularFile::open(file.path()).unwrap();
        // Code behind a hole, as BOLT writes it.
        file.as_file().write_all_at(&[1; 4096], 6 << 20).unwrap();
        file.as_file().sync_all().unwrap();
        assert!(!opened.is_mostly_holes());
        file.as_file().set_len(32 << 20).unwrap();
        assert!(opened.is_mostly_holes());
        file.as_file().write_all_at(&vec![1; 8 << 20], 0).unwrap();
        file.as_file().sync_all().unwrap();
        assert!(!opened.is_mostly_holes());
    }

    #[test]
    fn holes_are_zeros() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"before").unwrap();
        file.as_file().set_len(1 << 30).unwrap();
        io::Seek::seek(&mut file, io::SeekFrom::Start(1 << 20)).unwrap();
        file.write_all(b"between").unwrap();
        let bytes = RegularFile::open(file.path()).unwrap();
        let bytes = bytes.read_all(1 << 30).unwrap();
        assert_eq!(bytes.len(), 1 << 30);
        assert!(bytes.starts_with(b"before\0\0"));
        assert_eq!(&bytes[1 << 20..(1 << 20) + 8], b"between\0");
        assert_eq!(bytes.last(), Some(&0));
    }
}

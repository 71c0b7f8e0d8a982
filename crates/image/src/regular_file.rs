//! [`LocatedFile`] and [`RegularFile`]: a file is looked at before it is opened for reading.
//!
//! Paths that others choose may lead to a FIFO, which would hang whoever opens it, to a device, which may act
//! when it is opened, or to something else a moment later. So a path is resolved once, to a descriptor
//! that is open for nothing (`O_PATH`); what that is decides about the rest; and what is opened
//! for reading is that very file, through `/proc/self/fd`, whatever its name leads to by then.

use crate::credentials::Credentials;
use crate::open_error::OpenError;
use rustix::fs::{Mode, OFlags, SeekFrom};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Whether a symbolic link is followed, where it is the last part of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastLink {
    /// It is.
    Follow,
    /// It is not: whoever made it would choose the file.
    Refuse,
}

impl LastLink {
    /// Returns the flags by which a path is resolved, and nothing opened.
    pub(crate) fn flags(self) -> OFlags {
        match self {
            Self::Follow => OFlags::PATH | OFlags::CLOEXEC,
            Self::Refuse => OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        }
    }
}

/// File that a path led to, of whatever kind, which is not open for reading.
#[derive(Debug)]
pub struct LocatedFile {
    place: OwnedFd,
    metadata: Metadata,
}

impl LocatedFile {
    /// Resolves a path as this program sees it.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn at(path: &Path, last: LastLink) -> Result<Self, OpenError> {
        let place = rustix::fs::open(path, last.flags(), Mode::empty());
        Self::new(place.map_err(io::Error::from)?)
    }

    /// Takes a descriptor that is open for nothing.
    pub(crate) fn new(place: OwnedFd) -> Result<Self, OpenError> {
        let place = File::from(place);
        let metadata = place.metadata()?;
        Ok(Self {
            place: place.into(),
            metadata,
        })
    }

    /// Returns what the file was when it was located: kind, owner, device, inode, number of names, size.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Opens the file for reading, if it is a regular one, with the rights that this thread has. Does not block, not even
    /// where somebody has a lease on the file.
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
    /// Opens a path as this program sees it, with its own rights, following symbolic links.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        LocatedFile::at(path, LastLink::Follow)?.open()
    }

    /// Returns what the file was when it was opened. It may have grown since, or been cut short.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the length in bytes that the file has by now.
    ///
    /// # Errors
    /// Those of `fstat`.
    pub fn current_len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Returns true if nobody but root and this program's user can cut the file short: it belongs to one of them, and not
    /// everybody may write to it. Only then is it safe to map: reading a mapping beyond the end of its file
    /// kills the reader (`SIGBUS`). Who became root by `sudo` is still that user.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        let owner = self.metadata.uid();
        let us = rustix::process::geteuid().as_raw();
        let is_known = owner == 0 || owner == us || sudo_user() == Some(owner);
        is_known && self.metadata.mode() & 0o002 == 0
    }

    /// Returns true if nearly all of a long file are holes by now, which cost whoever made it nothing. File
    /// systems that compress have honest files of a third of their length; some that are far away know of no
    /// blocks at all.
    #[must_use]
    pub fn is_mostly_holes(&self) -> bool {
        const SHORT: u64 = 1 << 20;
        let Ok(now) = self.file.metadata() else {
            return false;
        };
        // Blocks are of 512 bytes, whatever those of the file system (stat(2)).
        let allocated = now.blocks().saturating_mul(512);
        now.len() > SHORT && allocated > 0 && allocated < now.len() / 8
    }

    /// Reads bytes from an offset on, fewer than there is room for only where the file ends. Returns their
    /// number.
    ///
    /// # Errors
    /// Those of `pread`.
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

    /// Reads the whole file as it is by now, if it has at most `most` bytes. Holes are not read, and take no
    /// memory.
    ///
    /// # Errors
    /// `EFBIG` for a longer file, and those of `pread`.
    pub fn read_all(&self, most: u64) -> io::Result<Vec<u8>> {
        self.read_all_while(most, || true)
    }

    /// Reads the whole file as [`read_all`](Self::read_all) does, for as long as that is `wanted`, which is asked again
    /// every 4 MiB.
    ///
    /// # Errors
    /// `ECANCELED` once it is not wanted any more, and those of [`read_all`](Self::read_all).
    pub fn read_all_while(
        &self,
        most: u64,
        mut wanted: impl FnMut() -> bool,
    ) -> io::Result<Vec<u8>> {
        const PIECE: u64 = 4 << 20;
        let len = self.current_len()?;
        let too_long = || io::Error::from_raw_os_error(libc::EFBIG);
        let size = usize::try_from(len).ok().filter(|_| len <= most);
        // Not longer than it was: a file that grows as fast as it is read has no end. Zeros from the
        // allocator are pages that nobody has touched.
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

    /// Returns the next stretch of the file that is no hole; all that is left where the file system does not tell, `None`
    /// where nothing is left.
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

/// Returns the user who became root by `sudo`.
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

    /// Whatever its name leads to by then.
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
        file.as_file().set_len(16 << 20).unwrap();
        file.as_file().write_all_at(&[1; 4096], 0).unwrap();
        file.as_file().sync_all().unwrap();
        let opened = RegularFile::open(file.path()).unwrap();
        assert!(opened.is_mostly_holes());
        file.as_file().write_all_at(&vec![1; 4 << 20], 0).unwrap();
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

//! [`MapFile`]: safe opening of a perf map or jitdump.
//!
//! `/tmp` is world-writable, and in a container all paths are untrusted. So the path is resolved in
//! the process's own root, must not end in a symbolic link, is checked, and then opened with the
//! rights of the process ([`FileView`]).

use rprof_image::{FileVersion, FileView, OpenError, RegularFile};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Maximum length of a file, in bytes.
pub const MAX_BYTES: u64 = 256 << 20;

/// Cause for not using an existing file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Symbolic link: its creator would choose the file.
    #[error("it is a symbolic link")]
    SymbolicLink,
    /// Folder, FIFO, socket or device.
    #[error("it is not a regular file")]
    NotARegularFile,
    /// Another user could forge names for the process.
    #[error("it belongs to user {0}, not to the process's user, root or you")]
    ForeignOwner(u32),
    /// Hard links: a private file may have been linked to this name.
    #[error("it has {0} hard links")]
    SeveralNames(u64),
    /// Longer than [`MAX_BYTES`], holes included.
    #[error("it has {0} bytes; the limit is {MAX_BYTES}")]
    TooLong(u64),
    /// The process or this program may not open it.
    #[error("it cannot be opened: {0}")]
    NotOpened(OpenError),
    /// Reading failed.
    #[error("it cannot be read: {0}")]
    Unreadable(io::Error),
}

/// A checked and opened perf map or jitdump.
#[derive(Debug)]
pub struct MapFile {
    file: RegularFile,
    path: PathBuf,
    /// Nanoseconds by which the writer's CLOCK_MONOTONIC is ahead of the kernel's.
    clock_ahead: i64,
}

impl MapFile {
    /// Opens an absolute `path` in a `view`. The owner must be one of `owners`, root, or this
    /// program's user. `None` if there is no file.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn open(view: &FileView, path: &Path, owners: &[u32]) -> Result<Option<Self>, Refusal> {
        let located = match view.locate(path) {
            Err(OpenError::NoSuchFile) => return Ok(None),
            located => located.map_err(Refusal::NotOpened)?,
        };
        let metadata = located.metadata();
        if metadata.is_symlink() {
            return Err(Refusal::SymbolicLink);
        }
        if !metadata.is_file() {
            return Err(Refusal::NotARegularFile);
        }
        let uid = metadata.uid();
        let us = rustix::process::geteuid().as_raw();
        if uid != 0 && uid != us && !owners.contains(&uid) {
            return Err(Refusal::ForeignOwner(uid));
        }
        // A deleted file without links is fine.
        if metadata.nlink() > 1 {
            return Err(Refusal::SeveralNames(metadata.nlink()));
        }
        if metadata.len() > MAX_BYTES {
            return Err(Refusal::TooLong(metadata.len()));
        }
        let file = view.open(&located).map_err(Refusal::NotOpened)?;
        let path = path.to_owned();
        Ok(Some(Self {
            file,
            path,
            clock_ahead: 0,
        }))
    }

    /// Sets how far the writer's `CLOCK_MONOTONIC` is ahead of the kernel's, in nanoseconds.
    pub(crate) fn with_clock_ahead(self, clock_ahead: i64) -> Self {
        Self {
            clock_ahead,
            ..self
        }
    }

    /// Returns the nanoseconds by which the writer's `CLOCK_MONOTONIC` is ahead of the kernel's, in
    /// another time namespace (time_namespaces(7)).
    #[must_use]
    pub fn clock_ahead(&self) -> i64 {
        self.clock_ahead
    }

    /// Returns the path in the process's namespace.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns device and inode.
    pub(crate) fn identity(&self) -> (u64, u64) {
        (self.file.metadata().dev(), self.file.metadata().ino())
    }

    /// Returns the version of the file at the time of opening.
    #[must_use]
    pub fn version(&self) -> FileVersion {
        FileVersion::of(self.file.metadata())
    }

    /// Returns true if the file was last written before `time`.
    #[must_use]
    pub fn was_written_before(&self, time: SystemTime) -> bool {
        let modified = self.file.metadata().modified();
        modified.is_ok_and(|modified| modified < time)
    }

    /// Returns true if the file was created after `time`, and the file system records that.
    #[must_use]
    pub fn is_younger_than(&self, time: SystemTime) -> bool {
        let created = self.file.metadata().created();
        created.is_ok_and(|created| created > time)
    }

    /// Returns the current length in bytes.
    ///
    /// # Errors
    /// [`Refusal`], also for a file that has become too long.
    pub fn len(&self) -> Result<u64, Refusal> {
        match self.file.current_len().map_err(Refusal::Unreadable)? {
            len if len > MAX_BYTES => Err(Refusal::TooLong(len)),
            len => Ok(len),
        }
    }

    /// Returns true if a long file is almost only holes.
    #[must_use]
    pub fn is_mostly_holes(&self) -> bool {
        self.file.is_mostly_holes()
    }

    /// Returns true if the file is currently empty.
    ///
    /// # Errors
    /// [`Refusal`], as [`len`](Self::len).
    pub fn is_empty(&self) -> Result<bool, Refusal> {
        Ok(self.len()? == 0)
    }

    /// Fills the buffer from an offset, up to the end of the file. Returns the number of bytes.
    ///
    /// # Errors
    /// [`Refusal::Unreadable`].
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, Refusal> {
        let read = self.file.read_at(bytes, offset);
        read.map_err(Refusal::Unreadable)
    }

    /// Reads the current contents.
    ///
    /// # Errors
    /// [`Refusal`]: the file may have grown since it was opened.
    pub fn read(&self) -> Result<Vec<u8>, Refusal> {
        self.len()?;
        let read = self.file.read_all(MAX_BYTES);
        read.map_err(Refusal::Unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::Mode;
    use std::fs::File;
    use std::os::unix::fs::symlink;

    fn why(root: &Path, path: &str) -> String {
        let view = FileView::beneath(root).unwrap();
        match MapFile::open(&view, Path::new(path), &[]) {
            Ok(None) => "nothing".into(),
            Ok(Some(file)) => String::from_utf8(file.read().unwrap()).unwrap(),
            Err(refusal) => refusal.to_string(),
        }
    }

    #[test]
    fn only_what_may_be_used() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let tmp = root.join("tmp");
        std::fs::create_dir_all(&tmp).unwrap();
        std::fs::write(tmp.join("good"), "map").unwrap();
        symlink(tmp.join("good"), tmp.join("link")).unwrap();
        symlink("/nowhere", tmp.join("dangling")).unwrap();
        symlink("/tmp", root.join("other")).unwrap();
        symlink("/etc", root.join("host")).unwrap();
        std::fs::create_dir(tmp.join("folder")).unwrap();
        std::fs::write(tmp.join("one"), "").unwrap();
        std::fs::hard_link(tmp.join("one"), tmp.join("two")).unwrap();
        let sparse = File::create(tmp.join("sparse")).unwrap();
        sparse.set_len(10 << 30).unwrap();
        let fifo = tmp.join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        for (path, expected) in [
            ("/tmp/good", "map"),
            ("/other/good", "map"),
            ("/host/passwd", "nothing"),
            ("/tmp/../../../../../../tmp/good", "map"),
            ("/tmp/none", "nothing"),
            ("/tmp/good/x", "nothing"),
            ("/tmp/link", "it is a symbolic link"),
            ("/tmp/dangling", "it is a symbolic link"),
            ("/tmp/folder", "it is not a regular file"),
            ("/tmp/fifo", "it is not a regular file"),
            ("/tmp/one", "it has 2 hard links"),
        ] {
            assert_eq!(why(root, path), expected, "{path}");
        }
        assert!(why(root, "/tmp/sparse").contains("10737418240 bytes"));
    }

    #[test]
    fn what_is_deleted_is_still_held() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map");
        std::fs::write(&path, "1 ").unwrap();
        let view = FileView::beneath(folder.path()).unwrap();
        let held = MapFile::open(&view, Path::new("/map"), &[]);
        let held = held.unwrap().unwrap();
        std::fs::write(&path, "1 2 three").unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(held.read().unwrap(), b"1 2 three");
    }
}

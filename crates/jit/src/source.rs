//! [`MapFile`]: opening a file that a stranger may have put there.
//!
//! `/tmp` is anybody's, and within a container all is. So the path is resolved within the
//! process's own root, its last part is no symbolic link, what it leads to is looked at
//! before it is opened, and that is done with the rights of the process ([`FileView`]).

use rprof_image::{FileVersion, FileView, OpenError, RegularFile};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Maximum length of a file that is read, in bytes.
pub const MAX_BYTES: u64 = 256 << 20;

/// Reason why a file that exists is not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A link: whoever made it chooses the file.
    #[error("it is a symbolic link")]
    SymbolicLink,
    /// A folder, FIFO, socket or device.
    #[error("it is not a regular file")]
    NotARegularFile,
    /// Somebody else could give the process names of their choice.
    #[error("it belongs to user {0}, who is neither that of the process, nor root, nor us")]
    ForeignOwner(u32),
    /// Somebody may have made a second name for a file that was not meant for us.
    #[error("it has {0} names (hard links)")]
    SeveralNames(u64),
    /// Too long, be it with holes.
    #[error("it has {0} bytes, and at most {MAX_BYTES} are read")]
    TooLong(u64),
    /// The process, or this program, may not open it.
    #[error("it cannot be opened: {0}")]
    NotOpened(OpenError),
    /// The system refused to read it.
    #[error("it cannot be read: {0}")]
    Unreadable(io::Error),
}

/// A perf map or jitdump that was opened, and may be used.
#[derive(Debug)]
pub struct MapFile {
    file: RegularFile,
    path: PathBuf,
}

impl MapFile {
    /// Opens `path`, which is absolute, as a process sees it, with the rights of its `view`. Its owner has to be
    /// one of `owners`, or root, or whoever runs this. `None` where there is nothing of that name.
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
        // One without a name any more is as good as one with one.
        if metadata.nlink() > 1 {
            return Err(Refusal::SeveralNames(metadata.nlink()));
        }
        if metadata.len() > MAX_BYTES {
            return Err(Refusal::TooLong(metadata.len()));
        }
        let file = view.open(&located).map_err(Refusal::NotOpened)?;
        let path = path.to_owned();
        Ok(Some(Self { file, path }))
    }

    /// Returns the path, as the process sees it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns device and inode.
    pub(crate) fn identity(&self) -> (u64, u64) {
        (self.file.metadata().dev(), self.file.metadata().ino())
    }

    /// Returns the state that the file had when it was opened.
    #[must_use]
    pub fn version(&self) -> FileVersion {
        FileVersion::of(self.file.metadata())
    }

    /// Returns whether it was made later than `time`; false where the file system does not tell.
    #[must_use]
    pub fn is_younger_than(&self, time: SystemTime) -> bool {
        let created = self.file.metadata().created();
        created.is_ok_and(|created| created > time)
    }

    /// Returns the length in bytes that it has by now.
    ///
    /// # Errors
    /// [`Refusal`], also where there are too many.
    pub fn len(&self) -> Result<u64, Refusal> {
        match self.file.current_len().map_err(Refusal::Unreadable)? {
            len if len > MAX_BYTES => Err(Refusal::TooLong(len)),
            len => Ok(len),
        }
    }

    /// Returns true if nearly all of a long file are holes by now, which cost whoever made it nothing.
    #[must_use]
    pub fn is_mostly_holes(&self) -> bool {
        self.file.is_mostly_holes()
    }

    /// Returns true if it is empty by now.
    ///
    /// # Errors
    /// [`Refusal`], if it is too long or cannot be looked at.
    pub fn is_empty(&self) -> Result<bool, Refusal> {
        Ok(self.len()? == 0)
    }

    /// Reads bytes from an offset on, fewer than there is room for only where the file ends. Returns their
    /// number.
    ///
    /// # Errors
    /// [`Refusal::Unreadable`].
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, Refusal> {
        let read = self.file.read_at(bytes, offset);
        read.map_err(Refusal::Unreadable)
    }

    /// Reads its contents as they are by now.
    ///
    /// # Errors
    /// [`Refusal`]: it may have grown since it was opened.
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
            // A folder that is a link leads to where it leads within the root.
            ("/other/good", "map"),
            ("/host/passwd", "nothing"),
            ("/tmp/../../../../../../tmp/good", "map"),
            ("/tmp/none", "nothing"),
            ("/tmp/good/x", "nothing"),
            ("/tmp/link", "it is a symbolic link"),
            ("/tmp/dangling", "it is a symbolic link"),
            ("/tmp/folder", "it is not a regular file"),
            ("/tmp/fifo", "it is not a regular file"),
            ("/tmp/one", "it has 2 names (hard links)"),
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

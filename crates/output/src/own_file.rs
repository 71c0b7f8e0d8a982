//! [`OwnFile`]: a file identified by device and inode, independent of its name.
//!
//! During a recording, others may move, delete or replace its file. So a later rename or removal
//! first checks that the path still names the same inode.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// Identity of a regular file that this process created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnFile {
    device: u64,
    inode: u64,
}

/// Current name of an open file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// The name is unchanged.
    Unmoved,
    /// The file has another name.
    Moved(PathBuf),
    /// The file has no name: its content is lost when it is closed.
    Deleted,
}

impl OwnFile {
    /// Returns the identity of an open file.
    ///
    /// # Errors
    /// The error of fstat(2); [`io::ErrorKind::InvalidInput`] unless it is a regular file.
    pub fn of(file: &File) -> io::Result<OwnFile> {
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        Ok(OwnFile {
            device: meta.dev(),
            inode: meta.ino(),
        })
    }

    pub(crate) fn at(path: &Path) -> io::Result<OwnFile> {
        let meta = fs::symlink_metadata(path)?;
        Ok(OwnFile {
            device: meta.dev(),
            inode: meta.ino(),
        })
    }

    /// Returns true if the path names the file itself, not a link to it.
    #[must_use]
    pub fn is_at(&self, path: &Path) -> bool {
        fs::symlink_metadata(path)
            .is_ok_and(|meta| (meta.dev(), meta.ino()) == (self.device, self.inode))
    }

    /// Renames the file if `from` still names it; otherwise changes nothing and returns false.
    ///
    /// # Errors
    /// The error of renameat2(2); [`io::ErrorKind::AlreadyExists`] if `to` exists.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<bool> {
        if !self.is_at(from) {
            return Ok(false);
        }
        rename_to_free(from, to).map(|()| true)
    }

    /// Removes the file if the path still names it; otherwise changes nothing and returns false.
    ///
    /// # Errors
    /// The error of unlink(2).
    pub fn remove(&self, path: &Path) -> io::Result<bool> {
        if !self.is_at(path) {
            return Ok(false);
        }
        fs::remove_file(path).map(|()| true)
    }
}

impl Whereabouts {
    /// Looks up the current name of an open file, created as `path`, through `/proc/self/fd`.
    #[must_use]
    pub fn of(file: &File, path: &Path) -> Whereabouts {
        let Ok(own) = OwnFile::of(file) else {
            return Whereabouts::Unmoved;
        };
        if own.is_at(path) {
            return Whereabouts::Unmoved;
        }
        if file.metadata().is_ok_and(|meta| meta.nlink() == 0) {
            return Whereabouts::Deleted;
        }
        match fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())) {
            Ok(now) if own.is_at(&now) => Whereabouts::Moved(now),
            // One of several names was removed, or this process cannot see the folder.
            _ => Whereabouts::Unmoved,
        }
    }
}

/// Renames a file to a free name. Without `RENAME_NOREPLACE` in the file system, it checks the name
/// before.
pub(crate) fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => match fs::symlink_metadata(to) {
            Ok(_) => Err(Errno::EXIST.into()),
            Err(_) => fs::rename(from, to),
        },
        done => Ok(done?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_file_that_was_made_is_renamed_or_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, to) = (folder.path().join("own"), folder.path().join("to"));
        let file = File::create(&path).unwrap();
        let own = OwnFile::of(&file).unwrap();
        assert!(own.rename(&path, &to).unwrap() && own.is_at(&to));
        fs::write(&path, "precious").unwrap();
        assert!(!own.rename(&path, &folder.path().join("elsewhere")).unwrap());
        assert!(!own.remove(&path).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        let taken = own.rename(&to, &path).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        // A link to the file is not the file.
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&to, &link).unwrap();
        assert!(!own.is_at(&link) && !own.remove(&link).unwrap());
        assert!(own.remove(&to).unwrap() && !own.is_at(&to));
    }

    #[test]
    fn a_device_is_nobodys_own() {
        let null = File::options().write(true).open("/dev/null").unwrap();
        let refused = OwnFile::of(&null).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        let path = Path::new("/dev/null");
        assert_eq!(Whereabouts::of(&null, path), Whereabouts::Unmoved);
    }

    #[test]
    fn an_open_file_is_found_under_its_new_name() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let (path, to) = (folder.join("own"), folder.join("to"));
        let file = File::create(&path).unwrap();
        assert_eq!(Whereabouts::of(&file, &path), Whereabouts::Unmoved);
        fs::rename(&path, &to).unwrap();
        fs::write(&path, "another").unwrap();
        assert_eq!(
            Whereabouts::of(&file, &path),
            Whereabouts::Moved(to.clone())
        );
        fs::remove_file(&to).unwrap();
        assert_eq!(Whereabouts::of(&file, &path), Whereabouts::Deleted);
    }
}

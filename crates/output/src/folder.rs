//! [`Folder`]: an open folder, with access to its files by name only.
//!
//! A cache may be in the home folder of another user (`sudo -E`), who may place links in it at any
//! moment. So folders are opened one by one, without following links below the cache's path. Files
//! of other users, or with a second hard link, are not written.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, Metadata};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, mkdirat, open, openat, renameat, unlinkat};
use rustix::io::Errno;

/// An open folder.
#[derive(Debug)]
pub struct Folder(OwnedFd);

impl Folder {
    /// Opens a folder by its path, and follows links in it.
    ///
    /// # Errors
    /// The error of open(2), as in the other functions.
    pub fn open(path: &Path) -> io::Result<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Folder(open(path, flags, Mode::empty())?))
    }

    /// Opens a folder by path, and creates it with mode 0700 if it is missing.
    pub fn create(path: &Path) -> io::Result<Folder> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Folder::open(path)
    }

    /// Opens a child folder; fails on a link.
    pub fn child(&self, name: &OsStr) -> io::Result<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Folder(openat(&self.0, name, flags, Mode::empty())?))
    }

    /// Opens a child folder, and creates it with mode 0700 if it is missing.
    pub fn create_child(&self, name: &OsStr) -> io::Result<Folder> {
        match mkdirat(&self.0, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => self.child(name),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the names of the entries, without `.` and `..`.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Returns the metadata of an entry, without following links.
    pub fn metadata(&self, name: &OsStr) -> io::Result<Metadata> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        File::from(openat(&self.0, name, flags, Mode::empty())?).metadata()
    }

    /// Returns true if the effective user owns the folder.
    pub fn is_ours(&self) -> io::Result<bool> {
        let metadata = File::from(self.0.try_clone()?).metadata()?;
        Ok(metadata.uid() == rustix::process::geteuid().as_raw())
    }

    /// Returns true if only the owner may enter the folder.
    pub fn is_private(&self) -> io::Result<bool> {
        let metadata = File::from(self.0.try_clone()?).metadata()?;
        Ok(metadata.mode() & 0o077 == 0)
    }

    /// Opens a regular file for reading, without blocking.
    pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = openat(&self.0, name, flags | OFlags::CLOEXEC, Mode::empty())?;
        let file = File::from(file);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Reads the first 64 bytes of a regular file, without blocking.
    pub fn read_text(&self, name: &OsStr) -> io::Result<String> {
        let mut text = String::new();
        self.open_file(name)?.take(64).read_to_string(&mut text)?;
        Ok(text)
    }

    /// Replaces the text of a small file, and creates it if it is missing.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] unless it is a regular file of this user with one hard
    /// link.
    pub fn write_text(&self, name: &OsStr, text: &str) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let flags = flags | OFlags::NOCTTY | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.0, name, flags, Mode::from_raw_mode(0o644))?);
        let metadata = file.metadata()?;
        let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
        if !metadata.is_file() || !is_ours || metadata.nlink() != 1 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        file.set_len(0)?;
        file.write_all(text.as_bytes())
    }

    /// Creates a file of mode 0600, named `prefix` and six random hexadecimal digits.
    pub fn create_temporary(&self, prefix: &str) -> io::Result<(OsString, File)> {
        const MAX_TRIES: u64 = 100;
        let random = RandomState::new();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        for attempt in 0..MAX_TRIES {
            let name = format!("{prefix}{:06x}", random.hash_one(attempt) & 0xff_ffff);
            match openat(&self.0, &*name, flags, Mode::RUSR | Mode::WUSR) {
                Ok(file) => return Ok((name.into(), file.into())),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Renames an entry, and replaces an existing one.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.0, from, &self.0, to)?)
    }

    /// Removes a file or link.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Removes an empty folder.
    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_neither_read_nor_written_through_nor_entered() {
        let tmp = tempfile::tempdir().unwrap();
        let path = |name: &str| tmp.path().join(name);
        std::fs::create_dir(path("cache")).unwrap();
        std::fs::create_dir(path("elsewhere")).unwrap();
        std::fs::write(path("precious"), "precious").unwrap();
        symlink(path("precious"), path("cache/control")).unwrap();
        symlink(path("elsewhere"), path("cache/abcd")).unwrap();
        std::fs::hard_link(path("precious"), path("cache/hard")).unwrap();
        let folder = Folder::open(&path("cache")).unwrap();
        assert!(folder.read_text(OsStr::new("control")).is_err());
        assert!(folder.write_text(OsStr::new("control"), "1").is_err());
        assert!(folder.write_text(OsStr::new("hard"), "1").is_err());
        assert!(folder.create_child(OsStr::new("abcd")).is_err());
        assert_eq!(std::fs::read(path("precious")).unwrap(), b"precious");
        let names = folder.names().unwrap();
        assert_eq!(names.len(), 3, "{names:?}");
    }

    #[test]
    fn a_control_file_is_written_and_read() {
        let tmp = tempfile::tempdir().unwrap();
        let folder = Folder::create(&tmp.path().join("a/b")).unwrap();
        let name = OsStr::new("control");
        for text in ["86400", "1"] {
            folder.write_text(name, text).unwrap();
            assert_eq!(folder.read_text(name).unwrap(), text);
        }
        assert!(folder.is_ours().unwrap());
    }
}

//! [`PrivateCache`]: the user's cache files, kept between runs.
//!
//! Cache files may hold secrets of their user, and rprof trusts them later. So the folder (mode
//! 0700) and its files (0600) must belong to the effective user. Others are neither read nor
//! written: with `sudo -E` the home folder belongs to another user.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::folder::Folder;

/// Name prefix of unfinished files.
const TEMPORARY: &str = "new-";

/// An unfinished file older than this is abandoned: its writer was killed.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Name of the folder in the cache directory.
const NAME: &str = "rprof";

/// Cache folder of the user. It need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateCache {
    /// Folder that must exist.
    base: PathBuf,
    /// Nested folders below it, created on demand.
    below: Vec<OsString>,
}

impl PrivateCache {
    /// Returns the cache of this user: `rprof` in `XDG_CACHE_HOME`, else in `.cache` of `HOME`;
    /// `None` if neither is an absolute path.
    #[must_use]
    pub fn of_user() -> Option<PrivateCache> {
        PrivateCache::from_variables(std::env::var_os)
    }

    /// Returns the cache of [`of_user`](Self::of_user) with the given environment.
    #[must_use]
    pub fn from_variables(get: impl Fn(&'static str) -> Option<OsString>) -> Option<PrivateCache> {
        let absolute = |name| get(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let (base, below) = match absolute("XDG_CACHE_HOME") {
            Some(caches) => (caches, vec![NAME]),
            None => (absolute("HOME")?, vec![".cache", NAME]),
        };
        let below = below.into_iter().map(Into::into).collect();
        Some(PrivateCache { base, below })
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        (self.below.iter()).fold(self.base.clone(), |path, name| path.join(name))
    }

    /// Opens a file for reading. A later [`write`](Self::write) does not change the open file.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; [`io::ErrorKind::PermissionDenied`] if the folder or the file
    /// is open to other users; and system errors.
    pub fn open(&self, name: &str) -> io::Result<File> {
        let folder = self.folder()?;
        let file = folder.open_file(OsStr::new(name))?;
        let metadata = file.metadata()?;
        let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
        match is_ours && metadata.mode() & 0o077 == 0 {
            true => Ok(file),
            false => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }

    fn folder(&self) -> io::Result<Folder> {
        let mut folder = Folder::open(&self.base)?;
        for child in &self.below {
            folder = folder.child(child)?;
        }
        for_us_alone(&folder)?;
        Ok(folder)
    }

    /// Reads a file of at most `most` bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::FileTooLarge`], and the errors of [`open`](Self::open).
    pub fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let file = self.open(name)?;
        let len = file.metadata()?.len();
        if len > most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut bytes = Vec::with_capacity(len as usize);
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes a file atomically: concurrent readers see the old content or the new.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] if the folder belongs to another user, and system
    /// errors.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut folder = Folder::open(&self.base)?;
        for child in &self.below {
            // Do not create files in another user's folder.
            if !folder.is_ours()? {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            folder = folder.create_child(child)?;
        }
        for_us_alone(&folder)?;
        let (temporary, mut file) = folder.create_temporary(TEMPORARY)?;
        let written =
            (file.write_all(bytes)).and_then(|()| folder.rename(&temporary, OsStr::new(name)));
        if written.is_err() {
            folder.remove(&temporary).ok();
        }
        written
    }

    /// Removes the oldest files with the name prefix `prefix` until the others have at most `most`
    /// bytes. Files of equal age go by name. Also removes abandoned files.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] if the folder belongs to another user, and system
    /// errors. Skips files that it cannot inspect or remove.
    pub fn limit(&self, prefix: &str, most: u64) -> io::Result<()> {
        let folder = self.folder()?;
        let now = SystemTime::now();
        let mut files: Vec<(SystemTime, OsString, u64)> = Vec::new();
        for name in folder.names()? {
            let is_temporary = name.as_bytes().starts_with(TEMPORARY.as_bytes());
            if !is_temporary && !name.as_bytes().starts_with(prefix.as_bytes()) {
                continue;
            }
            let Ok(metadata) = folder.metadata(&name) else {
                continue;
            };
            let written = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            if !is_temporary {
                files.push((written, name, metadata.len()));
            } else if now.duration_since(written).is_ok_and(|age| age > ABANDONED) {
                folder.remove(&name).ok();
            }
        }
        files.sort();
        let mut sum = files.iter().map(|(_, _, len)| *len).sum::<u64>();
        for (_, name, len) in files {
            if sum <= most {
                break;
            }
            if folder.remove(&name).is_ok() {
                sum -= len;
            }
        }
        Ok(())
    }
}

/// Refuses a folder that belongs to another user or that others may enter.
fn for_us_alone(folder: &Folder) -> io::Result<()> {
    match folder.is_ours()? && folder.is_private()? {
        true => Ok(()),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    fn cache(base: &Path) -> PrivateCache {
        let base = base.as_os_str().to_owned();
        let get = |name| (name == "HOME").then(|| base.clone());
        PrivateCache::from_variables(get).unwrap()
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_for_its_owner_alone() {
        let tmp = tempfile::tempdir().unwrap();
        let cache = cache(tmp.path());
        let missing = cache.read("list", 10).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        for text in ["first", "second"] {
            cache.write("list", text.as_bytes()).unwrap();
            assert_eq!(cache.read("list", 10).unwrap(), text.as_bytes());
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(cache.path(), tmp.path().join(".cache/rprof"));
        assert_eq!(mode(&cache.path()), 0o700);
        assert_eq!(mode(&cache.path().join("list")), 0o600);
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1);
        let long = cache.read("list", 5).unwrap_err();
        assert_eq!(long.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn nothing_is_read_that_others_may_have_written() {
        let tmp = tempfile::tempdir().unwrap();
        let cache = cache(tmp.path());
        cache.write("list", b"text").unwrap();
        let (folder, file) = (cache.path(), cache.path().join("list"));
        let denied = |what: &str| {
            let error = cache.read("list", 10).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{what}");
        };
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        denied("a file that others read");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o770)).unwrap();
        denied("a folder that others enter");
        assert!(cache.write("list", b"other").is_err());
        fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        assert_eq!(cache.read("list", 10).unwrap(), b"text");
        fs::rename(&file, tmp.path().join("elsewhere")).unwrap();
        symlink(tmp.path().join("elsewhere"), &file).unwrap();
        assert!(cache.read("list", 10).is_err(), "a link");
        cache.write("list", b"new").unwrap();
        assert_eq!(fs::read(tmp.path().join("elsewhere")).unwrap(), b"text");
    }

    #[test]
    fn the_oldest_files_of_a_kind_go_first() {
        let tmp = tempfile::tempdir().unwrap();
        let cache = cache(tmp.path());
        assert!(cache.limit("answers-", 0).is_err(), "nothing is there yet");
        let old = SystemTime::now() - Duration::from_secs(7200);
        let write = |name: &str, len, age| {
            cache.write(name, &vec![0; len]).unwrap();
            let file = File::options().write(true).open(cache.path().join(name));
            let file = file.unwrap();
            file.set_modified(old + Duration::from_secs(age)).unwrap();
        };
        for (name, len, age) in [
            ("answers-a", 10, 3),
            ("answers-b", 10, 1),
            ("answers-c", 10, 2),
            ("list", 1000, 0),
            ("new-123456", 10, 0),
            ("new-234567", 10, 7200),
        ] {
            write(name, len, age);
        }
        let names = || {
            let names = fs::read_dir(cache.path()).unwrap();
            let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
            let mut names: Vec<_> = names.map(name).collect();
            names.sort();
            names
        };
        cache.limit("answers-", 30).unwrap();
        let kept = ["answers-a", "answers-b", "answers-c", "list", "new-234567"];
        assert_eq!(
            names(),
            kept,
            "abandoned is what was not written for an hour"
        );
        cache.limit("answers-", 29).unwrap();
        assert_eq!(names(), ["answers-a", "answers-c", "list", "new-234567"]);
        cache.limit("answers-", 5).unwrap();
        assert_eq!(names(), ["list", "new-234567"]);
    }

    #[test]
    fn the_folder_is_that_of_the_environment() {
        let path = |variables: &[(&str, &str)]| {
            let get = |name| {
                let found = variables.iter().find(|(variable, _)| *variable == name);
                found.map(|(_, value)| OsString::from(*value))
            };
            PrivateCache::from_variables(get).map(|cache| cache.path())
        };
        let home = ("HOME", "/h");
        assert_eq!(path(&[home]), Some("/h/.cache/rprof".into()));
        let caches = ("XDG_CACHE_HOME", "/c");
        assert_eq!(path(&[home, caches]), Some("/c/rprof".into()));
        let relative = ("XDG_CACHE_HOME", "c");
        assert_eq!(path(&[home, relative]), Some("/h/.cache/rprof".into()));
        assert_eq!(path(&[("HOME", "")]), None);
        assert_eq!(path(&[]), None);
    }
}

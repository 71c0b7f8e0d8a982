//! [`PrivateCache`]: files that are kept for this user from one run to the next.
//!
//! They may say what only this user may see, and are believed when they are read again. So the folder and its files
//! belong to the user who runs this, for nobody else to read (mode 0700 and 0600), and whatever is not so is neither read
//! nor written: with `sudo -E` the home folder is another user's.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::folder::Folder;

/// Folder of the cache below that of all caches.
const NAME: &str = "rprof";

/// Folder of files of this user. Nothing of it need exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateCache {
    /// Folder that must exist.
    base: PathBuf,
    /// Folders in it, one in the other, that are created.
    below: Vec<OsString>,
}

impl PrivateCache {
    /// Returns the cache of this user: `rprof` in `XDG_CACHE_HOME`, else in `.cache` of `HOME`; `None` where neither is an
    /// absolute path.
    #[must_use]
    pub fn of_user() -> Option<PrivateCache> {
        PrivateCache::from_variables(std::env::var_os)
    }

    /// Returns the cache by another environment, as [`of_user`](Self::of_user).
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

    /// Opens a file for reading. One that is [written](Self::write) in its place leaves it as it is.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`], [`io::ErrorKind::PermissionDenied`] where others have a hand in it, and the errors of the
    /// system.
    pub fn open(&self, name: &str) -> io::Result<File> {
        let mut folder = Folder::open(&self.base)?;
        for child in &self.below {
            folder = folder.child(child)?;
        }
        for_us_alone(&folder)?;
        let file = folder.open_file(OsStr::new(name))?;
        let metadata = file.metadata()?;
        let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
        match is_ours && metadata.mode() & 0o077 == 0 {
            true => Ok(file),
            false => Err(io::ErrorKind::PermissionDenied.into()),
        }
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

    /// Writes a file, in place of one of this name: others that read meanwhile have the one or the other.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] where the folder is not this user's, and the errors of the system.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut folder = Folder::open(&self.base)?;
        for child in &self.below {
            // In somebody else's folder nothing of ours is to lie about.
            if !folder.is_ours()? {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            folder = folder.create_child(child)?;
        }
        for_us_alone(&folder)?;
        let (temporary, mut file) = folder.create_temporary("new-")?;
        let written =
            (file.write_all(bytes)).and_then(|()| folder.rename(&temporary, OsStr::new(name)));
        if written.is_err() {
            folder.remove(&temporary).ok();
        }
        written
    }
}

/// Refuses a folder that others may enter, or that is theirs.
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

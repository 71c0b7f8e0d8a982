//! [`ScratchFolder`]: a folder for one run's files, removed by the next run if this one is killed.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

const LOCK: &str = ".lock";

/// A folder without a lock file and older than this is abandoned: its creator was killed early.
const GRACE: Duration = Duration::from_secs(60);

/// A folder of mode 0700, removed with its contents when dropped.
///
/// [`remove_abandoned`] detects folders in use by a file lock, which the kernel releases when the
/// process ends.
#[derive(Debug)]
pub struct ScratchFolder {
    folder: TempDir,
    _lock: File,
}

impl ScratchFolder {
    /// Creates a folder with the name prefix `prefix` in `parent`.
    ///
    /// # Errors
    /// The error of the system.
    pub fn create(parent: &Path, prefix: &str) -> io::Result<ScratchFolder> {
        let folder = (tempfile::Builder::new().prefix(prefix))
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(parent)?;
        let lock = File::create_new(folder.path().join(LOCK))?;
        lock.lock()?;
        Ok(ScratchFolder {
            folder,
            _lock: lock,
        })
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes folders with a name prefix that killed runs of this user left, and returns their paths.
/// Skips folders that it cannot read or remove.
pub fn remove_abandoned(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return Vec::new();
    };
    let has_prefix = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(prefix))
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    (paths.filter(has_prefix))
        .filter(|path| is_abandoned(path) && std::fs::remove_dir_all(path).is_ok())
        .collect()
}

/// Returns true for a private folder of this user that no process has locked.
fn is_abandoned(path: &Path) -> bool {
    let Ok(meta) = std::fs::symlink_metadata(path) else {
        return false;
    };
    let is_ours = meta.uid() == rustix::process::geteuid().as_raw();
    if !meta.is_dir() || !is_ours || meta.mode() & 0o077 != 0 {
        return false;
    }
    match File::open(path.join(LOCK)) {
        Ok(lock) => lock.try_lock().is_ok(),
        Err(_) => {
            let age = meta.modified().ok().and_then(|time| time.elapsed().ok());
            age.is_some_and(|age| age > GRACE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_stays_and_what_was_left_behind_goes() {
        let parent = tempfile::tempdir().unwrap();
        let used = ScratchFolder::create(parent.path(), "x-").unwrap();
        let mode = used.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let left = parent.path().join("x-left");
        std::fs::create_dir(&left).unwrap();
        std::fs::set_permissions(&left, Permissions::from_mode(0o700)).unwrap();
        std::fs::write(left.join(LOCK), "").unwrap();
        std::fs::write(left.join("old1.data"), "").unwrap();
        for name in ["y-left", "x-open", "x-new"] {
            let path = parent.path().join(name);
            std::fs::create_dir(&path).unwrap();
            let mode = if name == "x-open" { 0o777 } else { 0o700 };
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        }
        assert_eq!(remove_abandoned(parent.path(), "x-"), [left]);
        assert!(used.path().exists() && parent.path().join("x-open").exists());
        let path = used.path().to_owned();
        drop(used);
        assert!(!path.exists());
    }
}

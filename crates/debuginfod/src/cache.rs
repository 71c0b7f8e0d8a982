//! Cache folder shared with the client of elfutils: `CACHE/BUILDID/debuginfo` and `.../executable`.
//! An empty file marks a file that servers did not have; control files beside the folders state how
//! long such a mark is valid, and when unused files are removed.
//!
//! Source: debuginfod-client-config(7), and the folder that the client of elfutils 0.188 makes.

use rprof_image::{BuildId, RemoteKind};
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tempfile::NamedTempFile;

/// State of a file in the cache.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cached {
    /// The file is in the cache, at this path.
    File(PathBuf),
    /// Servers did not have the file a short time ago.
    Missing,
    /// The cache has neither the file nor a mark.
    Unknown,
}

/// Cache folder of the elfutils client.
#[derive(Debug)]
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(crate) fn path(&self, build_id: &BuildId, kind: RemoteKind) -> PathBuf {
        self.root.join(build_id.to_string()).join(kind.name())
    }

    pub(crate) fn look(&self, build_id: &BuildId, kind: RemoteKind) -> Cached {
        let path = self.path(build_id, kind);
        let Ok(metadata) = fs::metadata(&path) else {
            return Cached::Unknown;
        };
        if !metadata.is_file() {
            return Cached::Unknown;
        }
        if metadata.len() > 0 {
            return Cached::File(path);
        }
        match age(&metadata) <= self.seconds("cache_miss_s", 600) {
            true => Cached::Missing,
            false => Cached::Unknown,
        }
    }

    /// Creates a temporary file to download into, in the folder of its final place.
    pub(crate) fn begin(&self, build_id: &BuildId, kind: RemoteKind) -> io::Result<NamedTempFile> {
        let path = self.path(build_id, kind);
        let folder = path.parent().unwrap_or(&self.root);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        // The name that elfutils gives such files as well, so that either cleans up after the other.
        let prefix = format!("{}.", kind.name());
        tempfile::Builder::new().prefix(&prefix).tempfile_in(folder)
    }

    /// Moves a complete file to its final place, atomically.
    pub(crate) fn keep(
        &self,
        file: NamedTempFile,
        build_id: &BuildId,
        kind: RemoteKind,
    ) -> io::Result<PathBuf> {
        let path = self.path(build_id, kind);
        file.as_file()
            .set_permissions(Permissions::from_mode(0o400))?;
        file.persist(&path).map_err(|error| error.error)?;
        Ok(path)
    }

    /// Marks a file that servers do not have.
    pub(crate) fn keep_missing(&self, build_id: &BuildId, kind: RemoteKind) -> io::Result<()> {
        let file = self.begin(build_id, kind)?;
        file.as_file()
            .set_permissions(Permissions::from_mode(0o000))?;
        let path = self.path(build_id, kind);
        file.persist(path).map(drop).map_err(|error| error.error)
    }

    /// Removes files that were not read for a week (or `max_unused_age_s`), at most once a day
    /// (`cache_clean_interval_s`). Links are not followed out of the cache, and only folders named
    /// like a build-id are touched.
    pub(crate) fn clean(&self) -> io::Result<()> {
        const STAMP: &str = "cache_clean_interval_s";
        let stamp = self.root.join(STAMP);
        let interval = self.seconds(STAMP, 86_400);
        match fs::metadata(&stamp) {
            Ok(metadata) if age(&metadata) <= interval => return Ok(()),
            Ok(_) => {}
            Err(_) => {
                DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(&self.root)?;
                return fs::write(&stamp, interval.as_secs().to_string());
            }
        }
        fs::write(&stamp, interval.as_secs().to_string())?;
        let unused = self.seconds("max_unused_age_s", 604_800);
        for folder in fs::read_dir(&self.root)?.filter_map(Result::ok) {
            let is_hex = |byte: &u8| byte.is_ascii_hexdigit();
            let name = folder.file_name();
            let is_build_id = name.as_encoded_bytes().iter().all(is_hex);
            if !is_build_id || !folder.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            clean_folder(&folder.path(), unused);
        }
        Ok(())
    }

    /// Reads the number of seconds in a control file.
    fn seconds(&self, name: &str, default: u64) -> Duration {
        let text = fs::read_to_string(self.root.join(name)).unwrap_or_default();
        Duration::from_secs(text.trim().parse().unwrap_or(default))
    }
}

fn clean_folder(folder: &Path, unused: Duration) {
    let Ok(files) = fs::read_dir(folder) else {
        return;
    };
    for file in files.filter_map(Result::ok) {
        // Not of what a link leads to.
        let Ok(metadata) = file.metadata() else {
            continue;
        };
        let used = metadata.accessed().into_iter().chain(metadata.modified());
        let idle = used.max().map_or(Duration::ZERO, since);
        if metadata.is_file() && idle > unused {
            fs::remove_file(file.path()).ok();
        }
    }
    // Fails unless it is empty.
    fs::remove_dir(folder).ok();
}

fn age(metadata: &Metadata) -> Duration {
    metadata.modified().map_or(Duration::MAX, since)
}

/// Returns the time since `time`; zero for the future.
fn since(time: SystemTime) -> Duration {
    time.elapsed().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::FileTimes;
    use std::io::Write;

    fn set_age(path: &Path, days: u64) {
        let time = SystemTime::now() - Duration::from_secs(days * 86_400);
        let times = FileTimes::new().set_accessed(time).set_modified(time);
        let file = fs::File::open(path).unwrap();
        file.set_times(times).unwrap();
    }

    #[test]
    fn files_and_misses() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::new(root.path().join("deep/cache"));
        let id = BuildId::new(&[0xab; 20]).unwrap();
        let kind = RemoteKind::DebugInfo;
        assert_eq!(cache.look(&id, kind), Cached::Unknown);
        cache.keep_missing(&id, kind).unwrap();
        assert_eq!(cache.look(&id, kind), Cached::Missing);
        assert_eq!(cache.look(&id, RemoteKind::Executable), Cached::Unknown);
        fs::write(cache.root.join("cache_miss_s"), "0\n").unwrap();
        let path = cache.path(&id, kind);
        fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
        set_age(&path, 1);
        assert_eq!(cache.look(&id, kind), Cached::Unknown);
        let mut file = cache.begin(&id, kind).unwrap();
        file.write_all(b"x").unwrap();
        assert_eq!(
            cache.look(&id, kind),
            Cached::Unknown,
            "not before it is complete"
        );
        let kept = cache.keep(file, &id, kind).unwrap();
        assert!(kept.ends_with("abababababababababababababababababababab/debuginfo"));
        assert_eq!(cache.look(&id, kind), Cached::File(kept.clone()));
        let entries = fs::read_dir(kept.parent().unwrap()).unwrap();
        assert_eq!(entries.count(), 1, "nothing else is left");
    }

    #[test]
    fn cleaning() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::new(root.path().to_owned());
        cache.clean().unwrap();
        let (old, new) = (root.path().join("aa01"), root.path().join("bb02"));
        let foreign = root.path().join("not-hex");
        for folder in [&old, &new, &foreign] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("debuginfo"), "x").unwrap();
        }
        for folder in [&old, &foreign] {
            set_age(&folder.join("debuginfo"), 8);
        }
        cache.clean().unwrap();
        assert!(old.exists(), "cleaned less than a day ago");
        set_age(&root.path().join("cache_clean_interval_s"), 2);
        cache.clean().unwrap();
        assert!(!old.exists());
        assert!(new.join("debuginfo").exists());
        assert!(foreign.join("debuginfo").exists());
    }
}

//! Cache folder shared with the client of elfutils: `CACHE/BUILDID/debuginfo` and `.../executable`.
//! An empty file is a cached miss. Control files beside the folders limit the age of misses and of
//! unused files.
//!
//! Source: debuginfod-client-config(7), and the folder created by the client of elfutils 0.188.

use rprof_image::{BuildId, RemoteKind};
use rprof_output::Folder;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cached {
    File(PathBuf),
    /// Recent miss.
    Missing,
    /// Not cached.
    Unknown,
}

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
        let entry = Folder::open(&self.root).and_then(|root| {
            let folder = root.child(OsStr::new(&build_id.to_string()))?;
            let metadata = folder.metadata(OsStr::new(kind.name()))?;
            Ok((root, metadata))
        });
        match entry {
            Ok((_, metadata)) if !metadata.is_file() => Cached::Unknown,
            Ok((_, metadata)) if metadata.len() > 0 => Cached::File(self.path(build_id, kind)),
            Ok((root, metadata)) if age(&metadata) <= seconds(&root, "cache_miss_s", 600) => {
                Cached::Missing
            }
            _ => Cached::Unknown,
        }
    }

    /// Creates a temporary file for a download, in the folder of its final path.
    pub(crate) fn begin(&self, build_id: &BuildId, kind: RemoteKind) -> io::Result<Download> {
        let folder_name = build_id.to_string();
        let folder = Folder::create(&self.root)?.create_child(OsStr::new(&folder_name))?;
        // elfutils uses the same pattern, so that either tool cleans up after the other.
        let (name, file) = folder.create_temporary(&format!("{}.", kind.name()))?;
        Ok(Download {
            file,
            path: self.root.join(folder_name).join(&name),
            folder,
            name,
            is_kept: false,
        })
    }

    /// Moves a complete file to its final path, atomically.
    pub(crate) fn keep(
        &self,
        file: Download,
        build_id: &BuildId,
        kind: RemoteKind,
    ) -> io::Result<PathBuf> {
        file.keep(kind, 0o400)?;
        Ok(self.path(build_id, kind))
    }

    pub(crate) fn keep_missing(&self, build_id: &BuildId, kind: RemoteKind) -> io::Result<()> {
        self.begin(build_id, kind)?.keep(kind, 0o000)
    }

    /// Removes files unused for a week (or `max_unused_age_s`), at most once a day
    /// (`cache_clean_interval_s`). Does not follow links, and touches only folders named like a
    /// build-id. Does nothing in another user's cache.
    pub(crate) fn clean(&self) -> io::Result<()> {
        let stamp = OsStr::new("cache_clean_interval_s");
        let root = Folder::create(&self.root)?;
        if !root.is_ours()? {
            return Ok(());
        }
        let interval = seconds(&root, "cache_clean_interval_s", 86_400);
        let text = interval.as_secs().to_string();
        match root.metadata(stamp) {
            Ok(metadata) if metadata.is_file() && age(&metadata) <= interval => return Ok(()),
            Ok(_) => root.write_text(stamp, &text)?,
            Err(_) => return root.write_text(stamp, &text),
        }
        let unused = seconds(&root, "max_unused_age_s", 604_800);
        for name in root.names()? {
            let is_build_id = (name.as_encoded_bytes().iter()).all(u8::is_ascii_hexdigit);
            if !is_build_id {
                continue;
            }
            if let Ok(folder) = root.child(&name) {
                clean_folder(&folder, unused);
                // Fails unless it is empty.
                root.remove_folder(&name).ok();
            }
        }
        Ok(())
    }
}

/// Temporary file in the cache. Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct Download {
    file: File,
    folder: Folder,
    name: OsString,
    path: PathBuf,
    is_kept: bool,
}

impl Download {
    pub(crate) fn as_file(&self) -> &File {
        &self.file
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn keep(mut self, kind: RemoteKind, mode: u32) -> io::Result<()> {
        self.file.set_permissions(Permissions::from_mode(mode))?;
        self.folder.rename(&self.name, OsStr::new(kind.name()))?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        if !self.is_kept {
            self.folder.remove(&self.name).ok();
        }
    }
}

/// Reads a control file with a number of seconds.
fn seconds(root: &Folder, name: &str, default: u64) -> Duration {
    let text = root.read_text(OsStr::new(name)).unwrap_or_default();
    Duration::from_secs(text.trim().parse().unwrap_or(default))
}

fn clean_folder(folder: &Folder, unused: Duration) {
    for name in folder.names().unwrap_or_default() {
        let Ok(metadata) = folder.metadata(&name) else {
            continue;
        };
        let used = metadata.accessed().into_iter().chain(metadata.modified());
        let idle = used.max().map_or(Duration::ZERO, since);
        if metadata.is_file() && idle > unused {
            folder.remove(&name).ok();
        }
    }
}

fn age(metadata: &Metadata) -> Duration {
    metadata.modified().map_or(Duration::MAX, since)
}

/// Returns the time since `time`; zero if it is in the future.
fn since(time: SystemTime) -> Duration {
    time.elapsed().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, FileTimes};
    use std::io::Write;

    fn set_age(path: &Path, days: u64) {
        let time = SystemTime::now() - Duration::from_secs(days * 86_400);
        let times = FileTimes::new().set_accessed(time).set_modified(time);
        let file = File::open(path).unwrap();
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
        let file = cache.begin(&id, kind).unwrap();
        file.as_file().write_all(b"x").unwrap();
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

    #[test]
    fn what_a_link_in_the_cache_leads_to_stays_as_it_is() {
        let tmp = tempfile::tempdir().unwrap();
        let path = |name: &str| tmp.path().join(name);
        fs::create_dir_all(path("cache")).unwrap();
        fs::create_dir_all(path("elsewhere")).unwrap();
        for file in ["precious", "elsewhere/debuginfo"] {
            fs::write(path(file), "precious").unwrap();
            set_age(&path(file), 30);
        }
        std::os::unix::fs::symlink(path("precious"), path("cache/cache_clean_interval_s")).unwrap();
        let id = BuildId::new(&[0xab; 20]).unwrap();
        let folder = path("cache").join(id.to_string());
        std::os::unix::fs::symlink(path("elsewhere"), folder).unwrap();
        let cache = Cache::new(path("cache"));
        cache.clean().unwrap_err();
        assert_eq!(cache.look(&id, RemoteKind::DebugInfo), Cached::Unknown);
        cache.begin(&id, RemoteKind::DebugInfo).unwrap_err();
        cache.keep_missing(&id, RemoteKind::DebugInfo).unwrap_err();
        for file in ["precious", "elsewhere/debuginfo"] {
            assert_eq!(fs::read(path(file)).unwrap(), b"precious");
        }
    }
}

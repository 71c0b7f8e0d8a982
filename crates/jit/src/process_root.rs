//! [`ProcessRoot`]: the file system as a process sees it, and who may own what is read there.
//!
//! Runtimes name their files as they see them: below their own root, and by the pid that they have
//! in their own namespace.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rprof_launch::procfs::Procfs;

use crate::source::{MapFile, Refusal};

/// The root that paths of a process are resolved in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRoot {
    /// Folder that is the process's `/`, as seen from here.
    pub path: PathBuf,
    /// Pid of the process in its own namespace.
    pub pid: i32,
    /// Users that its files may belong to, besides root and the user of this program.
    pub owners: Vec<u32>,
}

impl ProcessRoot {
    /// Reads the root of a live process from `/proc`. `None` if there is no process of that pid any
    /// more.
    #[must_use]
    pub fn of_live(pid: i32) -> Option<Self> {
        let (proc, id) = (Procfs::default(), u32::try_from(pid).ok()?);
        let owner = proc.owner(id)?;
        let inside = proc.status(id)?.innermost_id;
        Some(Self {
            path: proc.root_of(id),
            pid: inside.and_then(|id| id.try_into().ok()).unwrap_or(pid),
            owners: vec![owner],
        })
    }

    /// Returns the root of this program, for a process that is gone or that sees the same files.
    #[must_use]
    pub fn host(pid: i32) -> Self {
        Self {
            path: PathBuf::from("/"),
            pid,
            owners: Vec::new(),
        }
    }

    /// Returns the roots in which files of a recorded process are looked for, in this order: that of
    /// the process, if it still lives, and the host's. `recording` is the metadata of the recording's
    /// file: a process that began after the file was written is another one with the same pid.
    #[must_use]
    pub fn candidates(pid: i32, recording: Option<Metadata>) -> Vec<Self> {
        let recorded = recording.and_then(|metadata| metadata.modified().ok());
        let is_same = || match (recorded, start_time(pid)) {
            (Some(recorded), Some(started)) => started <= recorded,
            _ => true,
        };
        let live = Self::of_live(pid).filter(|_| is_same());
        live.into_iter().chain([Self::host(pid)]).collect()
    }

    /// Returns the usual path of the process's perf map, as the process names it.
    #[must_use]
    pub fn perf_map_path(&self) -> PathBuf {
        PathBuf::from(format!("/tmp/perf-{}.map", self.pid))
    }

    /// Opens a file that the process names by this absolute path. `None` if there is none.
    ///
    /// # Errors
    /// [`Refusal`], if it is none that may be read.
    pub fn open(&self, path: &Path) -> Result<Option<MapFile>, Refusal> {
        MapFile::open(&self.path, path, &self.owners)
    }
}

/// Returns true if a process has the same root in the same mount namespace as this program.
pub(crate) fn has_our_root(pid: i32) -> bool {
    u32::try_from(pid).is_ok_and(|pid| Procfs::default().has_our_root(pid))
}

/// Returns when a process was started, to a second.
fn start_time(pid: i32) -> Option<SystemTime> {
    Procfs::default().start_time(u32::try_from(pid).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn this_process_is_alive_and_started_a_while_ago() {
        let us = std::process::id() as i32;
        let seen = ProcessRoot::of_live(us).unwrap();
        assert_eq!(seen.owners, [rustix::process::geteuid().as_raw()]);
        assert!(seen.pid > 0 && seen.pid <= us);
        assert!(has_our_root(us));
        assert!(start_time(us).unwrap() < SystemTime::now());
    }

    #[test]
    fn files_of_a_process_that_is_gone_are_looked_for_on_the_host() {
        assert_eq!(ProcessRoot::of_live(i32::MAX), None);
        let candidates = ProcessRoot::candidates(i32::MAX, None);
        assert_eq!(candidates, [ProcessRoot::host(i32::MAX)]);
    }

    #[test]
    fn a_process_that_started_after_the_recording_is_another_one() {
        let old = tempfile::NamedTempFile::new().unwrap();
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        old.as_file().set_modified(long_ago).unwrap();
        let us = std::process::id() as i32;
        let metadata = || old.as_file().metadata().ok();
        assert_eq!(ProcessRoot::candidates(us, metadata()).len(), 1);
        old.as_file().set_modified(SystemTime::now()).unwrap();
        assert_eq!(ProcessRoot::candidates(us, metadata()).len(), 2);
    }
}

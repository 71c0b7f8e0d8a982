//! [`ProcessRoot`]: the file system as a process sees it, and the rights for reading it.
//!
//! Runtimes name their files relative to their own root, with the pid of their own namespace.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rprof_image::{Credentials, FileView};
use rprof_launch::procfs::{ClockOffsets, Procfs};

use crate::source::{MapFile, Refusal};

/// Root folder of a process, for the lookup of its paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRoot {
    /// Pid of the process with this root in our namespace; `None` for this program's own root.
    live: Option<u32>,
    /// Pid of the process in its own namespace.
    pub pid: i32,
    credentials: Option<Credentials>,
    /// Nanoseconds by which its CLOCK_MONOTONIC is ahead of the kernel's.
    clock_ahead: i64,
    /// Start of the process, if known. Files that are older belong to an earlier process with the
    /// same pid.
    started: Option<SystemTime>,
}

/// Inaccuracy of the start of a process and of file times.
const CLOCK_ERROR: Duration = Duration::from_secs(1);

impl ProcessRoot {
    /// Reads the root of a live process from `/proc`. `None` if the process is gone.
    #[must_use]
    pub fn of_live(pid: i32) -> Option<Self> {
        let id = u32::try_from(pid).ok()?;
        let status = Procfs::default().status(id)?;
        let inside = status.innermost_id.and_then(|id| id.try_into().ok());
        Some(Self {
            live: Some(id),
            pid: inside.unwrap_or(pid),
            credentials: Credentials::of_process(&status),
            clock_ahead: Procfs::default().clock_offsets(id).monotonic,
            started: start_time(pid),
        })
    }

    /// Returns this program's root, for an ended process or one that sees the same files.
    #[must_use]
    pub fn host(pid: i32) -> Self {
        Self {
            live: None,
            pid,
            credentials: None,
            clock_ahead: 0,
            started: None,
        }
    }

    /// Returns the same root for after the process has ended. The process must share this program's
    /// root.
    pub(crate) fn when_ended(&self) -> Self {
        Self {
            live: None,
            ..self.clone()
        }
    }

    /// Returns the roots to search for files of a recorded process: its own, if it still lives,
    /// then the host's.
    ///
    /// `recording` is the metadata of the recording file. A process that started later has reused
    /// the pid.
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

    /// Returns the default path of the perf map, in the process's namespace.
    #[must_use]
    pub fn perf_map_path(&self) -> PathBuf {
        PathBuf::from(format!("/tmp/perf-{}.map", self.pid))
    }

    /// Opens a file by its absolute path in the process's namespace. `None` if there is none, or
    /// only one that was last written before the process started.
    ///
    /// # Errors
    /// [`Refusal`], if the file may not be read.
    pub fn open(&self, path: &Path) -> Result<Option<MapFile>, Refusal> {
        let view = match self.live {
            Some(pid) => FileView::of_process(pid),
            None => FileView::of_ended_process(self.credentials.clone()),
        };
        let view = match view {
            Err(error) if is_no_such_process(&error) => return Ok(None),
            view => view.map_err(Refusal::Unreadable)?,
        };
        // Files of the substitute user for an ended process do not belong to the process.
        let owner = match self.live {
            Some(_) => view.credentials().map(Credentials::user),
            None => self.credentials.as_ref().map(Credentials::user),
        };
        let file = MapFile::open(&view, path, owner.as_slice())?;
        let is_earlier = |file: &MapFile| {
            let limit = self
                .started
                .and_then(|started| started.checked_sub(CLOCK_ERROR));
            limit.is_some_and(|limit| file.was_written_before(limit))
        };
        let file = file.filter(|file| !is_earlier(file));
        Ok(file.map(|file| file.with_clock_ahead(self.clock_ahead)))
    }
}

fn is_no_such_process(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENOENT))
}

/// Returns true if a process shares this program's root and mount namespace.
pub(crate) fn has_our_root(pid: i32) -> bool {
    let proc = Procfs::default();
    u32::try_from(pid).is_ok_and(|pid| proc.has_our_root(proc.id_with_memory(pid)))
}

/// Returns the start of the running kernel as time of day.
#[must_use]
pub fn boot_time() -> Option<SystemTime> {
    let seen = Procfs::default().boot_time()?;
    // /proc has the times of this process's time namespace.
    let ahead = ClockOffsets::own().boottime;
    let error = Duration::from_nanos(ahead.unsigned_abs());
    match ahead < 0 {
        true => seen.checked_sub(error),
        false => seen.checked_add(error),
    }
}

fn start_time(pid: i32) -> Option<SystemTime> {
    Procfs::default().start_time(u32::try_from(pid).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn this_process_is_alive_and_started_a_while_ago() {
        let us = std::process::id() as i32;
        let seen = ProcessRoot::of_live(us).unwrap();
        assert_eq!(seen.credentials, Some(Credentials::own()));
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

    #[test]
    fn a_file_that_is_older_than_the_process_is_not_its_own() {
        let root = ProcessRoot::of_live(std::process::id() as i32).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(root.open(file.path()).unwrap().is_some());
        let started = root.started.unwrap();
        for (before, is_own) in [(0, true), (3600, false)] {
            let written = started - Duration::from_secs(before);
            file.as_file().set_modified(written).unwrap();
            for root in [root.clone(), root.when_ended()] {
                let opened = root.open(file.path()).unwrap();
                assert_eq!(opened.is_some(), is_own, "{before} s before");
            }
        }
    }

    #[test]
    fn perf_map_of_nobody_is_not_one_of_an_ended_process() {
        rprof_testing::needs!(Root);
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let path = folder.path().join("perf-1.map");
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        for (owner, is_refused) in [(65534, true), (4243, true), (0, false)] {
            std::fs::write(&path, "1000 10 planted\n").unwrap();
            std::os::unix::fs::chown(&path, Some(owner), None).unwrap();
            let opened = ProcessRoot::host(i32::MAX).open(&path);
            let refused = matches!(opened, Err(Refusal::ForeignOwner(uid)) if uid == owner);
            assert_eq!(refused, is_refused, "{owner}");
        }
    }
}

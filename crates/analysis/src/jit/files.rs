//! Perf maps and jitdumps of this machine that the recording does not embed.
//!
//! A pid may have belonged to other processes. Perf maps not written between the process's start
//! and the recording's end are skipped.

use std::time::{Duration, SystemTime};

use rprof_jit::jitdump::{code_of, to_kernel_clock};
use rprof_jit::{JitBytes, JitDump, MapFile, ProcessRoot, Refusal};

use super::{Runtimes, Tables, is_interpreted};

/// Times between which a process wrote its files.
#[derive(Clone, Copy, Default)]
struct Limits {
    begin: Option<SystemTime>,
    end: Option<SystemTime>,
}

/// Inaccuracy of file times, and of the time of day in recordings.
const CLOCK_ERROR: Duration = Duration::from_secs(1);

/// Maximum deviation of the kernel's default clock, as a divisor. `adjtimex` allows 500 parts per
/// million.
const MAX_DRIFT: u32 = 1000;

/// Returns the earliest time of day of a time by the kernel's default clock (perf without `-k`),
/// which stands still during suspension. `None` if the recording, last written at `recorded`, is
/// older than the running kernel.
fn recorded_since_boot(time: u64, recorded: SystemTime) -> Option<SystemTime> {
    let boot = rprof_jit::boot_time()?;
    let time = Duration::from_nanos(time);
    let start = boot.checked_add(time)?;
    let error = (time / MAX_DRIFT).saturating_add(CLOCK_ERROR);
    let is_of_this_boot = boot < recorded && start <= recorded.checked_add(error)?;
    start.checked_sub(error).filter(|_| is_of_this_boot)
}

impl Runtimes<'_> {
    pub(super) fn look(&self, pid: i32, tables: &mut Tables) {
        let recording = std::fs::metadata(self.recording).ok();
        let end = recording.as_ref().and_then(|meta| meta.modified().ok());
        let roots = ProcessRoot::candidates(pid, recording);
        let limits = Limits {
            begin: self.started(pid, end),
            end,
        };
        if tables.dumps.is_empty() {
            for path in self.processes.jitdumps(pid) {
                let opened = self.open(&roots, Limits::default(), |_| path.clone());
                if let Some((path, mut bytes, clock_ahead)) = opened {
                    to_kernel_clock(&mut bytes, clock_ahead);
                    let dump = self.dump(&path, &bytes);
                    tables.add_dump(&path, dump.map(|dump| self.with_known_times(&path, dump)));
                }
            }
        }
        let has_unknown_start = limits.begin.is_none() && self.processes.started(pid).is_some();
        if tables.maps.iter().all(|(_, map)| is_interpreted(map))
            && let Some((path, bytes, _)) = self.open(&roots, limits, ProcessRoot::perf_map_path)
        {
            if has_unknown_start && roots.len() == 1 {
                self.warn(format!(
                    "{path} may be of an earlier process with this pid: the recording has no time \
                     of day; record with `perf record -k CLOCK_MONOTONIC`, or with rprof"
                ));
            }
            tables.maps.push((0, self.map(&path, bytes)));
        }
    }

    /// Ignores times after the end of the recording: the process has ended, and its clock was that
    /// of another time namespace.
    fn with_known_times(&self, path: &str, mut dump: JitDump) -> JitDump {
        let is_later = |begin: u64| self.is_monotonic && self.end.is_some_and(|end| begin > end);
        if dump.begin().is_some_and(is_later) && !dump.has_other_clock() {
            dump.ignore_times();
            self.warn(format!(
                "{path} has times after the end of the recording, as in another time namespace: \
                 names are from the end of the run"
            ));
        }
        dump
    }

    /// Returns the earliest time of day of a process's last fork or exec, if known.
    fn started(&self, pid: i32, recorded: Option<SystemTime>) -> Option<SystemTime> {
        let time = self.processes.started(pid)?;
        let Some(clocks) = self.clocks else {
            return recorded_since_boot(time, recorded?).filter(|_| self.has_default_clock);
        };
        let since = Duration::from_nanos(clocks.wall_time(time)?);
        SystemTime::UNIX_EPOCH
            .checked_add(since)?
            .checked_sub(CLOCK_ERROR)
    }

    /// Reads the first file that passes the checks, and how far its writer's clock is ahead. Skips
    /// files of other processes with the same pid.
    fn open(
        &self,
        roots: &[ProcessRoot],
        limits: Limits,
        path: impl Fn(&ProcessRoot) -> std::path::PathBuf,
    ) -> Option<(String, Vec<u8>, i64)> {
        for root in roots {
            let path = path(root);
            let opened = root.open(&path);
            let is_earlier = |file: &MapFile| {
                limits
                    .begin
                    .is_some_and(|begin| file.was_written_before(begin))
            };
            if let Ok(Some(file)) = &opened
                && is_earlier(file)
            {
                self.warn(format!(
                    "{} was skipped: it is older than the process, so an earlier process with this \
                     pid wrote it",
                    path.display()
                ));
                continue;
            }
            if let (Ok(Some(file)), Some(end)) = (&opened, limits.end)
                && file.is_younger_than(end)
            {
                self.warn(format!(
                    "{} was skipped: it is newer than the recording, so another process with this \
                     pid may have written it; if it is the same process, run `touch {}` first",
                    path.display(),
                    self.recording.display()
                ));
                continue;
            }
            let read = opened.and_then(|file| {
                let read = file.map(|file| Ok((self.read(&file)?, file.clock_ahead())));
                read.transpose()
            });
            let path = path.to_string_lossy().into_owned();
            match read {
                Ok(None) => {}
                Ok(Some((bytes, clock_ahead))) => return Some((path, bytes, clock_ahead)),
                // If the process's own file is refused, one elsewhere belongs to another process.
                Err(refusal) => {
                    self.refused(&path, &refusal);
                    return None;
                }
            }
        }
        None
    }

    /// Reads a file of this machine, or nothing if the memory budget is exhausted.
    fn read(&self, file: &MapFile) -> Result<Vec<u8>, Refusal> {
        match self.memory.take(file.len()?) {
            Some(lease) => lease.keep(),
            None => {
                self.warn(format!(
                    "{} was skipped: files would need more than {} MiB of memory",
                    file.path().display(),
                    self.memory.most() >> 20
                ));
                return Ok(Vec::new());
            }
        }
        file.read()
    }

    fn refused(&self, path: &str, refusal: &Refusal) {
        self.warn(format!("{path} is not used: {refusal}"));
    }

    pub(super) fn code_here(&self, pid: i32, function: &str, avma: u64) -> Option<JitBytes> {
        if !self.is_here {
            return None;
        }
        let recording = std::fs::metadata(self.recording).ok();
        let roots = ProcessRoot::candidates(pid, recording);
        self.processes.jitdumps(pid).iter().find_map(|path| {
            let (_, bytes, _) = self.open(&roots, Limits::default(), |_| path.clone())?;
            code_of(&bytes, function, avma).ok().flatten()
        })
    }
}

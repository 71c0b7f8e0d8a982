//! JIT code of processes: names and unwind information from perf maps and jitdumps.
//!
//! rprof embeds these files in its recordings. Otherwise they are read from where perf looks: the
//! perf map under its usual path, the jitdump where the process mapped it. A lookup tries the
//! process, then its ancestors: a fork inherits their code.

mod files;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use rprof_image::{MemoryBudget, MemoryLease};
use rprof_jit::jitdump::code_of;
use rprof_jit::{
    INTERPRETED, JitBytes, JitDump, JitFunction, JitLine, JitProcesses, MAX_JITDUMPS, PerfMap,
};
use rprof_perfdata::features::run::ClockData;
use rprof_perfdata::{EmbeddedFile, EmbeddedKind, PerfData};
use rprof_processes::{Image, ImageIdentity};
use rprof_profile::unit::counted_were;
use rprof_records::{AttrFlags, BuildId, ProcessEvent};
use rprof_symbols::{Frames, SourceLine};
use rprof_unwind::{Arch, UnwindTable};
use rustc_hash::FxHashMap;

const MONOTONIC: i32 = 1;

/// Maximum bytes of compiled unwind information.
const MAX_UNWINDING: u64 = 256 << 20;

/// Updates the processes with JIT code. Events must be in time order.
pub(crate) fn follow(processes: &mut JitProcesses, time: u64, event: &ProcessEvent<'_>) {
    // Records at time 0 describe the state before the start.
    let start = |processes: &mut JitProcesses, pid| match time {
        0 => {}
        _ => processes.handle_start(pid, time),
    };
    match event {
        ProcessEvent::Mapped(m) if !m.kernel && m.executable => {
            processes.handle_mapped(m.pid, &m.path);
        }
        // A process found at the start may have called exec since its fork.
        ProcessEvent::Forked {
            pid, parent_pid, ..
        } => {
            processes.handle_fork(*pid, *parent_pid);
            if pid != parent_pid {
                start(processes, *pid);
            }
        }
        ProcessEvent::Executed { pid, .. } => {
            processes.handle_exec(*pid);
            start(processes, *pid);
        }
        _ => {}
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct JitCode {
    /// Process whose files describe the function, perhaps an ancestor.
    pub(crate) pid: i32,
    /// Index of the file: jitdumps, then perf maps.
    pub(crate) table: u16,
    pub(crate) function: u32,
}

/// JIT code of all processes, and embedded files.
#[derive(Debug)]
pub(crate) struct Runtimes<'a> {
    embedded: Vec<EmbeddedFile<'a>>,
    processes: JitProcesses,
    by_pid: FxHashMap<i32, OnceLock<Tables>>,
    has_dumps: bool,
    /// True if the recording uses `CLOCK_MONOTONIC`, as jitdumps do.
    is_monotonic: bool,
    is_here: bool,
    /// Memory budget for embedded and untrusted files.
    memory: MemoryBudget,
    /// Bytes of unwind information left to compile.
    unwinding_budget: AtomicU64,
    warnings: Mutex<Vec<String>>,
    recording: &'a Path,
    clocks: Option<ClockData>,
    /// True for the kernel's default clock, which counts from its start.
    has_default_clock: bool,
    /// Time of the last sample.
    end: Option<u64>,
}

#[derive(Debug, Default)]
struct Tables {
    dumps: Vec<JitDump>,
    dump_paths: Vec<String>,
    /// Unwind tables by jitdump and function index.
    unwinding: Vec<Box<[Unwound]>>,
    /// Perf maps with their start in nanoseconds, ascending.
    maps: Vec<(u64, PerfMap)>,
}

/// Unwind table, compiled on first use.
type Unwound = OnceLock<Option<Arc<UnwindTable>>>;

impl<'a> Runtimes<'a> {
    /// Indexes the embedded files. `is_here` means that this machine made the recording. Files are
    /// read on first use.
    pub(crate) fn new(
        data: &'a PerfData,
        is_here: bool,
        processes: JitProcesses,
        memory: &MemoryBudget,
    ) -> Runtimes<'a> {
        let embedded = crate::memory_over_time::embedded_files(data, processes.iter());
        let mut by_pid: FxHashMap<i32, OnceLock<Tables>> = FxHashMap::default();
        for file in &embedded {
            if [EmbeddedKind::PERF_MAP, EmbeddedKind::JITDUMP].contains(&file.kind) {
                by_pid.entry(file.pid).or_default();
            }
        }
        let mut has_dumps = embedded
            .iter()
            .any(|file| file.kind == EmbeddedKind::JITDUMP);
        for pid in processes.iter() {
            has_dumps |= !processes.jitdumps(pid).is_empty();
            by_pid.entry(pid).or_default();
        }
        let is_monotonic = data.events().list().iter().all(|event| {
            event.attr.flags.contains(AttrFlags::USE_CLOCKID) && event.attr.clockid == MONOTONIC
        });
        let has_default_clock = (data.events().list().iter())
            .all(|event| !event.attr.flags.contains(AttrFlags::USE_CLOCKID));
        Runtimes {
            embedded,
            has_default_clock,
            // Zero in files of `perf record --no-buildid`.
            end: (data.features().sample_time()).and_then(|(_, end)| (end > 0).then_some(end)),
            processes,
            by_pid,
            has_dumps,
            is_monotonic,
            is_here,
            memory: memory.clone(),
            unwinding_budget: AtomicU64::new(MAX_UNWINDING),
            warnings: Mutex::default(),
            recording: data.path(),
            clocks: data.features().clock_data(),
        }
    }

    pub(crate) fn find(&self, pid: i32, time: u64, avma: u64) -> Option<JitCode> {
        let time = self.time(time);
        self.lineage(pid).find_map(|(pid, tables)| {
            let (table, function) = tables.find(avma, time)?;
            Some(JitCode {
                pid,
                table,
                function,
            })
        })
    }

    pub(crate) fn unwinding(
        &self,
        arch: Arch,
        pid: i32,
        time: u64,
        avma: u64,
    ) -> Option<Arc<UnwindTable>> {
        if !self.has_dumps {
            return None;
        }
        let code = self.find(pid, time, avma)?;
        let tables = self.by_pid.get(&code.pid)?.get()?;
        let table = usize::from(code.table);
        let cell = tables.unwinding.get(table)?.get(code.function as usize)?;
        let make = || {
            let known = tables.dumps.get(table)?.unwinding(code.function)?;
            let take = |left: u64| left.checked_sub(known.eh_frame.len() as u64);
            let ordering = Ordering::Relaxed;
            let taken = self.unwinding_budget.fetch_update(ordering, ordering, take);
            if taken.is_err() {
                self.warn(
                    "jitdumps have more unwinding information than the limit; the rest was skipped"
                        .into(),
                );
                return None;
            }
            Some(Arc::new(known.table(arch)))
        };
        cell.get_or_init(make).clone()
    }

    /// Returns the JIT epoch of a process at a time. Within one epoch, lookups do not change.
    pub(crate) fn epoch(&self, pid: i32, time: u64) -> u64 {
        if !self.has_dumps {
            return 0;
        }
        let time = self.time(time);
        let dumps = self.lineage(pid).flat_map(|(_, tables)| &tables.dumps);
        dumps.map(|dump| u64::from(dump.epoch(time))).sum()
    }

    pub(crate) fn frames(&self, code: JitCode, avma: u64) -> Option<Frames> {
        let tables = self.by_pid.get(&code.pid)?.get()?;
        let table = usize::from(code.table);
        match tables.dumps.get(table) {
            Some(dump) => {
                let line = dump.line(code.function, avma);
                Some(frames(&dump.function(code.function)?, avma, line))
            }
            None => {
                let (_, map) = tables.maps.get(table - tables.dumps.len())?;
                Some(frames(&map.function(code.function)?, avma, None))
            }
        }
    }

    pub(crate) fn dump_path(&self, code: JitCode) -> Option<&str> {
        let tables = self.by_pid.get(&code.pid)?.get()?;
        let path = tables.dump_paths.get(usize::from(code.table))?;
        Some(path)
    }

    pub(crate) fn process_of_dump(&self, path: &str) -> Option<i32> {
        self.by_pid.iter().find_map(|(pid, tables)| {
            let paths = &tables.get()?.dump_paths;
            paths.iter().any(|known| known == path).then_some(*pid)
        })
    }

    /// Returns the machine code of a function, by name and AVMA, from a jitdump of the process or
    /// its ancestors. Prefers the embedded copy, if it contains code.
    pub(crate) fn code(&self, pid: i32, function: &str, avma: u64) -> Option<JitBytes> {
        self.processes.lineage(pid).find_map(|pid| {
            let embedded = self.embedded.iter();
            let mut embedded =
                embedded.filter(|file| file.pid == pid && file.kind == EmbeddedKind::JITDUMP);
            let kept = embedded.find_map(|file| {
                let (bytes, lease) = self.contents(file)?;
                let found = code_of(&bytes, function, avma).ok().flatten();
                drop(lease);
                found
            });
            kept.or_else(|| self.code_here(pid, function, avma))
        })
    }

    pub(crate) fn image(&self, image: &Image) -> Option<&EmbeddedFile<'a>> {
        let images = self
            .embedded
            .iter()
            .filter(|file| file.kind == EmbeddedKind::IMAGE);
        let mut images = images.filter(|file| match image.identity {
            ImageIdentity::BuildId(id) => {
                BuildId::new(&file.build_id).is_some_and(|of_file| of_file.matches(&id))
            }
            ImageIdentity::Inode {
                major,
                minor,
                inode,
                ..
            } => file.device == (major, minor) && file.inode == inode && *file.path == *image.path,
            ImageIdentity::PathOnly => {
                file.build_id.is_empty() && file.inode == 0 && *file.path == *image.path
            }
        });
        images.next()
    }

    /// Returns an embedded file with a lease on its memory. `None` if it is damaged or the budget
    /// is exhausted.
    pub(crate) fn contents(&self, file: &EmbeddedFile<'_>) -> Option<(Vec<u8>, MemoryLease)> {
        let path = || String::from_utf8_lossy(&file.path);
        let Some(lease) = self.memory.take(file.len) else {
            self.warn(format!(
                "{}, embedded in the recording, was skipped: files would need more than {} MiB of \
                 memory",
                path(),
                self.memory.most() >> 20
            ));
            return None;
        };
        let contents = file.contents();
        if contents.is_none() {
            self.warn(format!("{}, embedded in the recording, is damaged", path()));
        }
        Some((contents?, lease))
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings
            .lock()
            .map_or_else(|_| Vec::new(), |warnings| warnings.clone())
    }

    /// Returns the time for jitdump lookups: the end of the recording if its clock differs.
    fn time(&self, time: u64) -> u64 {
        match self.is_monotonic {
            true => time,
            false => u64::MAX,
        }
    }

    /// Returns true if a file names JIT or interpreted code of a process.
    pub(crate) fn has_functions(&self) -> bool {
        self.by_pid.keys().any(|pid| {
            let mut files = self.lineage(*pid);
            files.any(|(_, tables)| !tables.dumps.is_empty() || !tables.maps.is_empty())
        })
    }

    /// Iterates over the files of a process, then of its ancestors.
    fn lineage(&self, pid: i32) -> impl Iterator<Item = (i32, &Tables)> {
        self.processes.lineage(pid).filter_map(|pid| {
            let tables = self.by_pid.get(&pid)?.get_or_init(|| self.load(pid));
            Some((pid, tables))
        })
    }

    fn load(&self, pid: i32) -> Tables {
        let mut tables = Tables::default();
        let of_kind = |kind| {
            let of_pid = move |file: &&EmbeddedFile<'_>| file.pid == pid && file.kind == kind;
            self.embedded.iter().filter(of_pid)
        };
        for file in of_kind(EmbeddedKind::JITDUMP).take(MAX_JITDUMPS) {
            if let Some((bytes, lease)) = self.contents(file) {
                let path = String::from_utf8_lossy(&file.path);
                tables.add_dump(&path, self.dump(&path, &bytes));
                // The parsed form takes as much memory.
                lease.keep();
            }
        }
        for file in of_kind(EmbeddedKind::PERF_MAP).take(MAX_JITDUMPS) {
            if let Some((bytes, lease)) = self.contents(file) {
                let path = String::from_utf8_lossy(&file.path);
                tables.maps.push((file.since, self.map(&path, bytes)));
                lease.keep();
            }
        }
        tables
            .maps
            .sort_by_key(|(since, map)| (!is_interpreted(map), *since));
        if self.is_here {
            self.look(pid, &mut tables);
        }
        let cells = |dump: &JitDump| match dump.has_unwinding() {
            true => (0..dump.len()).map(|_| Unwound::new()).collect(),
            false => Box::default(),
        };
        tables.unwinding = tables.dumps.iter().map(cells).collect();
        tables
    }

    fn map(&self, path: &str, bytes: Vec<u8>) -> PerfMap {
        let map = PerfMap::parse(bytes);
        if map.bad_lines() > 0 {
            let lines = counted_were(map.bad_lines(), "malformed line");
            self.warn(format!("{path}: {lines} skipped"));
        }
        if map.left_out() > 0 {
            let entries = counted_were(map.left_out(), "entry");
            self.warn(format!("{path}: {entries} skipped: beyond the limit"));
        }
        map
    }

    fn dump(&self, path: &str, bytes: &[u8]) -> Option<JitDump> {
        let dump = match JitDump::parse(bytes) {
            Ok(dump) => dump,
            Err(error) => {
                self.warn(format!("{path} is not used: {error}"));
                return None;
            }
        };
        if let Some(at) = dump.cut_at() {
            self.warn(format!(
                "{path} is truncated or damaged at byte {at}; only the part before is used"
            ));
        }
        if dump.bad_records() > 0 {
            let records = counted_were(dump.bad_records(), "damaged record");
            self.warn(format!("{path}: {records} skipped"));
        }
        if dump.left_out() > 0 {
            let functions = counted_were(dump.left_out(), "function");
            self.warn(format!("{path}: {functions} skipped: beyond the limit"));
        }
        if !self.is_monotonic {
            self.warn(format!(
                "{path} times its functions with another clock than the recording: names are from \
                 the end of the run (perf record needs -k mono)"
            ));
        } else if dump.has_other_clock() {
            self.warn(format!(
                "{path} has times of the processor's counter, which cannot be converted here: \
                 names are from the end of the run"
            ));
        }
        Some(dump)
    }

    fn warn(&self, what: String) {
        if let Ok(mut warnings) = self.warnings.lock()
            && warnings.len() < 20
            && !warnings.contains(&what)
        {
            warnings.push(what);
        }
    }
}

impl Tables {
    fn add_dump(&mut self, path: &str, dump: Option<JitDump>) {
        if let Some(dump) = dump {
            self.dumps.push(dump);
            self.dump_paths.push(path.to_owned());
        }
    }

    fn find(&self, avma: u64, time: u64) -> Option<(u16, u32)> {
        let in_dumps = (0u16..).zip(&self.dumps);
        let found = in_dumps.filter_map(|(table, dump)| Some((table, dump.find(avma, time)?)));
        if let Some(found) = found.last() {
            return Some(found);
        }
        let (table, function) = match INTERPRETED.contains(&avma) {
            true => (self.maps.iter().enumerate())
                .find_map(|(table, (_, map))| Some((table, map.find(avma)?)))?,
            false => {
                // The map of interpreted functions comes first, and has no other addresses.
                let after = self.maps.partition_point(|(since, _)| *since <= time);
                let table = after.saturating_sub(1);
                (table, self.maps.get(table)?.1.find(avma)?)
            }
        };
        Some(((self.dumps.len() + table) as u16, function))
    }
}

fn is_interpreted(map: &PerfMap) -> bool {
    map.function(0)
        .is_some_and(|function| INTERPRETED.contains(&function.start))
}

pub(crate) fn frames(function: &JitFunction<'_>, avma: u64, line: Option<JitLine<'_>>) -> Frames {
    let line = line.map(|line| SourceLine {
        file: line.file.into(),
        line: line.line,
        column: 0,
    });
    let offset = avma.wrapping_sub(function.start);
    Frames::of_jit_function(&function.name, function.start, function.size, offset, line)
}

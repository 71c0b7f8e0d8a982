//! Names of code that was made at run time: which file tells them for which process.
//!
//! A recording of rprof has these files in it. For others they are looked for where perf looks:
//! the perf map under its usual name, the jitdump where the process mapped it. A process asks
//! its own files first, and then those of the process that it was forked from, whose code it
//! has inherited.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use rprof_jit::{
    JitDump, JitFunction, JitLine, JitProcesses, MAX_JITDUMPS, MapFile, PerfMap, ProcessRoot,
    Refusal,
};
use rprof_perfdata::{KeptFile, KeptKind, PerfData};
use rprof_processes::{Image, ImageIdentity};
use rprof_records::{AttrFlags, ProcessEvent};
use rprof_symbols::{Frames, SourceLine};
use rprof_unwind::{Arch, UnwindTable};
use rustc_hash::FxHashMap;

use crate::machine::is_of_this_machine;

/// `CLOCK_MONOTONIC`.
const MONOTONIC: i32 = 1;

/// Most bytes of kept files that one analysis expands.
const MOST_EXPANDED: u64 = 4 << 30;

/// Most bytes of unwinding information, of code wherever it was, that are made into tables.
const MOST_UNWINDING: u64 = 256 << 20;

/// Handles what a record says of which processes have JIT code. Events come in the order of time.
pub(crate) fn follow(processes: &mut JitProcesses, event: &ProcessEvent<'_>) {
    match event {
        ProcessEvent::Mapped(m) if !m.kernel && m.executable => {
            processes.handle_mapped(m.pid, &m.path);
        }
        // One that was found has perhaps executed a program since it was forked.
        ProcessEvent::Forked {
            pid, parent_pid, ..
        } => processes.handle_fork(*pid, *parent_pid),
        ProcessEvent::Executed { pid, .. } => processes.handle_exec(*pid),
        _ => {}
    }
}

/// A function that was made at run time, by the file that tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JitCode {
    /// The process whose files tell of it.
    pub pid: i32,
    /// Which of its files.
    pub(crate) table: u16,
    /// Which function of the file.
    pub(crate) number: u32,
}

/// What runtimes have told of their code, and other files that were kept.
#[derive(Debug)]
pub(crate) struct Runtimes<'a> {
    kept: Vec<KeptFile<'a>>,
    processes: JitProcesses,
    by_pid: FxHashMap<i32, OnceLock<Tables>>,
    has_dumps: bool,
    /// Whether times in jitdumps are those of the samples.
    is_monotonic: bool,
    is_here: bool,
    /// Bytes that may yet be expanded.
    budget: AtomicU64,
    /// Bytes that may yet be made into tables.
    unwinding_budget: AtomicU64,
    told: Mutex<Vec<String>>,
    recording: &'a Path,
}

/// The files of one process.
#[derive(Debug, Default)]
struct Tables {
    dumps: Vec<JitDump>,
    /// Of each dump with unwinding information, by the numbers of its code.
    unwinding: Vec<Box<[Unwound]>>,
    /// Each from a time on, ascending.
    maps: Vec<(u64, PerfMap)>,
}

/// The unwinding information of a piece of code, once it was asked for.
type Unwound = OnceLock<Option<Arc<UnwindTable>>>;

impl<'a> Runtimes<'a> {
    /// Reads no file yet.
    pub(crate) fn new(data: &'a PerfData, processes: JitProcesses) -> Runtimes<'a> {
        let kept = data.features().kept_files().unwrap_or_default();
        let mut by_pid: FxHashMap<i32, OnceLock<Tables>> = FxHashMap::default();
        for file in &kept {
            if [KeptKind::PERF_MAP, KeptKind::JITDUMP].contains(&file.kind) {
                by_pid.entry(file.pid).or_default();
            }
        }
        let mut has_dumps = kept.iter().any(|file| file.kind == KeptKind::JITDUMP);
        for pid in processes.iter() {
            has_dumps |= !processes.jitdumps(pid).is_empty();
            by_pid.entry(pid).or_default();
        }
        let is_monotonic = data.events().list().iter().all(|event| {
            event.attr.flags.contains(AttrFlags::USE_CLOCKID) && event.attr.clockid == MONOTONIC
        });
        Runtimes {
            kept,
            processes,
            by_pid,
            has_dumps,
            is_monotonic,
            is_here: is_of_this_machine(data),
            budget: AtomicU64::new(MOST_EXPANDED),
            unwinding_budget: AtomicU64::new(MOST_UNWINDING),
            told: Mutex::default(),
            recording: data.path(),
        }
    }

    /// The function at an address of a process at a time.
    pub(crate) fn find(&self, pid: i32, time: u64, avma: u64) -> Option<JitCode> {
        let time = self.time(time);
        self.lineage(pid).find_map(|(pid, tables)| {
            let (table, number) = tables.find(avma, time)?;
            Some(JitCode { pid, table, number })
        })
    }

    /// What a jitdump has to say of how to unwind the code at an address, at a time.
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
        let cell = tables.unwinding.get(table)?.get(code.number as usize)?;
        let make = || {
            let known = tables.dumps.get(table)?.unwinding(code.number)?;
            let take = |left: u64| left.checked_sub(known.eh_frame.len() as u64);
            let ordering = Ordering::Relaxed;
            let taken = self.unwinding_budget.fetch_update(ordering, ordering, take);
            if taken.is_err() {
                self.tell("jitdumps have more unwinding information than is used".into());
                return None;
            }
            Some(Arc::new(known.table(arch)))
        };
        cell.get_or_init(make).clone()
    }

    /// How much had happened by a time: while it is the same, so is every answer for a process.
    pub(crate) fn epoch(&self, pid: i32, time: u64) -> u64 {
        if !self.has_dumps {
            return 0;
        }
        let time = self.time(time);
        let dumps = self.lineage(pid).flat_map(|(_, tables)| &tables.dumps);
        dumps.map(|dump| u64::from(dump.epoch(time))).sum()
    }

    /// The frame of a function, `avma` being an address in it.
    pub(crate) fn frames(&self, code: JitCode, avma: u64) -> Option<Frames> {
        let tables = self.by_pid.get(&code.pid)?.get()?;
        let table = usize::from(code.table);
        match tables.dumps.get(table) {
            Some(dump) => {
                let line = dump.line(code.number, avma);
                Some(frames(&dump.function(code.number)?, avma, line))
            }
            None => {
                let (_, map) = tables.maps.get(table - tables.dumps.len())?;
                Some(frames(&map.function(code.number)?, avma, None))
            }
        }
    }

    /// The copy of an image that the recorder has kept.
    pub(crate) fn image(&self, image: &Image) -> Option<&KeptFile<'a>> {
        let images = self.kept.iter().filter(|file| file.kind == KeptKind::IMAGE);
        let mut images = images.filter(|file| match image.identity {
            ImageIdentity::BuildId(id) => *file.build_id == *id.as_bytes(),
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

    /// What a kept file holds; `None` where it is damaged, or there is too much already.
    pub(crate) fn contents(&self, file: &KeptFile<'_>) -> Option<Vec<u8>> {
        let take = |left: u64| left.checked_sub(file.len);
        let ordering = Ordering::Relaxed;
        (self.budget.fetch_update(ordering, ordering, take)).ok()?;
        let contents = file.contents();
        if contents.is_none() {
            let path = String::from_utf8_lossy(&file.path);
            self.tell(format!("{path}, as kept in the recording, is damaged"));
        }
        contents
    }

    /// What went wrong so far, in sentences.
    pub(crate) fn told(&self) -> Vec<String> {
        self.told
            .lock()
            .map_or_else(|_| Vec::new(), |told| told.clone())
    }

    /// Times of another clock say nothing: what holds at the end is taken then.
    fn time(&self, time: u64) -> u64 {
        match self.is_monotonic {
            true => time,
            false => u64::MAX,
        }
    }

    /// A process's files, and those of its forebears.
    fn lineage(&self, pid: i32) -> impl Iterator<Item = (i32, &Tables)> {
        self.processes.lineage(pid).filter_map(|pid| {
            let tables = self.by_pid.get(&pid)?.get_or_init(|| self.load(pid));
            Some((pid, tables))
        })
    }

    fn load(&self, pid: i32) -> Tables {
        let mut tables = Tables::default();
        let kept = |kind| {
            let of_pid = move |file: &&KeptFile<'_>| file.pid == pid && file.kind == kind;
            self.kept.iter().filter(of_pid)
        };
        for file in kept(KeptKind::JITDUMP).take(MAX_JITDUMPS) {
            if let Some(bytes) = self.contents(file) {
                let path = String::from_utf8_lossy(&file.path);
                tables.dumps.extend(self.dump(&path, &bytes));
            }
        }
        for file in kept(KeptKind::PERF_MAP).take(MAX_JITDUMPS) {
            if let Some(bytes) = self.contents(file) {
                let path = String::from_utf8_lossy(&file.path);
                tables.maps.push((file.since, self.map(&path, bytes)));
            }
        }
        tables.maps.sort_by_key(|(since, _)| *since);
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

    /// Looks for what the recording does not have.
    fn look(&self, pid: i32, tables: &mut Tables) {
        let roots = ProcessRoot::candidates(pid, std::fs::metadata(self.recording).ok());
        if tables.dumps.is_empty() {
            for path in self.processes.jitdumps(pid) {
                if let Some((path, bytes)) = self.open(&roots, |_| path.clone()) {
                    tables.dumps.extend(self.dump(&path, &bytes));
                }
            }
        }
        if tables.maps.is_empty()
            && let Some((path, bytes)) = self.open(&roots, ProcessRoot::perf_map_path)
        {
            tables.maps.push((0, self.map(&path, bytes)));
        }
    }

    /// The first that is there and may be used.
    fn open(
        &self,
        roots: &[ProcessRoot],
        path: impl Fn(&ProcessRoot) -> std::path::PathBuf,
    ) -> Option<(String, Vec<u8>)> {
        for root in roots {
            let path = path(root);
            let opened = root.open(&path);
            let read = opened.and_then(|file| file.as_ref().map(MapFile::read).transpose());
            let path = path.to_string_lossy().into_owned();
            match read {
                Ok(None) => {}
                Ok(Some(bytes)) => return Some((path, bytes)),
                Err(refusal) => self.refused(&path, &refusal),
            }
        }
        None
    }

    fn refused(&self, path: &str, refusal: &Refusal) {
        self.tell(format!("{path} is not used: {refusal}"));
    }

    fn map(&self, path: &str, bytes: Vec<u8>) -> PerfMap {
        let map = PerfMap::parse(bytes);
        if map.bad_lines() > 0 {
            let n = map.bad_lines();
            self.tell(format!("{path}: {n} lines are no entries and are left out"));
        }
        if map.left_out() > 0 {
            let n = map.left_out();
            self.tell(format!("{path}: the last {n} entries are left out"));
        }
        map
    }

    fn dump(&self, path: &str, bytes: &[u8]) -> Option<JitDump> {
        let dump = match JitDump::parse(bytes) {
            Ok(dump) => dump,
            Err(error) => {
                self.tell(format!("{path} is not used: {error}"));
                return None;
            }
        };
        if let Some(at) = dump.cut_at() {
            self.tell(format!(
                "{path} is cut off or damaged at byte {at}; what stands before is used"
            ));
        }
        if dump.bad_records() > 0 {
            let n = dump.bad_records();
            self.tell(format!("{path}: {n} records are damaged and left out"));
        }
        if dump.left_out() > 0 {
            let n = dump.left_out();
            self.tell(format!("{path}: the last {n} functions are left out"));
        }
        if !self.is_monotonic {
            self.tell(format!(
                "{path} tells when code was where, but the recording's clock is another one: \
                 names are those of the end (perf record needs -k mono)"
            ));
        } else if dump.has_other_clock() {
            self.tell(format!(
                "{path} has times of the processor's counter, which say nothing here: names are \
                 those of the end"
            ));
        }
        Some(dump)
    }

    /// Something that is told once.
    fn tell(&self, what: String) {
        if let Ok(mut told) = self.told.lock()
            && told.len() < 20
            && !told.contains(&what)
        {
            told.push(what);
        }
    }
}

impl Tables {
    fn find(&self, avma: u64, time: u64) -> Option<(u16, u32)> {
        let in_dumps = (0u16..).zip(&self.dumps);
        let found = in_dumps.filter_map(|(table, dump)| Some((table, dump.find(avma, time)?)));
        if let Some(found) = found.last() {
            return Some(found);
        }
        let after = self.maps.partition_point(|(since, _)| *since <= time);
        let table = after.saturating_sub(1);
        let number = self.maps.get(table)?.1.find(avma)?;
        Some(((self.dumps.len() + table) as u16, number))
    }
}

/// The one frame at an address in a function.
fn frames(function: &JitFunction<'_>, avma: u64, line: Option<JitLine<'_>>) -> Frames {
    let line = line.map(|line| SourceLine {
        file: line.file.into(),
        line: line.line,
        column: 0,
    });
    let offset = avma.wrapping_sub(function.start);
    Frames::of_jit_function(&function.name, function.start, function.size, offset, line)
}

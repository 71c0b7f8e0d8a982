//! What is known of the processes that live: who they are and what they map.
//!
//! A recording that goes on in another file begins that file with this, so that each
//! file is complete in itself. What is kept is bounded by what lives: names and mappings
//! of processes that have ended, and mappings that others replaced, are forgotten. A
//! forked process shares its parent's mappings until it changes them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use rprof_records::{Comm, Task};
use rprof_records::{Misc, Mmap2, RawRecord, Record, RecordType, SampleId, SampleLayout};
use rustc_hash::FxHashMap;

/// `PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER`: the symbol is gone.
const UNREGISTER: u16 = 1;

/// `PERF_BPF_EVENT_PROG_LOAD` and `PERF_BPF_EVENT_PROG_UNLOAD`.
const PROG_LOAD: u16 = 1;
const PROG_UNLOAD: u16 = 2;

/// The processes that live, as the records so far tell.
#[derive(Debug, Default)]
pub(crate) struct State {
    processes: FxHashMap<i32, Process>,
    /// Symbols that the kernel gained, by address: records as they were.
    kernel_symbols: BTreeMap<u64, Box<[u8]>>,
    /// BPF programs and control groups, by number.
    programs: BTreeMap<u32, Box<[u8]>>,
    cgroups: BTreeMap<u64, Box<[u8]>>,
}

#[derive(Clone, Debug, Default)]
struct Process {
    /// Name of each thread.
    threads: BTreeMap<i32, Arc<[u8]>>,
    /// By first address; they do not overlap.
    mappings: Arc<BTreeMap<u64, Mapping>>,
    /// The NAMESPACES record as it was.
    namespaces: Option<Arc<[u8]>>,
}

#[derive(Clone, Debug)]
struct Mapping {
    misc: Misc,
    /// The path is empty here, and in `path`.
    map: Mmap2<'static>,
    path: Arc<[u8]>,
}

impl Mapping {
    fn end(&self) -> u64 {
        self.map.start.saturating_add(self.map.len)
    }

    /// The part of it from `start` to `end`.
    fn cut(&self, start: u64, end: u64) -> Mapping {
        let mut part = self.clone();
        part.map.start = start;
        part.map.len = end - start;
        part.map.pgoff = self.map.pgoff.wrapping_add(start - self.map.start);
        part
    }
}

impl State {
    /// Takes in a record of the sideband; others mean nothing here. `bytes` is the
    /// record as it stands.
    pub(crate) fn take(&mut self, raw: &RawRecord<'_>, record: &Record<'_>, bytes: &[u8]) {
        match record {
            Record::Comm(comm) => self.take_comm(comm, raw.misc.has(Misc::COMM_EXEC)),
            // Made up for a process that was there: its mappings are its own.
            Record::Fork(_) if raw.misc.has(Misc::COMM_EXEC) => {}
            Record::Fork(task) => self.take_fork(task),
            Record::Exit(task) => self.take_exit(task),
            Record::Mmap2(map) => self.take_mapping(raw.misc, map),
            Record::Namespaces { pid, .. } => {
                self.process(*pid).namespaces = Some(bytes.into());
            }
            Record::Ksymbol { addr, flags, .. } => match flags & UNREGISTER {
                0 => drop(self.kernel_symbols.insert(*addr, bytes.into())),
                _ => drop(self.kernel_symbols.remove(addr)),
            },
            Record::BpfEvent { kind, id, .. } => match *kind {
                PROG_LOAD => drop(self.programs.insert(*id, bytes.into())),
                PROG_UNLOAD => drop(self.programs.remove(id)),
                _ => {}
            },
            Record::Cgroup { id, .. } => drop(self.cgroups.insert(*id, bytes.into())),
            _ => {}
        }
    }

    /// Whether records of this kind mean something here.
    pub(crate) fn wants(kind: RecordType) -> bool {
        matches!(
            kind,
            RecordType::COMM
                | RecordType::FORK
                | RecordType::EXIT
                | RecordType::MMAP2
                | RecordType::NAMESPACES
                | RecordType::KSYMBOL
                | RecordType::BPF_EVENT
                | RecordType::CGROUP
        )
    }

    fn process(&mut self, pid: i32) -> &mut Process {
        self.processes.entry(pid).or_default()
    }

    fn take_comm(&mut self, comm: &Comm<'_>, is_exec: bool) {
        let process = self.process(comm.pid);
        if is_exec {
            // Only the thread that called it is left, in an address space of its own.
            process.threads.clear();
            process.mappings = Arc::default();
        }
        process.threads.insert(comm.tid, (*comm.name).into());
    }

    fn take_fork(&mut self, task: &Task) {
        let parent = self.processes.get(&task.ppid);
        let name = (parent.and_then(|parent| parent.threads.get(&task.ptid))).cloned();
        if task.pid != task.ppid {
            let process = Process {
                threads: BTreeMap::new(),
                ..parent.cloned().unwrap_or_default()
            };
            self.processes.insert(task.pid, process);
        }
        if let Some(name) = name {
            self.process(task.pid).threads.insert(task.tid, name);
        }
    }

    fn take_exit(&mut self, task: &Task) {
        if let Some(process) = self.processes.get_mut(&task.pid) {
            process.threads.remove(&task.tid);
            if process.threads.is_empty() {
                self.processes.remove(&task.pid);
            }
        }
    }

    fn take_mapping(&mut self, misc: Misc, map: &Mmap2<'_>) {
        if map.len == 0 || map.pid < 0 {
            return;
        }
        let mapping = Mapping {
            misc,
            path: (*map.path).into(),
            map: Mmap2 {
                path: Cow::Borrowed(b""),
                ..*map
            },
        };
        let (start, end) = (map.start, mapping.end());
        let mappings = Arc::make_mut(&mut self.process(map.pid).mappings);
        // What it covers goes; of what reaches out, the rest stays.
        let first = (mappings.range(..start).next_back())
            .filter(|(_, before)| before.end() > start)
            .map_or(start, |(from, _)| *from);
        let covered: Vec<u64> = mappings.range(first..end).map(|(from, _)| *from).collect();
        for from in covered {
            let Some(old) = mappings.remove(&from) else {
                continue;
            };
            if old.map.start < start {
                mappings.insert(old.map.start, old.cut(old.map.start, start));
            }
            if old.end() > end {
                mappings.insert(end, old.cut(end, old.end()));
            }
        }
        mappings.insert(start, mapping);
    }

    /// Appends records that say all this, at time 0: before whatever follows.
    pub(crate) fn append(&self, layout: &SampleLayout, out: &mut Vec<u8>) {
        let id = SampleId::default();
        // A record that was read fits into a record.
        let mut put = |record: Record<'_>, misc: Misc| drop(record.encode(misc, layout, &id, out));
        let mut pids: Vec<_> = self.processes.keys().copied().collect();
        pids.sort_unstable();
        let mut as_they_were: Vec<&[u8]> = Vec::new();
        for pid in pids {
            let process = &self.processes[&pid];
            as_they_were.extend(process.namespaces.as_deref());
            for (tid, name) in &process.threads {
                let name = Cow::Borrowed(&name[..]);
                let tid = *tid;
                put(Record::Comm(Comm { pid, tid, name }), Misc(0));
            }
            for mapping in process.mappings.values() {
                let map = Mmap2 {
                    path: Cow::Borrowed(&mapping.path[..]),
                    pid,
                    ..mapping.map
                };
                put(Record::Mmap2(map), mapping.misc);
            }
        }
        as_they_were.extend(self.kernel_symbols.values().map(|bytes| &bytes[..]));
        as_they_were.extend(self.programs.values().map(|bytes| &bytes[..]));
        as_they_were.extend(self.cgroups.values().map(|bytes| &bytes[..]));
        for bytes in as_they_were {
            out.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;

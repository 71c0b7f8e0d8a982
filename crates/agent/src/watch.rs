//! [`ProcessWatch`]: facts about processes, from their records and /proc.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rprof_perfdata::{EventDescription, Events, FeatureSections, RecordWriter};
use rprof_records::{Endian, ProcessEvent, RawBytes, RawRecord, Record, RecordType, Sample};
use rustc_hash::FxHashMap;

use crate::identity::{CgroupFacts, Facts, ProcessFacts};

/// Samples of further processes have no service.
const LIMIT: usize = 1 << 17;

const MAX_GROUPS: usize = 1 << 16;

/// Table of the sampled processes and their facts. Clones share one state.
///
/// /proc is read at a program's first sample. After its end, its facts are the cgroup in the sample
/// and the program that it mapped first.
#[derive(Clone, Debug)]
pub struct ProcessWatch(Arc<Mutex<SampledProcesses>>);

#[derive(Debug)]
struct SampledProcesses {
    reader: ProcessFacts,
    processes: FxHashMap<i32, Process>,
    groups: FxHashMap<u64, CgroupFacts>,
    samples: u64,
}

#[derive(Clone, Debug, Default)]
struct Process {
    parent: i32,
    /// First executable mapping since the last exec.
    exe: Option<Box<str>>,
    /// True between an exec and the first mapping.
    awaits_exe: bool,
    /// Facts, from the first sample on.
    facts: Option<Arc<Facts>>,
    has_ended: bool,
}

/// Processes observed in a window.
#[derive(Debug, Default)]
pub struct Seen {
    /// Processes with samples, by pid.
    pub processes: FxHashMap<i32, Arc<Facts>>,
    /// Number of samples of all processes in the window.
    pub samples: u64,
}

impl ProcessWatch {
    /// Creates an empty table.
    pub fn new(reads_env: bool) -> ProcessWatch {
        ProcessWatch(Arc::new(Mutex::new(SampledProcesses {
            reader: ProcessFacts::new(reads_env),
            processes: FxHashMap::default(),
            groups: FxHashMap::default(),
            samples: 0,
        })))
    }

    /// Returns a writer that observes the records of a recording with these events.
    pub fn writer(&self, events: &[EventDescription]) -> WatchWriter {
        let list = events.iter().cloned();
        let list = list.map(|event| (event.attr, event.name, event.ids));
        // A new recording reports all running processes.
        self.lock().processes.clear();
        WatchWriter {
            watch: self.clone(),
            events: Events::new(list.collect(), Endian::NATIVE),
            bytes: 0,
        }
    }

    /// Ends a window. Returns its observations, and removes processes that have ended.
    pub fn end_window(&self) -> Seen {
        let mut table = self.lock();
        table.reader.refresh();
        let processes = table.processes.iter();
        let processes = processes
            .filter_map(|(pid, process)| Some((*pid, Arc::clone(process.facts.as_ref()?))))
            .collect();
        table.processes.retain(|_, process| !process.has_ended);
        Seen {
            processes,
            samples: std::mem::take(&mut table.samples),
        }
    }

    /// Each record is applied as a whole, so a poisoned state is usable.
    fn lock(&self) -> MutexGuard<'_, SampledProcesses> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SampledProcesses {
    fn process(&mut self, pid: i32) -> Option<&mut Process> {
        if self.processes.len() >= LIMIT && !self.processes.contains_key(&pid) {
            return None;
        }
        Some(self.processes.entry(pid).or_default())
    }

    fn follow(&mut self, event: &ProcessEvent<'_>) {
        match event {
            ProcessEvent::Forked {
                pid, parent_pid, ..
            } if pid != parent_pid => {
                let exe = self.processes.get(parent_pid).and_then(|p| p.exe.clone());
                if let Some(process) = self.process(*pid) {
                    *process = Process {
                        parent: *parent_pid,
                        exe,
                        ..Process::default()
                    };
                }
            }
            ProcessEvent::Executed { pid, .. } => {
                if let Some(process) = self.process(*pid) {
                    (process.exe, process.facts) = (None, None);
                    process.awaits_exe = true;
                }
            }
            ProcessEvent::Mapped(mapped) if mapped.executable && !mapped.kernel => {
                if let Some(process) = self.processes.get_mut(&mapped.pid)
                    && std::mem::take(&mut process.awaits_exe)
                {
                    process.exe = Some(String::from_utf8_lossy(&mapped.path).into());
                }
            }
            ProcessEvent::Ended { pid, tid } if pid == tid => {
                if let Some(process) = self.processes.get_mut(pid) {
                    process.has_ended = true;
                }
            }
            _ => {}
        }
    }

    fn count(&mut self, pid: i32, group: Option<u64>) {
        self.samples += 1;
        let known = self.processes.get(&pid);
        if pid < 0 || known.is_some_and(|process| process.facts.is_some()) {
            return;
        }
        let mut facts = self.reader.read(pid).unwrap_or_default();
        // Also valid for ended processes.
        let of_sample = group.and_then(|id| self.groups.get(&id));
        if let Some(group) = of_sample.filter(|group| !group.is_empty()) {
            facts.cgroup = group.clone();
        }
        let parent = known.map(|process| process.parent);
        if facts.exe.is_none() && !facts.is_kernel {
            facts.exe = known
                .and_then(|process| process.exe.as_deref())
                .map(str::to_owned);
        }
        if facts.cgroup.is_empty()
            && facts.exe.is_some()
            && let Some(parent) = parent.and_then(|parent| self.processes.get(&parent))
            && let Some(of_parent) = &parent.facts
            && rustix::process::Pid::from_raw(pid)
                .is_none_or(|pid| rustix::process::test_kill_process(pid).is_err())
        {
            // A child is usually in its parent's cgroup.
            facts.cgroup = of_parent.cgroup.clone();
        }
        if let Some(process) = self.process(pid) {
            process.facts = Some(Arc::new(facts));
        }
    }
}

/// Writer that passes the records of a recording to a [`ProcessWatch`].
#[derive(Debug)]
pub struct WatchWriter {
    watch: ProcessWatch,
    events: Events,
    bytes: u64,
}

impl RecordWriter for WatchWriter {
    fn write_records(&mut self, mut records: &[u8]) -> io::Result<()> {
        self.bytes += records.len() as u64;
        let mut table = self.watch.lock();
        while let Some(raw) = RawRecord::parse(RawBytes::from(records), Endian::NATIVE) {
            match raw.kind {
                RecordType::SAMPLE => {
                    let event = self.events.of_sample(&raw);
                    let layout = event.map(|event| &self.events.list()[event].layout);
                    let sample = layout.and_then(|layout| Sample::parse(raw.body, layout).ok());
                    if let Some(sample) = sample {
                        table.count(sample.pid().unwrap_or(-1), sample.cgroup());
                    }
                }
                RecordType::CGROUP => {
                    if let Ok(Record::Cgroup { id, path }) =
                        Record::decode(&raw, self.events.layout_of(&raw))
                        && table.groups.len() < MAX_GROUPS
                    {
                        let path = String::from_utf8_lossy(&path);
                        table.groups.insert(id, CgroupFacts::of_path(&path));
                    }
                }
                _ => {
                    let event = ProcessEvent::decode(&raw, self.events.layout_of(&raw));
                    if let Ok(Some(event)) = event {
                        table.follow(&event);
                    }
                }
            }
            records = &records[raw.size()..];
        }
        Ok(())
    }

    fn bytes_written(&self) -> u64 {
        self.bytes
    }

    fn finish(self, _: FeatureSections) -> io::Result<u64> {
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use rprof_records::Misc;
    use rprof_records::sideband::Mapped;

    use super::*;

    const ID: &str = "3f4e5d6c7b8a90123f4e5d6c7b8a90123f4e5d6c7b8a90123f4e5d6c7b8a9012";

    fn exec(table: &mut SampledProcesses, pid: i32, path: &str) {
        table.follow(&ProcessEvent::Executed {
            pid,
            tid: pid,
            name: Cow::Borrowed(b"x"),
        });
        for path in [path, "/lib/ld.so"] {
            table.follow(&ProcessEvent::Mapped(Mapped {
                pid,
                tid: pid,
                start: 0,
                len: 1,
                file_offset: 0,
                path: Cow::Borrowed(path.as_bytes()),
                identity: None,
                executable: true,
                kernel: false,
                prot_and_flags: None,
                misc: Misc(0),
            }));
        }
    }

    /// No process has this pid, like one that ended before its first sample.
    const GONE: i32 = i32::MAX - 1;

    #[test]
    fn a_process_that_has_ended_is_known_by_its_first_mapping_and_its_samples_group() {
        let watch = ProcessWatch::new(false);
        let mut table = watch.lock();
        let group = CgroupFacts::of_path(&format!("/docker/{ID}"));
        table.groups.insert(5, group);
        exec(&mut table, GONE, "/bin/job");
        table.count(GONE, Some(5));
        table.follow(&ProcessEvent::Ended {
            pid: GONE,
            tid: GONE,
        });
        drop(table);
        let seen = watch.end_window();
        assert_eq!(seen.samples, 1);
        let facts = &seen.processes[&GONE];
        assert_eq!(facts.exe.as_deref(), Some("/bin/job"));
        assert_eq!(facts.cgroup.container_id.as_deref(), Some(ID));
        assert!(watch.end_window().processes.is_empty());
    }

    #[test]
    fn another_program_is_another_service_and_children_are_where_their_parents_are() {
        let watch = ProcessWatch::new(false);
        let mut table = watch.lock();
        let (parent, child) = (GONE, GONE - 1);
        table
            .groups
            .insert(5, CgroupFacts::of_path("/system.slice/cron.service"));
        exec(&mut table, parent, "/bin/cron");
        table.count(parent, Some(5));
        table.follow(&ProcessEvent::Forked {
            pid: child,
            tid: child,
            parent_pid: parent,
            parent_tid: parent,
        });
        table.count(child, None);
        let facts = table.processes[&child].facts.clone().unwrap();
        assert_eq!(facts.exe.as_deref(), Some("/bin/cron"));
        assert_eq!(facts.cgroup.unit.as_deref(), Some("cron.service"));
        exec(&mut table, child, "/bin/job");
        table.count(child, None);
        let facts = table.processes[&child].facts.clone().unwrap();
        assert_eq!(facts.exe.as_deref(), Some("/bin/job"));
    }
}

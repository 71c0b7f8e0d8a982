//! [`Programs`]: programs with and without the preload library.

use std::ops::Range;

use rprof_preload::FILE_NAME;
use rprof_records::ProcessEvent;
use rustc_hash::{FxHashMap, FxHashSet};

/// Maximum number of mappings of the library in one process: it has one executable segment.
const MAX_RANGES: usize = 8;

/// Programs of the recorded processes: an exec begins a program.
#[derive(Debug, Default)]
pub(super) struct Programs {
    processes: FxHashMap<i32, Process>,
    loaded: u64,
    unloaded: Count,
    own_malloc: Count,
}

#[derive(Clone, Debug, Default)]
struct Process {
    threads: FxHashSet<i32>,
    name: String,
    /// Addresses of the library's code.
    library: Vec<Range<u64>>,
    /// True from an exec until the library reports itself.
    is_awaited: bool,
}

#[derive(Debug, Default)]
struct Count {
    number: u64,
    first: Option<String>,
}

impl Count {
    fn add(&mut self, name: &str) {
        self.number += 1;
        self.first.get_or_insert_with(|| name.to_owned());
    }
}

impl Programs {
    pub(super) fn handle(&mut self, event: &ProcessEvent<'_>) {
        match event {
            ProcessEvent::Mapped(mapped) if !mapped.kernel && is_library(&mapped.path) => {
                let process = self.processes.entry(mapped.pid).or_default();
                if process.library.len() < MAX_RANGES {
                    process.library.push(mapped.start..mapped.end());
                }
            }
            ProcessEvent::Forked {
                pid,
                tid,
                parent_pid,
                ..
            } => {
                if pid != parent_pid {
                    let parent = self.processes.get(parent_pid).cloned().unwrap_or_default();
                    let child = Process {
                        threads: FxHashSet::default(),
                        is_awaited: false,
                        ..parent
                    };
                    self.processes.insert(*pid, child);
                }
                self.processes.entry(*pid).or_default().threads.insert(*tid);
            }
            ProcessEvent::Found { pid, tid, .. } => {
                self.processes.entry(*pid).or_default().threads.insert(*tid);
            }
            ProcessEvent::Executed { pid, name, .. } => {
                let program = Process {
                    threads: FxHashSet::from_iter([*pid]),
                    name: String::from_utf8_lossy(name).into_owned(),
                    library: Vec::new(),
                    is_awaited: true,
                };
                if let Some(before) = self.processes.insert(*pid, program) {
                    self.judge(&before);
                }
            }
            _ => {}
        }
    }

    /// Removes a thread. Returns true if it was the last one of its process.
    pub(super) fn end(&mut self, pid: i32, tid: i32) -> bool {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.threads.remove(&tid);
            if !process.threads.is_empty() {
                return false;
            }
        }
        if let Some(process) = self.processes.remove(&pid) {
            self.judge(&process);
        }
        true
    }

    fn judge(&mut self, program: &Process) {
        if program.is_awaited {
            self.unloaded.add(&program.name);
        }
    }

    /// Notes that the library was loaded in a process.
    pub(super) fn load(&mut self, pid: i32, own_malloc: bool) {
        let process = self.processes.entry(pid).or_default();
        if std::mem::replace(&mut process.is_awaited, false) {
            self.loaded += 1;
            if own_malloc {
                self.own_malloc.add(&process.name);
            }
        }
    }

    /// Returns true if an address belongs to the library's code.
    pub(super) fn is_library(&self, pid: i32, address: u64) -> bool {
        let process = self.processes.get(&pid);
        process.is_some_and(|one| one.library.iter().any(|range| range.contains(&address)))
    }

    /// Ends the recording: programs that still run are judged.
    pub(super) fn finish(&mut self) {
        for (_, process) in std::mem::take(&mut self.processes) {
            self.judge(&process);
        }
    }

    /// Returns the number of programs that loaded the library, that did not, and that have their
    /// own `malloc`.
    pub(super) fn count(&self) -> (u64, u64, u64) {
        (self.loaded, self.unloaded.number, self.own_malloc.number)
    }

    pub(super) fn first_unloaded(&self) -> Option<String> {
        self.unloaded.first.clone()
    }

    pub(super) fn first_own_malloc(&self) -> Option<String> {
        self.own_malloc.first.clone()
    }
}

fn is_library(path: &[u8]) -> bool {
    path.strip_suffix(FILE_NAME.as_bytes())
        .is_some_and(|folder| folder.ends_with(b"/"))
}

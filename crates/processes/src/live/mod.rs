//! The process map of now: who lives, under which names, with which mappings.
//!
//! A [`Timeline`](crate::Timeline) remembers everything, and grows with every record. A
//! recorder that runs for days needs only the present: memory is bounded by the
//! processes that live, and by what [`Retain`] keeps.
//!
//! | type | keeps | for |
//! |---|---|---|
//! | [`LiveMap`], of [`Images`] | mappings, with interned images | unwinding |
//! | [`LiveMap`], of [`NamedImages`] | the same, and names | a profile while recording |
//! | [`LiveMap`], of [`Records`] | names, and mappings with all that their records said | a file that begins in the middle of a recording |
//! | [`LiveProcesses`] | numbers of threads | telling who is left at the end |

mod mappings;
mod processes;
mod records;
mod retain;

use std::collections::BTreeMap;
use std::sync::Arc;

use rprof_records::{Mapped, ProcessEvent};
use rustc_hash::FxHashMap;

pub use mappings::{LiveMapping, find};
pub use processes::LiveProcesses;
pub use retain::{Images, MappingRecord, NamedImages, Records, Retain};

use crate::ids::{Pid, Tid};
use crate::image::Image;
use mappings::insert;

/// The mappings of one process, by ascending address, disjoint. Shared by a fork's
/// two sides until one of them changes.
type Mappings<B> = Arc<Vec<LiveMapping<B>>>;

#[derive(Debug)]
struct LiveProcess<R: Retain> {
    mappings: Mappings<R::Backing>,
    /// Identifies the contents of `mappings`; 0 for none.
    generation: u64,
    /// Threads that live, with their names as far as they are known.
    threads: BTreeMap<i32, Option<R::Name>>,
}

// Derived, it would ask for names and backings that have a default.
impl<R: Retain> Default for LiveProcess<R> {
    fn default() -> Self {
        LiveProcess {
            mappings: Mappings::default(),
            generation: 0,
            threads: BTreeMap::new(),
        }
    }
}

/// The mappings, and the names, of all processes at the time of the event fed last.
///
/// Events are fed in time order. No event makes any function here panic.
///
/// # Examples
/// ```
/// use rprof_processes::{LiveMap, Pid};
/// use rprof_records::{Mapped, Misc, ProcessEvent};
///
/// let mut live: LiveMap = LiveMap::new();
/// live.handle(&ProcessEvent::Mapped(Mapped {
///     pid: 7,
///     tid: 7,
///     start: 0x40_0000,
///     len: 0x1000,
///     file_offset: 0,
///     path: b"/usr/bin/cat".into(),
///     identity: None,
///     executable: true,
///     kernel: false,
///     prot_and_flags: None,
///     misc: Misc::USER,
/// }));
/// let mapping = live.find(Pid(7), 0x40_0123).unwrap();
/// assert_eq!(*live.images()[mapping.backing.0 as usize].path, *b"/usr/bin/cat");
///
/// live.handle(&ProcessEvent::Executed { pid: 7, tid: 7, name: b"ls".into() });
/// assert!(live.find(Pid(7), 0x40_0123).is_none());
/// ```
#[derive(Debug)]
pub struct LiveMap<R: Retain = Images> {
    processes: FxHashMap<i32, LiveProcess<R>>,
    retained: R,
    /// The last generation given to the mappings of a process.
    generations: u64,
}

impl<R: Retain> Default for LiveMap<R> {
    fn default() -> Self {
        LiveMap {
            processes: FxHashMap::default(),
            retained: R::default(),
            generations: 0,
        }
    }
}

impl<R: Retain> LiveMap<R> {
    /// Creates the map of a machine without processes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in what a record says. Returns true if a process ended with it. The kernel's
    /// own mappings are not kept.
    pub fn handle(&mut self, event: &ProcessEvent<'_>) -> bool {
        match event {
            ProcessEvent::Mapped(mapped) => self.handle_mapped(mapped),
            ProcessEvent::Renamed { pid, tid, name } => {
                let name = self.retained.name(name);
                self.process(*pid).threads.insert(*tid, Some(name));
            }
            ProcessEvent::Executed { pid, tid, name } => {
                let name = self.retained.name(name);
                let process = self.process(*pid);
                process.mappings = Mappings::default();
                process.generation = 0;
                // Only the thread that called exec is left, and it has the process's number.
                process.threads.clear();
                process.threads.insert(*tid, Some(name));
            }
            ProcessEvent::Forked {
                pid,
                tid,
                parent_pid,
                parent_tid,
            } => self.handle_forked((*pid, *tid), (*parent_pid, *parent_tid)),
            ProcessEvent::Found { pid, tid, .. } => {
                self.process(*pid).threads.entry(*tid).or_insert(None);
            }
            ProcessEvent::Ended { pid, tid } => return self.handle_ended(*pid, *tid),
            _ => {}
        }
        false
    }

    fn process(&mut self, pid: i32) -> &mut LiveProcess<R> {
        self.processes.entry(pid).or_default()
    }

    fn handle_mapped(&mut self, mapped: &Mapped<'_>) {
        if mapped.kernel || mapped.pid < 0 || mapped.end() <= mapped.start {
            return;
        }
        let mapping = LiveMapping {
            start: mapped.start,
            end: mapped.end(),
            file_offset: mapped.file_offset,
            backing: self.retained.backing(mapped),
            executable: mapped.executable,
        };
        self.generations += 1;
        let generation = self.generations;
        let process = self.process(mapped.pid);
        process.generation = generation;
        insert(Arc::make_mut(&mut process.mappings), mapping);
    }

    /// A new process has its parent's mappings, and the name of the thread that forked it.
    fn handle_forked(&mut self, (pid, tid): (i32, i32), (parent_pid, parent_tid): (i32, i32)) {
        let parent = self.processes.get(&parent_pid);
        let name = parent.and_then(|parent| parent.threads.get(&parent_tid)?.clone());
        if pid != parent_pid {
            let born = LiveProcess {
                mappings: parent.map(|p| p.mappings.clone()).unwrap_or_default(),
                generation: parent.map_or(0, |p| p.generation),
                threads: BTreeMap::new(),
            };
            self.processes.insert(pid, born);
        }
        self.process(pid).threads.insert(tid, name);
    }

    fn handle_ended(&mut self, pid: i32, tid: i32) -> bool {
        let Some(process) = self.processes.get_mut(&pid) else {
            return false;
        };
        process.threads.remove(&tid);
        let gone = process.threads.is_empty();
        if gone {
            self.processes.remove(&pid);
        }
        gone
    }

    /// Returns what a process has mapped, by ascending address; nothing for one that is
    /// not known.
    pub fn mappings(&self, pid: Pid) -> &[LiveMapping<R::Backing>] {
        let process = self.processes.get(&pid.0);
        process.map_or(&[], |process| &process.mappings[..])
    }

    /// Returns the generation of a process's mappings. While it is the same, so are the mappings;
    /// processes of equal generations have the same mappings.
    pub fn generation(&self, pid: Pid) -> u64 {
        (self.processes.get(&pid.0)).map_or(0, |process| process.generation)
    }

    /// Returns the mapping that covers an address.
    pub fn find(&self, pid: Pid, address: u64) -> Option<&LiveMapping<R::Backing>> {
        find(self.mappings(pid), address)
    }

    /// Returns the processes that live, in no order.
    pub fn processes(&self) -> impl Iterator<Item = Pid> + '_ {
        self.processes.keys().copied().map(Pid)
    }

    /// Returns the threads of a process by ascending id, with their names as far as these are known.
    pub fn threads(&self, pid: Pid) -> impl Iterator<Item = (Tid, Option<&R::Name>)> + '_ {
        let threads = self.processes.get(&pid.0).map(|process| &process.threads);
        let threads = threads.into_iter().flatten();
        threads.map(|(tid, name)| (Tid(*tid), name.as_ref()))
    }
}

impl LiveMap<NamedImages> {
    /// Returns all images so far; [`ImageId`](crate::ImageId) is the index.
    pub fn images(&self) -> &[Image] {
        self.retained.as_slice()
    }

    /// Returns the name of a thread; that of its process's main thread where its own was never
    /// told. `None` before the first name.
    pub fn name(&self, pid: Pid, tid: Tid) -> Option<&Arc<[u8]>> {
        let threads = &self.processes.get(&pid.0)?.threads;
        let name = |tid| threads.get(&tid)?.as_ref();
        name(tid.0).or_else(|| name(pid.0))
    }
}

impl LiveMap<Images> {
    /// Returns all images so far; [`ImageId`](crate::ImageId) is the index.
    pub fn images(&self) -> &[Image] {
        self.retained.as_slice()
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

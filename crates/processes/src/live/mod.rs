//! Process map of the present: living processes, their names and mappings.
//!
//! A [`Timeline`](crate::Timeline) grows with every record. A recorder that runs for days only
//! needs the present. Mappings are limited per process and in total: no record reports unmapping,
//! so a process that maps at ever new addresses seems to keep all of them.
//!
//! | type | stores | purpose |
//! |---|---|---|
//! | [`LiveMap`] of [`Images`] | mappings with interned images | unwinding |
//! | [`LiveMap`] of [`NamedImages`] | the same, and names | profile while recording |
//! | [`LiveMap`] of [`Records`] | names, full mapping records | files begun in mid-recording |
//! | [`LiveProcesses`] | numbers of threads | remaining processes at the end |
//! | [`PrivilegedExecs`] | processes since an exec | EXIT records of threads that live on |

mod images;
mod mappings;
mod processes;
mod records;
mod retain;

use std::collections::BTreeMap;
use std::sync::Arc;

use rprof_records::{Mapped, ProcessEvent};
use rustc_hash::{FxHashMap, FxHashSet};

pub use images::Images;
pub use mappings::{LiveMapping, find};
pub use processes::{LiveProcesses, PrivilegedExecs};
pub use retain::{MappingRecord, NamedImages, Records, Retain};

use crate::ids::{ImageId, Pid, Tid};
use crate::image::Image;
use mappings::{HugeText, huge_text, insert};

/// Mappings per process. Normal ones have hundreds of code mappings, or some thousands.
const MAX_MAPPINGS: usize = 1 << 14;

/// Mappings of all processes. Beyond half of it, [`FAIR_SHARE`] limits each.
const MAX_IN_ALL: usize = 1 << 19;

/// Mappings per process when there are many in total.
const FAIR_SHARE: usize = 512;

/// A fork shares them until parent or child changes them.
type Mappings<B> = Arc<Vec<LiveMapping<B>>>;

#[derive(Debug)]
struct LiveProcess<R: Retain> {
    mappings: Mappings<R::Backing>,
    /// Identity of the mappings' contents; 0 for none.
    generation: u64,
    threads: BTreeMap<i32, Option<R::Name>>,
}

// Derived, it would require `Default` of names and backings.
impl<R: Retain> Default for LiveProcess<R> {
    fn default() -> Self {
        LiveProcess {
            mappings: Mappings::default(),
            generation: 0,
            threads: BTreeMap::new(),
        }
    }
}

/// Mappings and names of all processes at the last event.
///
/// Feed events in time order. No event makes any function here panic.
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
/// assert_eq!(*live.image(mapping.backing).unwrap().path, *b"/usr/bin/cat");
///
/// live.handle(&ProcessEvent::Executed { pid: 7, tid: 7, name: b"ls".into() });
/// assert!(live.find(Pid(7), 0x40_0123).is_none());
/// ```
#[derive(Debug)]
pub struct LiveMap<R: Retain = Images> {
    processes: FxHashMap<i32, LiveProcess<R>>,
    retained: R,
    generations: u64,
    /// Number of mappings. Shared ones count once.
    mappings: usize,
    refused: u64,
}

impl<R: Retain> Default for LiveMap<R> {
    fn default() -> Self {
        LiveMap {
            processes: FxHashMap::default(),
            retained: R::default(),
            generations: 0,
            mappings: 0,
            refused: 0,
        }
    }
}

impl<R: Retain> LiveMap<R> {
    /// Creates an empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Processes an event. Returns true if it ended a process. Ignores the kernel.
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
                let gone = std::mem::take(&mut process.mappings);
                process.generation = 0;
                // The exec's thread takes the process's number.
                process.threads.clear();
                process.threads.insert(*tid, Some(name));
                self.let_go(gone);
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
        if !self.has_room(mapped) {
            self.refused += 1;
            return;
        }
        if self.retained.is_sweep_due(self.mappings) {
            self.sweep();
        }
        let mapping = LiveMapping {
            start: mapped.start,
            end: mapped.end(),
            file_offset: mapped.file_offset,
            backing: self.retained.backing(mapped),
            executable: mapped.executable,
        };
        let present = self.mappings(Pid(mapped.pid));
        let earlier = match huge_text(&self.retained, present, &mapping) {
            HugeText::New => return,
            HugeText::Earlier(text) => Some(text),
            HugeText::None => None,
        };
        self.generations += 1;
        let generation = self.generations;
        let process = self.process(mapped.pid);
        process.generation = generation;
        let is_own = Arc::get_mut(&mut process.mappings).is_some();
        let before = if is_own { process.mappings.len() } else { 0 };
        let mappings = Arc::make_mut(&mut process.mappings);
        for mapping in earlier.into_iter().chain([mapping]) {
            insert(mappings, mapping);
        }
        let after = mappings.len();
        self.mappings = (self.mappings + after).saturating_sub(before);
    }

    /// Returns true if the limits permit a mapping, or if it replaces another.
    fn has_room(&self, mapped: &Mapped<'_>) -> bool {
        let known = self.mappings(Pid(mapped.pid));
        let most = match self.mappings {
            all if all >= MAX_IN_ALL => 0,
            all if all >= MAX_IN_ALL / 2 => FAIR_SHARE,
            _ => MAX_MAPPINGS,
        };
        let takes_place = |m: &LiveMapping<_>| m.start == mapped.start && m.end <= mapped.end();
        known.len() < most || find(known, mapped.start).is_some_and(takes_place)
    }

    fn sweep(&mut self) {
        let mut seen = FxHashSet::default();
        let processes = self.processes.values();
        let distinct = processes.filter(|process| seen.insert(process.generation));
        let mapped = distinct.flat_map(|process| process.mappings.iter());
        (self.retained).keep_only(mapped.map(|mapping| &mapping.backing));
    }

    fn let_go(&mut self, mappings: Mappings<R::Backing>) {
        let gone = Arc::into_inner(mappings).map_or(0, |gone| gone.len());
        self.mappings = self.mappings.saturating_sub(gone);
    }

    fn handle_forked(&mut self, (pid, tid): (i32, i32), (parent_pid, parent_tid): (i32, i32)) {
        let parent = self.processes.get(&parent_pid);
        let name = parent.and_then(|parent| parent.threads.get(&parent_tid)?.clone());
        if pid != parent_pid {
            let born = LiveProcess {
                mappings: parent.map(|p| p.mappings.clone()).unwrap_or_default(),
                generation: parent.map_or(0, |p| p.generation),
                threads: BTreeMap::new(),
            };
            if let Some(before) = self.processes.insert(pid, born) {
                self.let_go(before.mappings);
            }
        }
        self.process(pid).threads.insert(tid, name);
    }

    fn handle_ended(&mut self, pid: i32, tid: i32) -> bool {
        let Some(process) = self.processes.get_mut(&pid) else {
            return false;
        };
        process.threads.remove(&tid);
        let gone = process.threads.is_empty();
        if gone && let Some(process) = self.processes.remove(&pid) {
            self.let_go(process.mappings);
        }
        gone
    }

    /// Returns a process's mappings, sorted by address; none if unknown.
    pub fn mappings(&self, pid: Pid) -> &[LiveMapping<R::Backing>] {
        let process = self.processes.get(&pid.0);
        process.map_or(&[], |process| &process.mappings[..])
    }

    /// Returns the generation of a process's mappings. Equal generations, even of two processes,
    /// mean equal mappings.
    pub fn generation(&self, pid: Pid) -> u64 {
        (self.processes.get(&pid.0)).map_or(0, |process| process.generation)
    }

    /// Returns the mapping that covers an address.
    pub fn find(&self, pid: Pid, address: u64) -> Option<&LiveMapping<R::Backing>> {
        find(self.mappings(pid), address)
    }

    /// Returns the number of mappings dropped by the limits.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns the living processes, unsorted.
    pub fn processes(&self) -> impl Iterator<Item = Pid> + '_ {
        self.processes.keys().copied().map(Pid)
    }

    /// Returns a process's threads, sorted by id, with known names.
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

    /// Returns a thread's name, or else its process's main thread's.
    pub fn name(&self, pid: Pid, tid: Tid) -> Option<&Arc<[u8]>> {
        let threads = &self.processes.get(&pid.0)?.threads;
        let name = |tid| threads.get(&tid)?.as_ref();
        name(tid.0).or_else(|| name(pid.0))
    }
}

impl LiveMap<Images> {
    /// Returns an image unless released. A mapped image never is.
    pub fn image(&self, id: ImageId) -> Option<&Image> {
        self.retained.get(id)
    }

    /// Returns an image's unique number. Its [`ImageId`] may be reused.
    pub fn image_serial(&self, id: ImageId) -> Option<u64> {
        self.retained.serial(id)
    }

    /// Returns an exclusive upper bound of image ids.
    pub fn image_bound(&self) -> usize {
        self.retained.bound()
    }

    /// Returns the images released since the last call.
    pub fn take_forgotten(&mut self) -> Vec<ImageId> {
        self.retained.take_forgotten()
    }

    /// Returns the number of mappings without image because of the limits.
    pub fn refused_images(&self) -> u64 {
        self.retained.refused()
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

//! The timeline: read-only answers, from any thread.

use crate::ids::{CommId, ImageId, MapState, Pid, SpaceId, Tid, Time};
use crate::image::Image;
use crate::mapping::Resolved;
use crate::moment::{Moment, Span};
use crate::process::{Process, ProcessTable, Thread};
use crate::space::Space;
use crate::tree::Arena;
use crate::view::MapView;

/// The finished process map: processes, names and mappings, with the times at which they hold. Immutable.
///
/// Made by [`ProcessMapBuilder::finish`](crate::ProcessMapBuilder::finish). All
/// lookups name the time of their sample, so they need no order among them.
#[derive(Debug)]
pub struct Timeline {
    arena: Arena,
    spaces: Box<[Space]>,
    images: Box<[Image]>,
    names: Box<[Box<[u8]>]>,
    processes: Box<[Process]>,
    threads: Box<[Thread]>,
    /// (pid, start, index in `processes`), ascending.
    by_pid: Box<[(Pid, Time, u32)]>,
    /// (pid, since, address space), ascending: what every sample is looked up in,
    /// so flat rather than by way of its process.
    spaces_by_pid: Box<[(Pid, Time, SpaceId)]>,
    /// (index of process, tid, start, index in `threads`), ascending.
    by_tid: Box<[(u32, Tid, Time, u32)]>,
    dropped: u64,
}

/// Size of a timeline: counts, not bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Nodes of mapping trees, of 48 bytes each.
    pub nodes: usize,
    /// Address spaces, the kernel's included.
    pub spaces: usize,
    /// Versions of trees, over all address spaces.
    pub versions: usize,
    /// Distinct images.
    pub images: usize,
    /// Distinct thread names.
    pub names: usize,
    /// Processes; an id used twice counts twice.
    pub processes: usize,
    /// Threads; each process has at least one.
    pub threads: usize,
    /// Records refused because 32-bit numbers ran out: 0 in any real recording.
    pub dropped: u64,
}

impl Timeline {
    pub(crate) fn new(
        arena: Arena,
        spaces: Vec<Space>,
        images: Box<[Image]>,
        names: Box<[Box<[u8]>]>,
        table: ProcessTable,
        dropped: u64,
    ) -> Self {
        let ProcessTable {
            processes, threads, ..
        } = table;
        let mut by_pid: Box<[_]> = (0u32..)
            .zip(&processes)
            .map(|(index, process)| (process.pid, process.start, index))
            .collect();
        by_pid.sort_unstable();
        // Spaces of one pid are numbered in the order in which they began, so this
        // puts the later of two that began at one time last.
        let mut spaces_by_pid: Box<[_]> = processes
            .iter()
            .flat_map(|process| process.spaces.iter().map(|&(t, id)| (process.pid, t, id)))
            .collect();
        spaces_by_pid.sort_unstable();
        let mut by_tid: Box<[_]> = (0u32..)
            .zip(&threads)
            .map(|(index, thread)| (thread.process, thread.tid, thread.start, index))
            .collect();
        by_tid.sort_unstable();
        Self {
            arena,
            spaces: spaces.into_boxed_slice(),
            images,
            names,
            processes: processes.into_boxed_slice(),
            threads: threads.into_boxed_slice(),
            by_pid,
            spaces_by_pid,
            by_tid,
            dropped,
        }
    }

    /// Returns the image at a user address of a process.
    ///
    /// Strict: a mapping holds from its own time on, and not before. `None` if
    /// nothing was known to be there, or the process was not yet born. A process
    /// that has ended still resolves, until its id is used again.
    pub fn resolve(&self, pid: Pid, time: Time, address: u64) -> Option<Resolved> {
        self.resolve_in(self.space(pid, time)?, time, address)
    }

    /// Returns the image at a kernel address.
    pub fn resolve_kernel(&self, time: Time, address: u64) -> Option<Resolved> {
        self.resolve_in(SpaceId::KERNEL, time, address)
    }

    /// Returns the image at an address of an address space.
    pub fn resolve_in(&self, space: SpaceId, time: Time, address: u64) -> Option<Resolved> {
        self.view(space, time).resolve(address)
    }

    /// Returns the mappings of an address space at a time: for resolving many addresses,
    /// or listing. Empty for a time before it began.
    pub fn view(&self, space: SpaceId, time: Time) -> MapView<'_> {
        match self.spaces.get(space.0 as usize) {
            Some(space) => space.view(&self.arena, time),
            None => MapView::new(&self.arena, crate::tree::NIL, time),
        }
    }

    /// Returns the address space of a process at a time; `None` before it was born.
    pub fn space(&self, pid: Pid, time: Time) -> Option<SpaceId> {
        let n = self
            .spaces_by_pid
            .partition_point(|&(other, since, _)| (other, since) <= (pid, time));
        let &(found, _, space) = self.spaces_by_pid.get(n.checked_sub(1)?)?;
        (found == pid).then_some(space)
    }

    /// Returns the number of changes that an address space had seen by a time, those of its
    /// ancestors before a fork not counted. While it is the same, so is every
    /// answer in that space.
    pub fn epoch(&self, space: SpaceId, time: Time) -> u32 {
        self.spaces
            .get(space.0 as usize)
            .map_or(0, |space| space.epoch(time))
    }

    /// A key for the mappings in force in an address space at a time, no earlier
    /// than the space. Better than (space, epoch) in that forked processes which
    /// have mapped nothing of their own share it with their parent.
    pub fn state(&self, space: SpaceId, time: Time) -> MapState {
        match self.spaces.get(space.0 as usize) {
            Some(found) => found.state(space, time),
            None => MapState { space, epoch: 0 },
        }
    }

    /// The name of a thread at a time. Falls back to the name of its process's
    /// main thread, if the thread or its name was never recorded; `None` before
    /// the first name.
    pub fn comm(&self, pid: Pid, tid: Tid, time: Time) -> Option<&[u8]> {
        self.comm_name(self.comm_id(pid, tid, time)?)
    }

    /// Like [`comm`](Self::comm), interned: equal names have equal ids.
    pub fn comm_id(&self, pid: Pid, tid: Tid, time: Time) -> Option<CommId> {
        let process = self.process_index(pid, time)?;
        let name = |tid| self.thread_in(process, tid, time)?.comm(time);
        name(tid).or_else(|| name(pid.main_thread()))
    }

    /// All of [`space`](Self::space), [`state`](Self::state) and
    /// [`comm_id`](Self::comm_id) at once, and how long the answers stay the same:
    /// most samples of a thread lie in one such span.
    pub fn moment(&self, pid: Pid, tid: Tid, time: Time) -> Moment {
        let mut span = Span::ALWAYS;
        let space = self.steady_space(pid, time, &mut span);
        let found = space.and_then(|id| Some((id, self.spaces.get(id.0 as usize)?)));
        let user = found.map(|(id, space)| space.steady_state(id, time, &mut span));
        let kernel = match self.spaces.first() {
            Some(kernel) => kernel.steady_state(SpaceId::KERNEL, time, &mut span),
            None => self.state(SpaceId::KERNEL, time),
        };
        let comm = self.steady_comm(pid, tid, time, &mut span);
        Moment {
            space,
            user,
            kernel,
            comm,
            since: span.since,
            last: span.last,
        }
    }

    fn steady_space(&self, pid: Pid, time: Time, span: &mut Span) -> Option<SpaceId> {
        let list = &self.spaces_by_pid;
        let n = list.partition_point(|&(other, since, _)| (other, since) <= (pid, time));
        let of_pid = |n: Option<usize>| {
            let found = *list.get(n?)?;
            (found.0 == pid).then_some((found.1, found.2))
        };
        let (found, next) = (of_pid(n.checked_sub(1)), of_pid(Some(n)));
        span.narrow(found.map(|f| f.0), next.map(|f| f.0));
        found.map(|f| f.1)
    }

    fn steady_comm(&self, pid: Pid, tid: Tid, time: Time, span: &mut Span) -> Option<CommId> {
        let n = (self.by_pid).partition_point(|&(other, start, _)| (other, start) <= (pid, time));
        let of_pid = |n: Option<usize>| {
            let found = *self.by_pid.get(n?)?;
            (found.0 == pid).then_some((found.1, found.2))
        };
        let (found, next) = (of_pid(n.checked_sub(1)), of_pid(Some(n)));
        span.narrow(found.map(|f| f.0), next.map(|f| f.0));
        let (_, process) = found?;
        let mut name = |tid| {
            let list = &self.by_tid;
            let key = (process, tid, time);
            let n = list.partition_point(|&(other, id, start, _)| (other, id, start) <= key);
            let of_tid = |n: Option<usize>| {
                let found = *list.get(n?)?;
                ((found.0, found.1) == (process, tid)).then_some((found.2, found.3))
            };
            let (found, next) = (of_tid(n.checked_sub(1)), of_tid(Some(n)));
            span.narrow(found.map(|f| f.0), next.map(|f| f.0));
            self.threads.get(found?.1 as usize)?.steady_comm(time, span)
        };
        name(tid).or_else(|| name(pid.main_thread()))
    }

    /// Returns the bytes of a name, of no certain encoding.
    pub fn comm_name(&self, comm: CommId) -> Option<&[u8]> {
        self.names.get(comm.0 as usize).map(|name| &**name)
    }

    /// Returns the process that had an id at a time.
    pub fn process(&self, pid: Pid, time: Time) -> Option<&Process> {
        self.processes.get(self.process_index(pid, time)? as usize)
    }

    /// Returns the thread that had an id at a time, if it was recorded.
    pub fn thread(&self, pid: Pid, tid: Tid, time: Time) -> Option<&Thread> {
        self.thread_in(self.process_index(pid, time)?, tid, time)
    }

    /// Returns all images, in the order in which they were first seen.
    pub fn images(&self) -> &[Image] {
        &self.images
    }

    /// Returns an image.
    pub fn image(&self, id: ImageId) -> Option<&Image> {
        self.images.get(id.0 as usize)
    }

    /// Returns all processes, in the order in which they were first seen.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// Returns all threads, in the order in which they were first seen.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// Returns the size, in counts.
    pub fn stats(&self) -> Stats {
        Stats {
            nodes: self.arena.len() as usize,
            spaces: self.spaces.len(),
            versions: self.spaces.iter().map(Space::versions).sum(),
            images: self.images.len(),
            names: self.names.len(),
            processes: self.processes.len(),
            threads: self.threads.len(),
            dropped: self.dropped,
        }
    }

    fn process_index(&self, pid: Pid, time: Time) -> Option<u32> {
        let n = self
            .by_pid
            .partition_point(|&(other, start, _)| (other, start) <= (pid, time));
        let &(found, _, index) = self.by_pid.get(n.checked_sub(1)?)?;
        (found == pid).then_some(index)
    }

    fn thread_in(&self, process: u32, tid: Tid, time: Time) -> Option<&Thread> {
        let n = self
            .by_tid
            .partition_point(|&(other, id, start, _)| (other, id, start) <= (process, tid, time));
        let &(other, id, _, index) = self.by_tid.get(n.checked_sub(1)?)?;
        if (other, id) != (process, tid) {
            return None;
        }
        self.threads.get(index as usize)
    }
}

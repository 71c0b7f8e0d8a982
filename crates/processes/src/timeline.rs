//! Read-only timeline for all threads.

use crate::ids::{CommId, ImageId, MapState, Pid, SpaceId, Tid, Time};
use crate::image::Image;
use crate::mapping::Resolved;
use crate::moment::{Moment, Span};
use crate::process::{Process, ProcessTable, ThreadLife};
use crate::space::Space;
use crate::tree::Arena;
use crate::view::MapView;

/// Finished process map: processes, names and mappings with times. Immutable.
///
/// Created by [`ProcessMapBuilder::finish`](crate::ProcessMapBuilder::finish). Lookups need no
/// order.
#[derive(Debug)]
pub struct Timeline {
    arena: Arena,
    spaces: Box<[Space]>,
    images: Box<[Image]>,
    names: Box<[Box<[u8]>]>,
    processes: Box<[Process]>,
    threads: Box<[ThreadLife]>,
    /// Pid, start, and index in `processes`, ascending.
    by_pid: Box<[(Pid, Time, u32)]>,
    /// Pid, since, and address space, ascending. A flat copy: every sample searches it.
    spaces_by_pid: Box<[(Pid, Time, SpaceId)]>,
    /// Index of process, tid, start, and index in `threads`, ascending.
    by_tid: Box<[(u32, Tid, Time, u32)]>,
    dropped: u64,
}

/// Size of a timeline: counts, not bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Nodes of mapping trees, 48 bytes each.
    pub nodes: usize,
    /// Address spaces, including the kernel's.
    pub spaces: usize,
    /// Versions of trees.
    pub versions: usize,
    /// Distinct images.
    pub images: usize,
    /// Distinct thread names.
    pub names: usize,
    /// Processes. A reused id counts again.
    pub processes: usize,
    /// Threads. Each process has at least one.
    pub threads: usize,
    /// Records dropped for lack of 32-bit ids: 0 in any real recording.
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
        // The later of two equal times comes last.
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

    /// Resolves a process's user address.
    ///
    /// `None` without mapping, or before the process's start. An ended process resolves until its
    /// pid is reused.
    pub fn resolve(&self, pid: Pid, time: Time, address: u64) -> Option<Resolved> {
        self.resolve_in(self.space(pid, time)?, time, address)
    }

    /// Resolves a kernel address.
    pub fn resolve_kernel(&self, time: Time, address: u64) -> Option<Resolved> {
        self.resolve_in(SpaceId::KERNEL, time, address)
    }

    /// Resolves an address in a space.
    pub fn resolve_in(&self, space: SpaceId, time: Time, address: u64) -> Option<Resolved> {
        self.view(space, time).resolve(address)
    }

    /// Returns a space's mappings at a time, for listings or many addresses. Empty before its
    /// start.
    pub fn view(&self, space: SpaceId, time: Time) -> MapView<'_> {
        match self.spaces.get(space.0 as usize) {
            Some(space) => space.view(&self.arena, time),
            None => MapView::new(&self.arena, crate::tree::NIL, time),
        }
    }

    /// Returns a process's address space at a time; `None` before its start.
    pub fn space(&self, pid: Pid, time: Time) -> Option<SpaceId> {
        let n = self
            .spaces_by_pid
            .partition_point(|&(other, since, _)| (other, since) <= (pid, time));
        let &(found, _, space) = self.spaces_by_pid.get(n.checked_sub(1)?)?;
        (found == pid).then_some(space)
    }

    /// Returns the number of a space's changes by a time. Equal epochs resolve alike.
    pub fn epoch(&self, space: SpaceId, time: Time) -> u32 {
        self.spaces
            .get(space.0 as usize)
            .map_or(0, |space| space.epoch(time))
    }

    /// Returns a cache key for a space's mappings at a time, not before its start. Unlike (space,
    /// epoch), a forked process without own mappings shares it with its parent.
    pub fn state(&self, space: SpaceId, time: Time) -> MapState {
        match self.spaces.get(space.0 as usize) {
            Some(found) => found.state(space, time),
            None => MapState { space, epoch: 0 },
        }
    }

    /// Returns a thread's name at a time, or else its process's main thread's. `None` before the
    /// first name.
    pub fn comm(&self, pid: Pid, tid: Tid, time: Time) -> Option<&[u8]> {
        self.comm_name(self.comm_id(pid, tid, time)?)
    }

    /// Acts like [`comm`](Self::comm), with interned names: equal names have equal ids.
    pub fn comm_id(&self, pid: Pid, tid: Tid, time: Time) -> Option<CommId> {
        let process = self.process_index(pid, time)?;
        let name = |tid| self.thread_in(process, tid, time)?.comm(time);
        name(tid).or_else(|| name(pid.main_thread()))
    }

    /// Combines [`space`](Self::space), [`state`](Self::state) and [`comm_id`](Self::comm_id) with
    /// their period of validity, shared by most samples of a thread.
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

    /// Returns a name's bytes, without encoding.
    pub fn comm_name(&self, comm: CommId) -> Option<&[u8]> {
        self.names.get(comm.0 as usize).map(|name| &**name)
    }

    /// Returns a process at a time.
    pub fn process(&self, pid: Pid, time: Time) -> Option<&Process> {
        self.processes.get(self.process_index(pid, time)? as usize)
    }

    /// Returns a thread at a time, if recorded.
    pub fn thread(&self, pid: Pid, tid: Tid, time: Time) -> Option<&ThreadLife> {
        self.thread_in(self.process_index(pid, time)?, tid, time)
    }

    /// Returns all images, in order of appearance.
    pub fn images(&self) -> &[Image] {
        &self.images
    }

    /// Returns an image.
    pub fn image(&self, id: ImageId) -> Option<&Image> {
        self.images.get(id.0 as usize)
    }

    /// Returns all processes, in order of appearance.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// Returns all threads, in order of appearance.
    pub fn threads(&self) -> &[ThreadLife] {
        &self.threads
    }

    /// Returns the size.
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

    fn thread_in(&self, process: u32, tid: Tid, time: Time) -> Option<&ThreadLife> {
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

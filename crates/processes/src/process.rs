//! Lifetimes and names of processes and threads.

use std::collections::HashMap;

use crate::ids::{CommId, Pid, SpaceId, Tid, Time};
use crate::moment::Span;

/// A lifetime of a process id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process id. A reused id is another `Process`.
    pub pid: Pid,
    /// Parent process, if recorded.
    pub parent: Option<Pid>,
    /// Fork time; 0 if the process existed before the recording.
    pub start: Time,
    /// End time of the last known thread, if all have ended.
    pub exit: Option<Time>,
    /// First name of the main thread: the parent's after a fork.
    pub first_comm: Option<CommId>,
    /// Last name of the main thread: the program's after an exec.
    pub last_comm: Option<CommId>,
    /// Address spaces by ascending start times. Never empty.
    pub(crate) spaces: Vec<(Time, SpaceId)>,
    live_threads: u32,
}

impl Process {
    /// Returns the address spaces with start times, in order: one from the start, and one from each
    /// exec.
    pub fn spaces(&self) -> &[(Time, SpaceId)] {
        &self.spaces
    }

    pub(crate) fn latest_space(&self) -> SpaceId {
        self.spaces.last().map_or(SpaceId::KERNEL, |&(_, id)| id)
    }
}

/// A lifetime of a thread id in a [`Process`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadLife {
    /// Process of the thread.
    pub pid: Pid,
    /// Thread id.
    pub tid: Tid,
    /// Start time, or else the process's.
    pub start: Time,
    /// End time, if recorded.
    pub exit: Option<Time>,
    pub(crate) process: u32,
    /// Sorted by time once finished.
    names: Vec<(Time, CommId)>,
    /// Latest name; of equal times, the last one fed.
    latest_name: Option<(Time, CommId)>,
}

impl ThreadLife {
    /// Returns names with start times, in order.
    pub fn names(&self) -> &[(Time, CommId)] {
        &self.names
    }

    /// Returns the name at a time.
    pub fn comm(&self, time: Time) -> Option<CommId> {
        let n = self.names.partition_point(|&(since, _)| since <= time);
        Some(self.names.get(n.checked_sub(1)?)?.1)
    }
}

impl ThreadLife {
    /// Narrows `span` to the name's validity.
    pub(crate) fn steady_comm(&self, time: Time, span: &mut Span) -> Option<CommId> {
        let n = self.names.partition_point(|&(since, _)| since <= time);
        let found = n.checked_sub(1).map(|n| self.names[n]);
        let next = self.names.get(n).map(|(since, _)| *since);
        span.narrow(found.map(|(since, _)| since), next);
        found.map(|(_, comm)| comm)
    }
}

#[derive(Debug, Default)]
pub(crate) struct ProcessTable {
    pub(crate) processes: Vec<Process>,
    pub(crate) threads: Vec<ThreadLife>,
    latest: HashMap<Pid, u32>,
    latest_thread: HashMap<(u32, Tid), u32>,
}

impl ProcessTable {
    pub(crate) fn latest(&self, pid: Pid) -> Option<u32> {
        self.latest.get(&pid).copied()
    }

    /// Starts a process with its main thread, in place of an earlier one.
    pub(crate) fn start(
        &mut self,
        pid: Pid,
        parent: Option<Pid>,
        time: Time,
        space: SpaceId,
    ) -> u32 {
        let process = self.processes.len() as u32;
        self.processes.push(Process {
            pid,
            parent,
            start: time,
            exit: None,
            first_comm: None,
            last_comm: None,
            spaces: vec![(time, space)],
            live_threads: 0,
        });
        self.latest.insert(pid, process);
        self.start_thread(process, pid.main_thread(), time);
        process
    }

    pub(crate) fn start_thread(&mut self, process: u32, tid: Tid, time: Time) -> u32 {
        let owner = &mut self.processes[process as usize];
        let thread = self.threads.len() as u32;
        let mut start = time.max(owner.start);
        if let Some(old) = self.latest_thread.insert((process, tid), thread) {
            // The id is reused: the earlier thread has ended.
            let old = &mut self.threads[old as usize];
            start = start.max(old.start);
            match old.exit {
                Some(exit) => start = start.max(exit),
                None => {
                    old.exit = Some(start);
                    owner.live_threads = owner.live_threads.saturating_sub(1);
                }
            }
        }
        owner.live_threads += 1;
        owner.exit = None;
        self.threads.push(ThreadLife {
            pid: owner.pid,
            tid,
            start,
            exit: None,
            process,
            names: Vec::new(),
            latest_name: None,
        });
        thread
    }

    /// Creates the thread at its process's start if necessary.
    pub(crate) fn thread(&mut self, process: u32, tid: Tid) -> u32 {
        if let Some(&thread) = self.latest_thread.get(&(process, tid)) {
            return thread;
        }
        let start = self.processes[process as usize].start;
        self.start_thread(process, tid, start)
    }

    pub(crate) fn name(&mut self, thread: u32, time: Time, comm: CommId) {
        let thread = &mut self.threads[thread as usize];
        thread.names.push((time, comm));
        if thread.latest_name.is_none_or(|(latest, _)| latest <= time) {
            thread.latest_name = Some((time, comm));
        }
    }

    pub(crate) fn inherited_comm(&self, process: u32, tid: Tid) -> Option<CommId> {
        let main = self.processes[process as usize].pid.main_thread();
        [tid, main].iter().find_map(|&tid| {
            let thread = *self.latest_thread.get(&(process, tid))?;
            let (_, comm) = self.threads[thread as usize].latest_name?;
            Some(comm)
        })
    }

    pub(crate) fn exit(&mut self, process: u32, tid: Tid, time: Time) {
        let thread = self.thread(process, tid);
        let thread = &mut self.threads[thread as usize];
        if thread.exit.is_some() {
            return;
        }
        thread.exit = Some(time.max(thread.start));
        let owner = &mut self.processes[process as usize];
        owner.live_threads = owner.live_threads.saturating_sub(1);
        if owner.live_threads == 0 {
            owner.exit = Some(time.max(owner.start));
        }
    }

    pub(crate) fn finish(&mut self) {
        for thread in &mut self.threads {
            thread.names.sort_by_key(|&(since, _)| since);
            thread.names.shrink_to_fit();
            if thread.tid == thread.pid.main_thread() {
                let owner = &mut self.processes[thread.process as usize];
                let ends = (thread.names.first(), thread.names.last());
                if let (Some(first), Some(last)) = ends {
                    owner.first_comm.get_or_insert(first.1);
                    owner.last_comm = Some(last.1);
                }
            }
        }
    }
}

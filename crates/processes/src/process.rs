//! Processes and threads: when each lived and what it was called.

use std::collections::HashMap;

use crate::ids::{CommId, Pid, SpaceId, Tid, Time};
use crate::moment::Span;

/// One life of a process id, as far as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process id. The same id used again is another `Process`.
    pub pid: Pid,
    /// Parent process, if a record named it.
    pub parent: Option<Pid>,
    /// When it was forked; 0 if it was there before.
    pub start: Time,
    /// When the last of its known threads ended, if all did.
    pub exit: Option<Time>,
    /// The first name of its main thread: that of its parent, if it was forked.
    pub first_comm: Option<CommId>,
    /// The last name of its main thread: that of the program, after an exec.
    pub last_comm: Option<CommId>,
    /// Address spaces, each with the time from which it holds. Never empty, never falling.
    pub(crate) spaces: Vec<(Time, SpaceId)>,
    /// Threads that have not ended.
    live_threads: u32,
}

impl Process {
    /// Returns the address spaces in order, each with the time from which it holds.
    /// One from birth, and one from each exec on.
    pub fn spaces(&self) -> &[(Time, SpaceId)] {
        &self.spaces
    }

    pub(crate) fn latest_space(&self) -> SpaceId {
        self.spaces.last().map_or(SpaceId::KERNEL, |&(_, id)| id)
    }
}

/// One life of a thread id within a [`Process`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The process it belongs to.
    pub pid: Pid,
    /// Thread id.
    pub tid: Tid,
    /// When it began; if that was not recorded, when its process did.
    pub start: Time,
    /// When it ended, if that was recorded.
    pub exit: Option<Time>,
    /// Index of its process.
    pub(crate) process: u32,
    /// By time, once finished.
    names: Vec<(Time, CommId)>,
    /// The one with the latest time, of equals the last that was fed.
    latest_name: Option<(Time, CommId)>,
}

impl Thread {
    /// Returns the names in order, each with the time from which it holds.
    pub fn names(&self) -> &[(Time, CommId)] {
        &self.names
    }

    /// Returns the name at a time.
    pub fn comm(&self, time: Time) -> Option<CommId> {
        let n = self.names.partition_point(|&(since, _)| since <= time);
        Some(self.names.get(n.checked_sub(1)?)?.1)
    }
}

impl Thread {
    /// Returns the name at a time, and narrows `span` to the time for which it holds.
    pub(crate) fn steady_comm(&self, time: Time, span: &mut Span) -> Option<CommId> {
        let n = self.names.partition_point(|&(since, _)| since <= time);
        let found = n.checked_sub(1).map(|n| self.names[n]);
        let next = self.names.get(n).map(|(since, _)| *since);
        span.narrow(found.map(|(since, _)| since), next);
        found.map(|(_, comm)| comm)
    }
}

/// All processes and threads, while they are being built.
#[derive(Debug, Default)]
pub(crate) struct ProcessTable {
    pub(crate) processes: Vec<Process>,
    pub(crate) threads: Vec<Thread>,
    /// The process that an id stands for now.
    latest: HashMap<Pid, u32>,
    /// The thread that an id stands for now, in each process.
    latest_thread: HashMap<(u32, Tid), u32>,
}

impl ProcessTable {
    pub(crate) fn latest(&self, pid: Pid) -> Option<u32> {
        self.latest.get(&pid).copied()
    }

    /// Starts a process with its main thread, in place of any that had the id.
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
            // The id is used again, so the thread that had it is gone.
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
        self.threads.push(Thread {
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

    /// The thread with that id, which began with its process if it is new.
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

    /// The name that a child of that thread has at first.
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

    /// Sorts names, and tells each process how it was called.
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

//! Processes that a command started and that have not ended, and EXIT records of living threads.

use rprof_records::ProcessEvent;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::ids::Pid;

/// Living descendants with a recorded start. Includes the process itself if it started threads.
///
/// Excludes [existing](ProcessEvent::Found) processes, and children of other recorded processes.
#[derive(Debug)]
pub struct LiveProcesses {
    root: Pid,
    threads: FxHashMap<i32, u32>,
}

impl LiveProcesses {
    /// Starts without descendants of `root`.
    pub fn descendants_of(root: Pid) -> LiveProcesses {
        LiveProcesses {
            root,
            threads: FxHashMap::default(),
        }
    }

    /// Processes an event.
    pub fn handle(&mut self, event: &ProcessEvent<'_>) {
        match event {
            ProcessEvent::Forked {
                pid, parent_pid, ..
            } if *parent_pid == self.root.0 || self.threads.contains_key(parent_pid) => {
                *self.threads.entry(*pid).or_default() += 1;
            }
            ProcessEvent::Ended { pid, .. } => {
                if let Some(threads) = self.threads.get_mut(pid) {
                    *threads = threads.saturating_sub(1);
                    if *threads == 0 {
                        self.threads.remove(pid);
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the processes, unsorted.
    pub fn pids(&self) -> impl Iterator<Item = Pid> + '_ {
        self.threads.keys().copied().map(Pid)
    }
}

/// Recognizes EXIT records of threads that live on.
///
/// An exec that changes privileges (set-user-ID and the like) ends the events of its thread, with an
/// EXIT record before the new program maps anything (`begin_new_exec` in fs/exec.c). Events of whole
/// CPUs get this record too, and continue.
#[derive(Clone, Debug, Default)]
pub struct PrivilegedExecs {
    /// Processes since an exec that have no mapping yet.
    executed: FxHashSet<i32>,
}

impl PrivilegedExecs {
    /// Follows process events, which must be in the order of time. Returns true for an EXIT at an
    /// exec.
    pub fn handle(&mut self, event: &ProcessEvent<'_>) -> bool {
        match event {
            ProcessEvent::Executed { pid, .. } => {
                self.executed.insert(*pid);
            }
            ProcessEvent::Mapped(map) => {
                self.executed.remove(&map.pid);
            }
            ProcessEvent::Ended { pid, .. } => return self.executed.remove(pid),
            _ => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forked(pid: i32, tid: i32, parent_pid: i32) -> ProcessEvent<'static> {
        ProcessEvent::Forked {
            pid,
            tid,
            parent_pid,
            parent_tid: parent_pid,
        }
    }

    #[test]
    fn a_process_is_left_until_its_last_thread_ends() {
        let mut live = LiveProcesses::descendants_of(Pid(1));
        let found = ProcessEvent::Found {
            pid: 9,
            tid: 9,
            parent_pid: 1,
        };
        let (first, second) = (
            ProcessEvent::Ended { pid: 2, tid: 2 },
            ProcessEvent::Ended { pid: 2, tid: 3 },
        );
        let steps = [
            (found, 0),
            (forked(2, 2, 1), 1),
            (forked(2, 3, 2), 1),
            (first, 1),
            (second.clone(), 0),
            (second, 0),
        ];
        for (n, (event, left)) in steps.iter().enumerate() {
            live.handle(event);
            assert_eq!(live.pids().count(), *left, "after {n}");
        }
    }

    #[test]
    fn what_others_start_is_none_of_them() {
        let mut live = LiveProcesses::descendants_of(Pid(1));
        // A grandchild outlives its parent.
        for (pid, parent) in [(2, 1), (3, 2), (8, 7), (9, 8)] {
            live.handle(&forked(pid, pid, parent));
        }
        live.handle(&ProcessEvent::Ended { pid: 2, tid: 2 });
        live.handle(&forked(4, 4, 3));
        let mut left: Vec<i32> = live.pids().map(|pid| pid.0).collect();
        left.sort_unstable();
        assert_eq!(left, [3, 4]);
    }
}

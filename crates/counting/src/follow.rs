//! Separate counters for the threads of a command.
//!
//! An inherited counter sums up all threads and cannot be split. (`inherit_stat` should do
//! this, but exiting threads drop their context before their events, so the kernel never writes
//! these records.) Therefore the session polls /proc for new threads, and opens counters for each.
//! Earlier activity appears only in the rest.

use rprof_launch::TargetThread;
use rprof_launch::procfs::Procfs;
use std::collections::HashSet;
use std::time::Duration;

/// Polling interval.
pub(crate) const LOOK: Duration = Duration::from_millis(5);

/// Maximum number of threads with separate counters.
const MAX_THREADS: usize = 4096;

#[derive(Debug)]
pub(crate) struct Follower {
    command: u32,
    seen: HashSet<TargetThread>,
    proc: Procfs,
}

impl Follower {
    pub(crate) fn new(command: u32) -> Follower {
        let first = TargetThread {
            pid: command,
            tid: command,
        };
        Follower {
            command,
            seen: HashSet::from([first]),
            proc: Procfs::default(),
        }
    }

    /// Returns the new threads of the command and its descendants since the last call.
    pub(crate) fn look(&mut self) -> Vec<TargetThread> {
        let mut processes = vec![self.command];
        let mut new = Vec::new();
        let mut at = 0;
        while let Some(pid) = processes.get(at).copied() {
            at += 1;
            for tid in self.proc.thread_ids(pid) {
                processes.extend(self.proc.children(pid, tid));
                let thread = TargetThread { pid, tid };
                if self.seen.len() < MAX_THREADS && self.seen.insert(thread) {
                    new.push(thread);
                }
            }
            if processes.len() > MAX_THREADS {
                break;
            }
        }
        new
    }
}

//! Threads of a command, one by one.
//!
//! An inherited counter adds up all threads, and nothing tells which had how much of it (`inherit_stat` was to, and
//! the kernel has not written its records since threads drop their context before their events on exit). So threads
//! are looked for in /proc while the command runs, and each gets counters of its own when it is seen. What it did before
//! is in the whole and not in its part; it is shown as the rest.

use rprof_launch::TargetThread;
use rprof_launch::procfs::Procfs;
use std::collections::HashSet;
use std::time::Duration;

/// Time between two looks.
pub(crate) const LOOK: Duration = Duration::from_millis(5);

/// Largest number of threads that get counters of their own.
const MOST_THREADS: usize = 4096;

/// Threads of a command that were seen.
#[derive(Debug)]
pub(crate) struct Follower {
    command: u32,
    seen: HashSet<TargetThread>,
    proc: Procfs,
}

impl Follower {
    /// Begins with the first thread of a command.
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

    /// Returns the threads that are new since the last look: of the command, and of all processes below it.
    pub(crate) fn look(&mut self) -> Vec<TargetThread> {
        let mut processes = vec![self.command];
        let mut new = Vec::new();
        let mut at = 0;
        while let Some(pid) = processes.get(at).copied() {
            at += 1;
            for tid in self.proc.thread_ids(pid) {
                processes.extend(self.proc.children(pid, tid));
                let thread = TargetThread { pid, tid };
                if self.seen.len() < MOST_THREADS && self.seen.insert(thread) {
                    new.push(thread);
                }
            }
            if processes.len() > MOST_THREADS {
                break;
            }
        }
        new
    }
}

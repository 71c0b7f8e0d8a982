//! Processes that were born and have not ended.

use rprof_records::ProcessEvent;
use rustc_hash::FxHashMap;

use crate::ids::Pid;

/// The processes of which a birth was seen, and the end of the last thread was not.
///
/// Processes that were there before, [found](ProcessEvent::Found) rather than born, are none of them.
#[derive(Debug, Default)]
pub struct LiveProcesses {
    /// Number of threads that were born and have not ended.
    threads: FxHashMap<i32, u32>,
}

impl LiveProcesses {
    /// Takes in what a record says.
    pub fn handle(&mut self, event: &ProcessEvent<'_>) {
        match event {
            ProcessEvent::Forked { pid, .. } => *self.threads.entry(*pid).or_default() += 1,
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

    /// Returns them, in no order.
    pub fn pids(&self) -> impl Iterator<Item = Pid> + '_ {
        self.threads.keys().copied().map(Pid)
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
        let mut live = LiveProcesses::default();
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
}

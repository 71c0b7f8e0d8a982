//! [`ThreadTime`]: time of all recorded threads, by state.

use std::time::Duration;

use super::wait::{Cause, Wait};

/// Time of all recorded threads in nanoseconds: two threads that wait for a second wait for two.
///
/// Each nanosecond of a recorded thread is in one of [`on_cpu`](Self::on_cpu),
/// [`blocked`](Self::blocked), [`runnable`](Self::runnable), [`unknown`](Self::unknown) and
/// [`elsewhere`](Self::elsewhere).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadTime {
    /// Number of threads; if only some CPUs are recorded, of threads that ran on them.
    pub threads: u64,
    /// Time on a CPU.
    pub on_cpu: u64,
    /// Blocked time: until the wakeup if wakers are recorded, else until the next switch-in.
    pub blocked: u64,
    /// Runnable time without a CPU: preempted, just created or just woken.
    pub runnable: u64,
    /// Unknown time, because switches were lost.
    pub unknown: u64,
    /// Time on unrecorded CPUs and in waits that began there. Not part of [`total`](Self::total).
    pub elsewhere: u64,
    /// Number of waits, including the ones open at the end.
    pub waits: u64,
    /// Waiting time without a stack: new threads, waits from before the recording, or no access to
    /// kernel stacks. Part of `blocked` and `runnable`.
    pub without_stack: u64,
    /// Switches that must have happened but were lost.
    pub lost_switches: u64,
    /// Number of windows; 0 if all switches were recorded. Times in gaps are extrapolated.
    pub windows: u64,
    /// Wall time between windows.
    pub paused: u64,
    /// Record time of the end of waker recording, if there were too many wakeups.
    pub wakers_until: Option<u64>,
}

impl ThreadTime {
    pub(super) fn add(&mut self, wait: &Wait) {
        match wait.cause {
            Cause::Blocked => {
                let queued = wait.queued();
                self.blocked += wait.weight - queued;
                self.runnable += queued;
            }
            Cause::Runnable => self.runnable += wait.weight,
        }
        if wait.stack.is_none() {
            self.without_stack += wait.weight;
        }
    }

    /// Returns the total time of the threads.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.on_cpu + self.blocked + self.runnable + self.unknown)
    }

    pub(crate) fn notes(&self) -> Vec<(String, String)> {
        let notes = [
            ("threads", self.threads),
            ("on-cpu.ns", self.on_cpu),
            ("blocked.ns", self.blocked),
            ("runnable.ns", self.runnable),
            ("unknown.ns", self.unknown),
            ("elsewhere.ns", self.elsewhere),
            ("waits", self.waits),
            ("without-stack.ns", self.without_stack),
            ("lost-switches", self.lost_switches),
            ("windows", self.windows),
            ("paused.ns", self.paused),
        ];
        (notes.iter())
            .map(|(key, value)| (format!("thread-time.{key}"), value.to_string()))
            .collect()
    }
}

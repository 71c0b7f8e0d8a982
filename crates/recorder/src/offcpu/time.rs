//! [`ThreadTime`]: what the threads of a recording did with their time.

use std::time::Duration;

use super::wait::{Cause, Wait};

/// Time of all threads that were watched, added up: two that wait for a second have waited for two. In nanoseconds.
///
/// From the moment at which a thread is watched to its end, or that of the recording, each nanosecond is in one of
/// [`on_cpu`](Self::on_cpu), [`blocked`](Self::blocked), [`runnable`](Self::runnable), [`unknown`](Self::unknown) and
/// [`elsewhere`](Self::elsewhere).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadTime {
    /// Threads; where some CPUs are watched, those that were on one of them.
    pub threads: u64,
    /// Time on a CPU.
    pub on_cpu: u64,
    /// Time for which they were blocked: until they were woken where wakers were recorded, else until they ran again.
    pub blocked: u64,
    /// Time for which they could run and had no CPU, as another thread had it, or as they were just born
    /// or woken.
    pub runnable: u64,
    /// Time of which nothing is known, since switches were lost.
    pub unknown: u64,
    /// Time on CPUs that are not watched, and of waits that began there: 0 where all CPUs are. No part of
    /// [`total`](Self::total).
    pub elsewhere: u64,
    /// Waits: times at which a thread left its CPU and came back, or did not until the end.
    pub waits: u64,
    /// Waiting time without a stack: threads that are new, that waited from before the recording, and all where the kernel's
    /// side is not to be seen. Part of `blocked` and `runnable`.
    pub without_stack: u64,
    /// Switches that must have been, and were lost.
    pub lost_switches: u64,
    /// Windows in which switches were recorded, where there were too many to record all; 0 where all were. The times
    /// of the gaps between them are then as in the windows before them.
    pub windows: u64,
    /// Time by the clock between windows.
    pub paused: u64,
    /// Time of the records from which on it was not recorded who wakes threads, as others on the machine wake each other too often.
    pub wakers_until: Option<u64>,
}

impl ThreadTime {
    /// Adds a wait.
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

    /// Returns the sum of all that threads did.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.on_cpu + self.blocked + self.runnable + self.unknown)
    }

    /// Makes keys and values for the file's private section.
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

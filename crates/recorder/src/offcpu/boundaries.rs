//! [`Boundaries`]: moments at which the recording of switches stops and goes on, told by who stops it to who reads.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::carried::Reading;

/// Change at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A window begins; until now all switches were recorded.
    Begin,
    /// A window ends. Switches are not recorded from now on. With the switches of threads that sleep, as the kernel counts them.
    Pause(Vec<Reading>),
    /// A window begins, behind a gap.
    Resume,
    /// A window ends. All switches are recorded from now on.
    Settle(Vec<Reading>),
    /// Wakeups are not recorded any more.
    NoWakeups,
}

/// What two threads share: one stops and starts the recording of switches, one reads their records.
#[derive(Debug, Default)]
pub(crate) struct Boundaries {
    queue: Mutex<VecDeque<(u64, Change)>>,
    /// Threads whose switches are to be counted at the end of each window.
    sleepers: Mutex<Vec<i32>>,
    /// Switches that were read, by the number of the CPU.
    switches: Vec<AtomicU64>,
    /// Wakeups that were read, likewise, whoever was woken.
    wakeups: Vec<AtomicU64>,
}

impl Boundaries {
    /// Begins with no boundary, for these CPUs.
    pub(super) fn new(cpus: &[u32]) -> Boundaries {
        let most = cpus.iter().max().map_or(0, |most| *most as usize + 1);
        Boundaries {
            queue: Mutex::default(),
            sleepers: Mutex::default(),
            switches: (0..most).map(|_| AtomicU64::new(0)).collect(),
            wakeups: (0..most).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(u64, Change)>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of a change at the time that `now` returns. A record of a later time is written only after it
    /// returned, so whoever has such a record and then looks finds the change.
    pub(super) fn tell(&self, change: Change, now: impl FnOnce() -> u64) {
        let mut queue = self.lock();
        queue.push_back((now(), change));
    }

    /// Takes all changes that were told.
    pub(super) fn take(&self) -> VecDeque<(u64, Change)> {
        std::mem::take(&mut *self.lock())
    }

    /// Sets the threads whose switches are to be counted.
    pub(super) fn set_sleepers(&self, tids: Vec<i32>) {
        *self.sleepers.lock().unwrap_or_else(PoisonError::into_inner) = tids;
    }

    /// Returns the threads whose switches are to be counted.
    pub(super) fn sleepers(&self) -> Vec<i32> {
        (self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)).clone()
    }

    /// Counts a switch on a CPU.
    pub(super) fn count_switch(&self, cpu: u32) {
        if let Some(count) = self.switches.get(cpu as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a wakeup on a CPU.
    pub(super) fn count_wakeup(&self, cpu: u32) {
        if let Some(count) = self.wakeups.get(cpu as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the wakeups so far of the CPU that has most.
    pub(super) fn wakeups(&self) -> u64 {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        self.wakeups.iter().map(load).max().unwrap_or(0)
    }

    /// Returns the switches so far of each CPU.
    pub(super) fn switches(&self) -> Vec<u64> {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        self.switches.iter().map(load).collect()
    }
}

//! [`Boundaries`]: passes starts and ends of windows from the pacing thread to the writer thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::sleeping::Reading;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A window begins; all switches were recorded before.
    Begin,
    /// A window ends, and recording pauses. Contains the kernel's switch counts of sleeping
    /// threads.
    Pause(Vec<Reading>),
    Resume,
    /// A window ends, and all switches are recorded from now on.
    Settle(Vec<Reading>),
    NoWakeups,
}

/// State shared by the pacing thread and the writer thread.
#[derive(Debug, Default)]
pub(crate) struct Boundaries {
    queue: Mutex<VecDeque<(u64, Change)>>,
    /// Threads to count at the end of each window.
    sleepers: Mutex<Vec<i32>>,
    switches: Vec<AtomicU64>,
    wakeups: Vec<AtomicU64>,
}

impl Boundaries {
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

    /// Queues a change at the time from `now`. Records with later times are written after this, so
    /// their reader finds the change with [`take`](Self::take).
    pub(super) fn tell(&self, change: Change, now: impl FnOnce() -> u64) {
        let mut queue = self.lock();
        queue.push_back((now(), change));
    }

    pub(super) fn take(&self) -> VecDeque<(u64, Change)> {
        std::mem::take(&mut *self.lock())
    }

    pub(super) fn set_sleepers(&self, tids: Vec<i32>) {
        *self.sleepers.lock().unwrap_or_else(PoisonError::into_inner) = tids;
    }

    pub(super) fn sleepers(&self) -> Vec<i32> {
        (self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)).clone()
    }

    pub(super) fn count_switch(&self, cpu: u32) {
        if let Some(count) = self.switches.get(cpu as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn count_wakeup(&self, cpu: u32) {
        if let Some(count) = self.wakeups.get(cpu as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn wakeups(&self) -> u64 {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        self.wakeups.iter().map(load).max().unwrap_or(0)
    }

    pub(super) fn switches(&self) -> Vec<u64> {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        self.switches.iter().map(load).collect()
    }
}

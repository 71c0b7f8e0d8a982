//! [`Thread`]: what is known of a thread between two records of it.

use super::wait::Cause;
use super::wakeups::Wakeup;

/// Nanoseconds by which a wakeup may come before the sample of the switch whose wait it ends: the thread has left its run queue by then.
const JUST_LEAVING: u64 = 1_000;

/// State of a thread.
#[derive(Debug)]
pub(super) enum State {
    /// It was there when the recording began, and no record of it has come since.
    Unseen,
    /// A loss hides what it does.
    Unknown,
    /// It runs; `by_sample` if a sample said so and no switch.
    On { by_sample: bool },
    /// It waits.
    Off {
        cause: Cause,
        stack: Option<Vec<u8>>,
        /// Nanoseconds in gaps, when it began to wait.
        gaps: u64,
        /// Time at which the stack was looked at, if the thread was found waiting; 0 if it came with the switch.
        looked_at: u64,
        /// True if a switch said so: then its wakeup is recorded, unless records are lost.
        by_switch: bool,
    },
    /// It has ended, and its last switch is still to come.
    Ended,
}

/// A thread that is watched.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) pid: i32,
    pub(super) cpu: u32,
    /// Time at which its state began.
    pub(super) since: u64,
    pub(super) state: State,
    /// True if there ever was a record of it.
    pub(super) was_seen: bool,
    /// The wakeup of the wait that it is in; while it runs, the last that there was.
    pub(super) wake: Option<Wakeup>,
}

impl Thread {
    /// Returns the wakeup that ends the wait that it is in, if that was recorded.
    pub(super) fn ended_by(&self) -> Option<Wakeup> {
        let since = self.since.saturating_sub(JUST_LEAVING);
        self.wake.filter(|wake| wake.at >= since)
    }
}

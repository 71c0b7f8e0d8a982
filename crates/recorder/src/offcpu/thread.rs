//! [`Thread`]: state of a thread between two of its records.

use super::wait::Cause;
use super::wakeups::Wakeup;

/// Maximum nanoseconds by which a wakeup may precede the switch sample of the wait that it ends.
/// The thread has already left its run queue.
const JUST_LEAVING: u64 = 1_000;

#[derive(Debug)]
pub(super) enum State {
    /// It existed at the start of the recording, and has no record since.
    Unseen,
    /// Unknown since a loss of records.
    Unknown,
    /// It runs; `by_sample` if a sample showed this instead of a switch.
    On { by_sample: bool },
    /// It waits.
    Off {
        cause: Cause,
        stack: Option<Vec<u8>>,
        /// Lost nanoseconds in total when the wait began.
        gaps: u64,
        /// Time of the inspection of the sleeping thread; 0 if the stack came with the switch.
        looked_at: u64,
        /// True after a switch-out: then its wakeup has a record, except for losses.
        by_switch: bool,
    },
    /// It exited, and its last switch-out is pending.
    Ended,
}

#[derive(Debug)]
pub(super) struct Thread {
    pub(super) pid: i32,
    pub(super) cpu: u32,
    pub(super) since: u64,
    pub(super) state: State,
    pub(super) was_seen: bool,
    /// The wakeup of the current wait; while it runs, the last wakeup.
    pub(super) wake: Option<Wakeup>,
}

impl Thread {
    /// Returns the wakeup that ends the current wait, if it was recorded.
    pub(super) fn ended_by(&self) -> Option<Wakeup> {
        let since = self.since.saturating_sub(JUST_LEAVING);
        self.wake.filter(|wake| wake.at >= since)
    }
}

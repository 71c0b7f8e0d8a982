//! [`Run`] and [`Interval`]: what was counted in one run, and in a part of it.

use std::process::ExitStatus;
use std::time::Duration;

use rprof_counting::Snapshot;
use rprof_counting::session::CountedEvent;
use rprof_launch::ResourceUsage;

use crate::messages::Failure;

/// One run of a command, or the time over which something else was counted.
pub(super) struct Run {
    pub(super) status: Option<ExitStatus>,
    pub(super) wall: Duration,
    pub(super) usage: Option<ResourceUsage>,
    pub(super) counts: Snapshot,
}

/// Counts of an interval.
pub(super) struct Interval<'a> {
    /// Time from the start to its end.
    pub(super) end: Duration,
    pub(super) length: Duration,
    pub(super) events: &'a [CountedEvent],
    pub(super) counts: Snapshot,
}

/// Receiver of intervals.
pub(super) type OnInterval<'a> = &'a mut dyn FnMut(&Interval<'_>) -> Result<(), Failure>;

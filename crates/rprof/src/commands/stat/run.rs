//! [`Run`] and [`Interval`]: counts of a run, and of a part of it.

use std::process::ExitStatus;
use std::time::Duration;

use rprof_counting::Snapshot;
use rprof_counting::session::CountedEvent;
use rprof_launch::ResourceUsage;

use crate::wording::messages::Failure;

/// One run of a command, or the counting time of another target.
pub(super) struct Run {
    pub(super) status: Option<ExitStatus>,
    pub(super) wall: Duration,
    pub(super) usage: Option<ResourceUsage>,
    pub(super) counts: Snapshot,
}

pub(super) struct Interval<'a> {
    /// Time from the start to the interval's end.
    pub(super) end: Duration,
    pub(super) length: Duration,
    pub(super) events: &'a [CountedEvent],
    pub(super) counts: Snapshot,
}

pub(super) type OnInterval<'a> = &'a mut dyn FnMut(&Interval<'_>) -> Result<(), Failure>;

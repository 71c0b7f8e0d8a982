//! [`Run`] and [`Interval`]: counts of a run, and of a part of it. Reasons for uncounted events.

use std::process::ExitStatus;
use std::time::Duration;

use rprof_counting::session::CountedEvent;
use rprof_counting::{EventState, Snapshot};
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

/// Returns why an event has no count.
pub(super) fn reason(event: &CountedEvent) -> String {
    match &event.state {
        EventState::Counted => "counted".to_owned(),
        EventState::NoPlace => match event.event.cpus() {
            Some(_) => "it belongs to CPUs that are not counted".to_owned(),
            None => "all targets had exited".to_owned(),
        },
        // Package events cannot be counted for threads.
        EventState::Refused(_) if event.event.cpus().is_some() => {
            "it counts whole sockets or kinds of cores, not threads; use -a".to_owned()
        }
        EventState::Refused(error) => error.to_string(),
        EventState::KernelOnly { .. } => {
            "it happens in the kernel, and this user may not profile the kernel".to_owned()
        }
    }
}

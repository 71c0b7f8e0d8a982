//! State of a thread at a moment, and its period of validity.

use crate::ids::{CommId, MapState, SpaceId, Time};

/// Mappings and name of a thread, with their period of validity: see
/// [`Timeline::moment`](crate::Timeline::moment).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Address space of the process; `None` before its start.
    pub space: Option<SpaceId>,
    /// State of its mappings.
    pub user: Option<MapState>,
    /// State of the kernel's mappings.
    pub kernel: MapState,
    /// Name of the thread.
    pub comm: Option<CommId>,
    /// First time of validity.
    pub since: Time,
    /// Last time of validity.
    pub last: Time,
}

/// Period without a change in the results of searches in sorted times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) since: Time,
    pub(crate) last: Time,
}

impl Span {
    pub(crate) const ALWAYS: Span = Span {
        since: 0,
        last: Time::MAX,
    };

    /// Narrows the period to a result from `since` until before `next`.
    pub(crate) fn narrow(&mut self, since: Option<Time>, next: Option<Time>) {
        self.since = self.since.max(since.unwrap_or(0));
        // The search would have found a `next` of 0.
        self.last = self
            .last
            .min(next.map_or(Time::MAX, |t| t.saturating_sub(1)));
    }
}

//! State of a thread at a moment, with the time for which it holds.

use crate::ids::{CommId, MapState, SpaceId, Time};

/// State of a sample's thread: mappings and name, with the time for which they hold. See
/// [`Timeline::moment`](crate::Timeline::moment).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The address space of the process; `None` before it was born.
    pub space: Option<SpaceId>,
    /// The mappings in force there.
    pub user: Option<MapState>,
    /// The kernel's mappings in force.
    pub kernel: MapState,
    /// The thread's name.
    pub comm: Option<CommId>,
    /// Time from which all of it holds.
    pub since: Time,
    /// The last time at which it holds.
    pub last: Time,
}

/// The times between which a search of sorted times finds the same.
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

    /// Notes that what was found began at `since`, and that another follows at `next`.
    pub(crate) fn narrow(&mut self, since: Option<Time>, next: Option<Time>) {
        self.since = self.since.max(since.unwrap_or(0));
        // Nothing that follows can be at 0: it would have been found itself.
        self.last = self
            .last
            .min(next.map_or(Time::MAX, |t| t.saturating_sub(1)));
    }
}

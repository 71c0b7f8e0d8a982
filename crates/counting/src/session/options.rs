//! [`SessionOptions`]: events and target.

use crate::places::Per;
use rprof_events::Event;
use rprof_launch::Target;

/// Events and target of a session.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Events. Event numbers are indexes in this list.
    pub events: Vec<Event>,
    /// True if the user named the events: refusals are errors. Otherwise such events are skipped.
    pub explicit: bool,
    /// Target. Default: [`Target::Command`].
    pub target: Target,
    /// CPUs to count on; empty for all.
    pub cpus: Vec<u32>,
    /// Finest granularity of the counts. It determines the number of counters.
    pub per: Per,
    /// Count children of the targets, too.
    pub inherit: bool,
    /// Enable counting with the command or at
    /// [`CountingSession::start`](crate::CountingSession::start), instead of
    /// [`CountingSession::enable`](crate::CountingSession::enable).
    pub enabled_from_start: bool,
    /// Count only user mode.
    pub exclude_kernel: bool,
    /// Count only kernel mode.
    pub exclude_user: bool,
}

impl SessionOptions {
    /// Creates options for user-selected events, in a command and its children.
    pub fn new(events: Vec<Event>) -> SessionOptions {
        SessionOptions {
            events,
            explicit: true,
            target: Target::Command,
            cpus: Vec::new(),
            per: Per::All,
            inherit: true,
            enabled_from_start: true,
            exclude_kernel: false,
            exclude_user: false,
        }
    }
}

//! [`SessionOptions`]: events to count, and where.

use crate::per::Per;
use rprof_events::Event;
use rprof_launch::Target;

/// Events to count, and where.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Events, in order; their numbers are their places in this list.
    pub events: Vec<Event>,
    /// The user named the events, so that one which may not be counted is an error. Otherwise it is left out.
    pub explicit: bool,
    /// Target; [`Target::Command`] by default.
    pub target: Target,
    /// CPUs to count on; empty for all.
    pub cpus: Vec<u32>,
    /// Way in which counts are to be kept apart, which decides how many counters there are.
    pub per: Per,
    /// Threads and processes that watched ones start are counted as well.
    pub inherit: bool,
    /// Counting begins with the command, or at [`CountingSession::start`](crate::CountingSession::start); otherwise at
    /// [`CountingSession::enable`](crate::CountingSession::enable).
    pub enabled_from_start: bool,
    /// Only user mode is counted.
    pub exclude_kernel: bool,
    /// Only the kernel is counted.
    pub exclude_user: bool,
}

impl SessionOptions {
    /// Counts these events, named by the user, in a command and in all that it starts.
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

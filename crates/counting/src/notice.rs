//! [`Notice`] and [`EventState`]: limitations of a session and their reasons.

use rprof_perf_event::OpenEventError;
use std::fmt;
use std::sync::Arc;

/// State of an event in a session.
#[derive(Clone, Debug, Default)]
pub enum EventState {
    /// Counted in at least one place.
    Counted,
    /// No opened place can count it, for example because its PMU belongs to other CPUs.
    #[default]
    NoPlace,
    /// The kernel refused it.
    Refused(Arc<OpenEventError>),
    /// Happens only in the kernel, which this user may not monitor.
    KernelOnly {
        /// `perf_event_paranoid`, if known.
        paranoid: Option<i32>,
    },
}

impl EventState {
    /// Returns true if it is counted.
    pub fn is_counted(&self) -> bool {
        matches!(self, EventState::Counted)
    }
}

/// Difference between the request and the actual counting.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Counts exclude the kernel, because this user may not monitor it.
    UserModeOnly {
        /// `perf_event_paranoid`, if known.
        paranoid: Option<i32>,
    },
    /// A weak group did not fit and was split.
    GroupSplit {
        /// First event of the new part.
        event: String,
    },
    /// The event does not count later threads and processes.
    NotInherited {
        /// Name of the event.
        event: String,
    },
    /// The command ran several times per result, so that all counts are exact.
    RunInPasses {
        /// Number of runs.
        passes: usize,
    },
    /// Threads started too fast to attach. Some may be counted twice or not at all.
    ThreadsKeptComing,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::UserModeOnly { paranoid } => {
                f.write_str("events are counted in user mode only (`:u`): ")?;
                match paranoid {
                    Some(level) => write!(f, "kernel.perf_event_paranoid is {level}"),
                    None => f.write_str("this user may not watch the kernel"),
                }
            }
            Notice::GroupSplit { event } => write!(
                f,
                "the group does not fit on the counters of this processor; `{event}` and what follows are counted \
                 apart from it"
            ),
            Notice::NotInherited { event } => write!(
                f,
                "event `{event}`: threads and processes that are started later are left out, as the kernel hands down no \
                 probe that is named by its file; -a has all"
            ),
            Notice::RunInPasses { passes } => write!(
                f,
                "the command is run {passes} times for each result, as the processor counts so few of these events at once"
            ),
            Notice::ThreadsKeptComing => f.write_str(
                "threads were started faster than they could be attached to; some may be counted twice, or not at all",
            ),
        }
    }
}

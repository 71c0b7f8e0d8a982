//! [`Notice`] and [`EventState`]: what could not be had, and why.

use rprof_perf_event::OpenEventError;
use std::fmt;
use std::sync::Arc;

/// State of an event in a session.
#[derive(Clone, Debug, Default)]
pub enum EventState {
    /// It is counted in some place at least.
    Counted,
    /// No place has been opened where it can be counted, such as the CPUs of its PMU.
    #[default]
    NoPlace,
    /// The kernel refused it.
    Refused(Arc<OpenEventError>),
    /// It happens in the kernel only, which this user may not watch.
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

/// Difference between what was asked for and what is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Events are counted in user mode only, as this user may not watch the kernel.
    UserModeOnly {
        /// `perf_event_paranoid`, if known.
        paranoid: Option<i32>,
    },
    /// A group that may be split did not fit as one.
    GroupSplit {
        /// First event that is counted apart from those before it.
        event: String,
    },
    /// Threads and processes that are started later are not counted for this event.
    NotInherited {
        /// The event.
        event: String,
    },
    /// The command was run several times for each result, so that no count had to be extrapolated.
    RunInPasses {
        /// Number of runs.
        passes: usize,
    },
    /// Threads were born faster than they could be attached to: some may be counted twice, or not.
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

//! [`SessionNotice`] and [`EventState`]: limitations of a session and their reasons.

use rprof_events::cpu_watch::Absence;
use rprof_perf_event::OpenEventError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

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
pub enum SessionNotice {
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
    /// A CPU went offline while it was counted.
    CpuLost {
        /// Number of the CPU.
        cpu: u32,
        /// Times when it was offline.
        absences: Vec<Absence>,
        /// True if its counters could not be opened again.
        is_missing: bool,
    },
    /// A CPU came online while all CPUs were counted. It is not counted.
    CpuCame {
        /// Number of the CPU.
        cpu: u32,
        /// Time when it was first seen, since the start.
        after: Duration,
    },
}

impl fmt::Display for SessionNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionNotice::UserModeOnly { paranoid } => {
                f.write_str("events are counted in user mode only (`:u`): ")?;
                match paranoid {
                    Some(level) => write!(f, "kernel.perf_event_paranoid is {level}"),
                    None => f.write_str("this user may not watch the kernel"),
                }
            }
            SessionNotice::GroupSplit { event } => write!(
                f,
                "the group does not fit on this processor's counters; `{event}` and later events \
                 are counted separately"
            ),
            SessionNotice::NotInherited { event } => write!(
                f,
                "event `{event}`: threads and processes that start later are not counted, as they \
                 do not inherit probes named by file; use -a to count all"
            ),
            SessionNotice::RunInPasses { passes } => write!(
                f,
                "the command runs {passes} times for each result, as the processor cannot count \
                 all these events at once"
            ),
            SessionNotice::ThreadsKeptComing => f.write_str(
                "threads started faster than they could be attached; some may be counted twice, or \
                 not at all",
            ),
            SessionNotice::CpuLost {
                cpu,
                absences,
                is_missing,
            } => {
                let absences: Vec<String> = absences.iter().map(Absence::to_string).collect();
                write!(f, "CPU {cpu} was offline {}", absences.join(", and "))?;
                match is_missing {
                    true => f.write_str(
                        ", and is not counted afterwards: its counters could not be opened again",
                    ),
                    false => Ok(()),
                }
            }
            SessionNotice::CpuCame { cpu, after } => write!(
                f,
                "CPU {cpu} came online after {:.1} s, and is not counted; count again to include it",
                after.as_secs_f64()
            ),
        }
    }
}

//! Errors of opening a session's events.

use rprof_perf_event::{Errno, ErrnoText, MapRingError, OpenEventError, Remedy};

/// Failure to open the events of a session: no step down is left.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The kernel refused an event.
    #[error(transparent)]
    Event(#[from] OpenEventError),
    /// The ring of an event could not be mapped.
    #[error(transparent)]
    Ring(#[from] MapRingError),
    /// A process or thread may not be watched.
    #[error("cannot watch process {pid}: {}. {remedy}", ErrnoText(*errno))]
    Process {
        /// The process.
        pid: u32,
        /// The kernel's answer.
        errno: Errno,
        /// Remedy, as a value.
        remedy: Remedy,
    },
    /// Nothing that was to be watched exists.
    #[error("{what} cannot be watched: {}", gone(*had))]
    TargetsGone {
        /// Description of the target, as `process 123`.
        what: String,
        /// Number of threads that there had been.
        had: usize,
    },
    /// More descriptors are needed than may be open.
    #[error(
        "{threads} threads on {cpus} CPUs need {needed} file descriptors, but the limit is \
         {limit}: raise it (`ulimit -Hn`, or LimitNOFILE= of the service), record fewer CPUs or \
         threads, or the whole system, which needs few per CPU"
    )]
    TooManyFiles {
        /// Threads to watch.
        threads: usize,
        /// CPUs to watch them on.
        cpus: usize,
        /// Descriptors that takes.
        needed: usize,
        /// Most descriptors that may be open.
        limit: u64,
    },
    /// The frequency is above the kernel's limit, and was asked for strictly.
    #[error(
        "{wanted} samples a second are more than the kernel allows ({limit}). \
         Raise the limit with `sysctl kernel.perf_event_max_sample_rate={wanted}`, or ask for less"
    )]
    Frequency {
        /// Samples a second asked for.
        wanted: u64,
        /// Samples a second allowed.
        limit: u64,
    },
    /// The kernel does not take the filter of a tracepoint.
    #[error(
        "the kernel refused the filter `{filter}` for `{event}`: {}. Filters compare fields \
         (listed in the tracepoint's `format` file in tracefs) with numbers or text: `prev_pid == \
         0 && prev_comm != \"make\"`",
        ErrnoText(*errno)
    )]
    Filter {
        /// The event.
        event: String,
        /// The expression.
        filter: String,
        /// The kernel's answer.
        errno: Errno,
    },
    /// An event that writes a trace, in a way that is not recorded.
    #[error("cannot record the trace of `{event}`: {why}")]
    Trace {
        /// The event.
        event: String,
        /// Cause, and what is recorded.
        why: &'static str,
    },
    /// The rate is zero.
    #[error("a sampling frequency or period of 0 means no samples; give a number above it")]
    ZeroRate,
}

fn gone(had: usize) -> &'static str {
    match had {
        0 => "it is not running. `ps -eLf` lists running threads",
        _ => "it exited first",
    }
}

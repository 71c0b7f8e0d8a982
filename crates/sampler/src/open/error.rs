//! Errors when opening events.

use rprof_launch::procfs::Procfs;
use rprof_perf_event::{Errno, ErrnoText, MapRingError, OpenEventError, Remedy};

/// Failure to open events, with no step down left.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenEventsError {
    /// The kernel refused an event.
    #[error(transparent)]
    Event(#[from] OpenEventError),
    /// The ring of an event could not be mapped.
    #[error(transparent)]
    Ring(#[from] MapRingError),
    /// A process or thread is not permitted.
    #[error("cannot open events for process {pid}: {}. {remedy}", ErrnoText(*errno))]
    Process {
        /// Process id.
        pid: u32,
        /// Error of the system call.
        errno: Errno,
        /// Suggested remedy.
        remedy: Remedy,
    },
    /// No target exists.
    #[error("cannot open events for {what}: {}", gone(*had))]
    TargetsGone {
        /// Description of the target, such as `process 123`.
        what: String,
        /// Number of threads that existed before.
        had: usize,
    },
    /// The descriptor limit is too low.
    #[error(
        "{threads} threads on {cpus} CPUs need {needed} file descriptors, but the limit is \
         {limit}: raise it (`ulimit -Hn`, or LimitNOFILE= of the service), record fewer CPUs or \
         threads, or the whole system, which needs few per CPU"
    )]
    TooManyFiles {
        /// Number of threads.
        threads: usize,
        /// Number of CPUs.
        cpus: usize,
        /// Required descriptors.
        needed: usize,
        /// Maximum number of open descriptors.
        limit: u64,
    },
    /// The frequency exceeds the kernel's limit, in strict mode.
    #[error(
        "{wanted} samples a second are more than the kernel allows ({limit}). \
         Raise the limit with `sysctl kernel.perf_event_max_sample_rate={wanted}`, or ask for less"
    )]
    Frequency {
        /// Requested frequency in Hz.
        wanted: u64,
        /// Maximum frequency in Hz.
        limit: u64,
    },
    /// The kernel rejected a tracepoint filter.
    #[error(
        "the kernel refused the filter `{filter}` for `{event}`: {}. Filters compare fields \
         (listed in the tracepoint's `format` file in tracefs) with numbers or text: `prev_pid == \
         0 && prev_comm != \"make\"`",
        ErrnoText(*errno)
    )]
    Filter {
        /// Name of the event.
        event: String,
        /// Filter expression.
        filter: String,
        /// Error of the system call.
        errno: Errno,
    },
    /// An unsupported trace event.
    #[error("cannot record the trace of `{event}`: {why}")]
    Trace {
        /// Name of the event.
        event: String,
        /// Reason, and the supported alternative.
        why: &'static str,
    },
    /// The sampling frequency or period is zero.
    #[error("a sampling frequency or period of 0 means no samples; give a number above it")]
    ZeroRate,
}

fn gone(had: usize) -> &'static str {
    let proc = Procfs::default();
    match had {
        0 if proc.is_missing() => "/proc is not mounted; `mount -t proc proc /proc`",
        0 if proc.is_of_other_pid_namespace() => {
            "/proc belongs to another PID namespace and does not show it; `mount -t proc proc /proc`"
        }
        0 => "it is not running; `ps -eLf` lists processes and threads",
        _ => "it exited first",
    }
}

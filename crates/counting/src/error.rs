//! [`CountError`].

use rprof_events::cpus::CpuListError;
use rprof_launch::{CgroupError, ExecError, LaunchError};
use rprof_perf_event::{Errno, ErrnoText, OpenEventError};
use std::sync::Arc;

/// Failure to start, read or stop the counters of a target.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CountError {
    /// The kernel refused an event, for a reason that applies to all events.
    #[error("{0}")]
    Open(Arc<OpenEventError>),
    /// A requested group does not fit the counters.
    #[error(
        "the group with `{event}` cannot be counted together: {}. Use fewer events in the group, \
         or allow splitting it (`{{…}}:W`)", ErrnoText(*errno)
    )]
    GroupTooLarge {
        /// First event that did not fit.
        event: String,
        /// errno of the kernel.
        errno: Errno,
    },
    /// The target has ended, or never existed.
    #[error("there is no {what} to count")]
    NoTarget {
        /// Description of the target, such as `process 7`.
        what: String,
    },
    /// Preparing the command failed.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// Executing the command failed.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// A requested CPU does not exist.
    #[error(transparent)]
    Cpus(#[from] CpuListError),
    /// A control group cannot be monitored.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// Starting or stopping an event failed.
    #[error("cannot start or stop counting `{event}`: {}", ErrnoText(*errno))]
    Control {
        /// Name of the event.
        event: String,
        /// errno of the kernel.
        errno: Errno,
    },
}

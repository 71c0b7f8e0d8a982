//! [`CountError`].

use rprof_events::cpus::CpuListError;
use rprof_launch::{CgroupError, ExecError, LaunchError};
use rprof_perf_event::{Errno, ErrnoText, OpenEventError};
use std::sync::Arc;

/// Failure to count.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CountError {
    /// The kernel refused an event, for a cause that all others share.
    #[error("{0}")]
    Open(Arc<OpenEventError>),
    /// A group that was asked for does not fit.
    #[error(
        "the group with `{event}` cannot be counted together: {}. Ask for fewer events in it, or let it be split \
         (`{{…}}:W`)", ErrnoText(*errno)
    )]
    GroupTooLarge {
        /// First event that did not fit.
        event: String,
        /// The kernel's error number.
        errno: Errno,
    },
    /// The target has ended, or was never there.
    #[error("there is no {what} to count")]
    NoTarget {
        /// Target, as `process 7`.
        what: String,
    },
    /// The command could not be prepared.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The command could not be executed.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// CPUs that were asked for are not there.
    #[error(transparent)]
    Cpus(#[from] CpuListError),
    /// A control group cannot be watched.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// An event could not be started or stopped.
    #[error("cannot start or stop counting `{event}`: {}", ErrnoText(*errno))]
    Control {
        /// The event.
        event: String,
        /// The kernel's error number.
        errno: Errno,
    },
}

//! Errors of sessions.

use crate::open::OpenEventsError;
use rprof_events::cpus::CpuListError;
use rprof_launch::{CgroupError, ExecError, LaunchError};
use rprof_perf_event::{Errno, ErrnoText};
use rustix::process::{Resource, getrlimit};
use std::fmt;
use std::io;

/// Failure to create or start a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The list of CPUs is invalid.
    #[error(transparent)]
    Cpus(#[from] CpuListError),
    /// The child could not be prepared.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// Events could not be opened.
    #[error(transparent)]
    Open(#[from] OpenEventsError),
    /// An event could not be started.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The program could not be executed.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// The builder has neither a command nor a target.
    #[error("nothing to record: name a command, processes, threads, a user, or the whole system")]
    NoTarget,
    /// A control group cannot be watched.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The drain threads could not be started.
    #[error(
        "cannot start the threads that read the ring buffers: {error}{limit}",
        error = .0,
        limit = thread_limit(.0)
    )]
    Threads(#[source] io::Error),
}

/// Returns the limit that may prevent a thread's start (pthread_create(3), eventfd(2)).
fn thread_limit(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE) => "; `ulimit -n` is reached",
        Some(Errno::NFILE) => "; the limit of the whole system, fs.file-max, is reached",
        // pthread_create(3) has this error also if there is no address space for the stack.
        Some(Errno::AGAIN) if getrlimit(Resource::As).current.is_some() => {
            "; `ulimit -v`, `ulimit -u`, or the limit of a control group (pids.max), is reached"
        }
        Some(Errno::AGAIN) => {
            "; `ulimit -u`, or the limit of a control group (pids.max), is reached"
        }
        Some(Errno::NOMEM) => "; out of memory (`ulimit -v`?)",
        _ => "",
    }
}

/// Failure to start or stop an open event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("cannot {action} event `{event}` on CPU {cpu}: {}", ErrnoText(*errno))]
pub struct ControlError {
    /// Change that failed.
    pub action: ControlAction,
    /// Name of the event as opened.
    pub event: String,
    /// Number of the event's CPU.
    pub cpu: u32,
    /// Error of the system call.
    pub errno: Errno,
}

/// Control operation on an open event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlAction {
    /// Start counting.
    Start,
    /// Stop counting.
    Stop,
}

impl fmt::Display for ControlAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ControlAction::Start => "start",
            ControlAction::Stop => "stop",
        })
    }
}

//! What is watched.
//!
//! | module | holds |
//! |---|---|
//! | `selection` | the threads that a target means, from /proc |
//! | `cgroup` | the directories that names of control groups mean |
//! | `exited` | waiting until all that was attached to has ended |

mod cgroup;
mod exited;
mod selection;

pub use cgroup::{Cgroup, CgroupError};
pub use exited::TargetExitWatcher;
pub use selection::Selection;

/// What a recording watches.
///
/// Processes and threads are named by the ids under which this process sees them (those of its own
/// PID namespace).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// The command that is launched and, where events are inherited, what it
    /// starts.
    #[default]
    Command,
    /// All threads of these processes and, with inherit, what they start from then on.
    Processes(Vec<u32>),
    /// These threads, and nothing that they start.
    Threads(Vec<u32>),
    /// Everything that runs, on the CPUs that are watched.
    System,
    /// Everything that runs in these control groups and in those below them. Names are
    /// relative to where the hierarchy is mounted; `/` is all of it.
    Cgroups(Vec<String>),
    /// All processes whose effective user is this one, save the recorder itself, and, with
    /// inherit, what they start.
    User(u32),
}

impl Target {
    /// Whether whole CPUs are watched, in place of single threads.
    pub fn is_by_cpu(&self) -> bool {
        matches!(self, Target::System | Target::Cgroups(_))
    }
}

/// A thread that was there before the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attached {
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
}

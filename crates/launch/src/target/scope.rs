//! [`Target`] and [`TargetThread`].

/// Set of processes or CPUs that a session watches.
///
/// Processes and threads are named by the ids under which this process sees them (those of its own
/// PID namespace).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// The command that is launched and, where events are inherited, the processes that it
    /// starts.
    #[default]
    Command,
    /// All threads of these processes and, where events are inherited, those that they start from
    /// then on.
    Processes(Vec<u32>),
    /// Single threads, without those that they start.
    Threads(Vec<u32>),
    /// All processes, on the CPUs that are watched.
    System,
    /// All processes in these control groups and in those below them. Names are
    /// relative to the mount point of the hierarchy; `/` is all of it.
    Cgroups(Vec<String>),
    /// All processes of this effective user but the calling one and, where events are inherited, those
    /// that they start.
    User(u32),
}

impl Target {
    /// Returns true if whole CPUs are watched, in place of single threads.
    pub fn is_by_cpu(&self) -> bool {
        matches!(self, Target::System | Target::Cgroups(_))
    }
}

/// Thread of a target that ran already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetThread {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
}

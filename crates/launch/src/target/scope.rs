//! [`Target`] and [`TargetThread`].

/// Set of processes or CPUs to profile.
///
/// Process and thread ids belong to this process's own PID namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// Launched command and, with inherited events, its descendants.
    #[default]
    Command,
    /// Threads of these processes and, with inherited events, threads that they start later.
    Processes(Vec<u32>),
    /// Single threads, without children.
    Threads(Vec<u32>),
    /// Every process, on the selected CPUs.
    System,
    /// Processes in these control groups and their descendants. Names are relative to the mount
    /// point of the hierarchy; `/` is the whole hierarchy.
    Cgroups(Vec<String>),
    /// Processes of this effective user except the caller. With inherited events, also the children
    /// that they start.
    User(u32),
}

impl Target {
    /// Returns true if the target consists of whole CPUs instead of threads.
    pub fn is_by_cpu(&self) -> bool {
        matches!(self, Target::System | Target::Cgroups(_))
    }
}

/// Running thread of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetThread {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
}

//! [`Per`]: what has counts of its own.

/// Way in which counts are kept apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Per {
    /// Not at all: one sum.
    #[default]
    All,
    /// For each CPU.
    Cpu,
    /// For each core, of which several CPUs may be threads.
    Core,
    /// For each socket.
    Socket,
    /// For each memory node.
    Node,
    /// For each thread.
    Thread,
    /// For each process.
    Process,
}

impl Per {
    /// Returns true if threads of a command have to be followed one by one.
    pub(crate) fn is_by_thread(self) -> bool {
        matches!(self, Per::Thread | Per::Process)
    }

    /// Returns true if threads have to be counted on each CPU apart.
    pub(crate) fn is_by_cpu(self) -> bool {
        matches!(self, Per::Cpu | Per::Core | Per::Socket | Per::Node)
    }
}

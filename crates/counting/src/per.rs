//! [`Per`]: granularity of counts.

/// Granularity of counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Per {
    /// One sum.
    #[default]
    All,
    /// By CPU.
    Cpu,
    /// By core. Hardware threads share a core.
    Core,
    /// By socket.
    Socket,
    /// By memory node.
    Node,
    /// By thread.
    Thread,
    /// By process.
    Process,
}

impl Per {
    /// Returns true if a command's threads need separate counters.
    pub(crate) fn is_by_thread(self) -> bool {
        matches!(self, Per::Thread | Per::Process)
    }

    /// Returns true if threads need a separate counter on each CPU.
    pub(crate) fn is_by_cpu(self) -> bool {
        matches!(self, Per::Cpu | Per::Core | Per::Socket | Per::Node)
    }
}

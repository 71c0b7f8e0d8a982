//! [`Options`]: what is shown, and in which form.

use crate::selection::Selection;

/// Types of records that are shown besides samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideRecords {
    /// LOST and LOST_SAMPLES.
    pub lost: bool,
    /// MMAP and MMAP2.
    pub mmap: bool,
    /// COMM, FORK and EXIT.
    pub task: bool,
    /// SWITCH and SWITCH_CPU_WIDE.
    pub switch: bool,
    /// READ records: counts of single threads.
    pub read: bool,
    /// Records of AUX traces: their starts and pieces.
    pub aux: bool,
    /// NAMESPACES.
    pub namespaces: bool,
    /// KSYMBOL and BPF_EVENT.
    pub bpf: bool,
    /// CGROUP.
    pub cgroup: bool,
    /// TEXT_POKE.
    pub text_poke: bool,
}

/// Fields and records that are shown, and their form.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Fields of samples.
    pub fields: Selection,
    /// Times with nanoseconds, not microseconds.
    pub nanoseconds: bool,
    /// Frames of a stack at most; 0 for all.
    pub max_stack: usize,
    /// Show samples with a callchain as if they had none.
    pub hide_callchains: bool,
    /// Records shown in between.
    pub side: SideRecords,
}

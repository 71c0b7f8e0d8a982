//! [`ScriptOptions`]: content and format of the output.

use crate::selection::FieldSelection;

/// Record types to show besides samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideRecords {
    /// LOST and LOST_SAMPLES.
    pub lost: bool,
    /// Print MMAP and MMAP2 records: mappings.
    pub mmap: bool,
    /// COMM, FORK and EXIT.
    pub task: bool,
    /// SWITCH and SWITCH_CPU_WIDE.
    pub switch: bool,
    /// READ records: counts of single threads.
    pub read: bool,
    /// Records of AUX traces: start and data.
    pub aux: bool,
    /// Print NAMESPACES records: namespaces of new processes.
    pub namespaces: bool,
    /// KSYMBOL and BPF_EVENT.
    pub bpf: bool,
    /// Print CGROUP records: new control groups.
    pub cgroup: bool,
    /// Print TEXT_POKE records: changes of kernel code.
    pub text_poke: bool,
}

/// Content and format of the output.
#[derive(Clone, Debug, Default)]
pub struct ScriptOptions {
    /// Fields of samples.
    pub fields: FieldSelection,
    /// Print times with nanoseconds instead of microseconds.
    pub nanoseconds: bool,
    /// Maximum number of frames per stack; 0 for all.
    pub max_stack: usize,
    /// Print samples on one line, without their callchains.
    pub hide_callchains: bool,
    /// Other records to show.
    pub side: SideRecords,
}

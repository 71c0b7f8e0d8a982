//! Events that perf_event_open(2) has names for: hardware, software, caches, breakpoints.
//!
//! Names as perf(1) has them, PMUs and tracepoints are looked up by `rprof-events`.

use perf_event_open_sys::bindings as abi;
use rprof_records::{Attr, EventKind};

macro_rules! numbers {
    ($type:ident: $($(#[$doc:meta])* $name:ident = $value:expr;)*) => {
        impl $type {
            $($(#[$doc])* pub const $name: $type = $type($value as u64);)*
        }
    };
}

/// Generic hardware event (`PERF_COUNT_HW_*`). Virtual machines often have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hardware(pub u64);

numbers! { Hardware:
    /// Cycles of the processor.
    CPU_CYCLES = abi::PERF_COUNT_HW_CPU_CYCLES;
    /// Instructions that were completed.
    INSTRUCTIONS = abi::PERF_COUNT_HW_INSTRUCTIONS;
    /// Accesses to the last-level cache.
    CACHE_REFERENCES = abi::PERF_COUNT_HW_CACHE_REFERENCES;
    /// Misses of the last-level cache.
    CACHE_MISSES = abi::PERF_COUNT_HW_CACHE_MISSES;
    /// Branch instructions that were completed.
    BRANCH_INSTRUCTIONS = abi::PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
    /// Branches that were mispredicted.
    BRANCH_MISSES = abi::PERF_COUNT_HW_BRANCH_MISSES;
    /// Cycles of the bus.
    BUS_CYCLES = abi::PERF_COUNT_HW_BUS_CYCLES;
    /// Cycles in which the front end delivered nothing.
    STALLED_CYCLES_FRONTEND = abi::PERF_COUNT_HW_STALLED_CYCLES_FRONTEND;
    /// Cycles in which the back end completed nothing.
    STALLED_CYCLES_BACKEND = abi::PERF_COUNT_HW_STALLED_CYCLES_BACKEND;
    /// Cycles at the processor's nominal frequency.
    REF_CPU_CYCLES = abi::PERF_COUNT_HW_REF_CPU_CYCLES;
}

/// Event that the kernel counts by itself (`PERF_COUNT_SW_*`); every machine has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Software(pub u64);

numbers! { Software:
    /// Nanoseconds of a CPU's clock, by a timer.
    CPU_CLOCK = abi::PERF_COUNT_SW_CPU_CLOCK;
    /// Nanoseconds for which the task ran.
    TASK_CLOCK = abi::PERF_COUNT_SW_TASK_CLOCK;
    /// Page faults of both kinds.
    PAGE_FAULTS = abi::PERF_COUNT_SW_PAGE_FAULTS;
    /// Context switches, which the kernel counts on its own side: none with `exclude_kernel`.
    CONTEXT_SWITCHES = abi::PERF_COUNT_SW_CONTEXT_SWITCHES;
    /// Moves to another CPU, counted on the kernel's side.
    CPU_MIGRATIONS = abi::PERF_COUNT_SW_CPU_MIGRATIONS;
    /// Page faults that needed no disk.
    PAGE_FAULTS_MIN = abi::PERF_COUNT_SW_PAGE_FAULTS_MIN;
    /// Page faults that waited for a disk.
    PAGE_FAULTS_MAJ = abi::PERF_COUNT_SW_PAGE_FAULTS_MAJ;
    /// Accesses that the kernel had to align.
    ALIGNMENT_FAULTS = abi::PERF_COUNT_SW_ALIGNMENT_FAULTS;
    /// Instructions that the kernel emulated.
    EMULATION_FAULTS = abi::PERF_COUNT_SW_EMULATION_FAULTS;
    /// Nothing: carries records of processes.
    DUMMY = abi::PERF_COUNT_SW_DUMMY;
    /// Output of BPF programs.
    BPF_OUTPUT = abi::PERF_COUNT_SW_BPF_OUTPUT;
    /// Switches to a task of another control group.
    CGROUP_SWITCHES = abi::PERF_COUNT_SW_CGROUP_SWITCHES;
}

/// Cache of a generic cache event (`PERF_COUNT_HW_CACHE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cache(pub u64);

numbers! { Cache:
    /// First-level data cache.
    L1D = abi::PERF_COUNT_HW_CACHE_L1D;
    /// First-level instruction cache.
    L1I = abi::PERF_COUNT_HW_CACHE_L1I;
    /// Last-level cache.
    LL = abi::PERF_COUNT_HW_CACHE_LL;
    /// Translations of data addresses.
    DTLB = abi::PERF_COUNT_HW_CACHE_DTLB;
    /// Translations of instruction addresses.
    ITLB = abi::PERF_COUNT_HW_CACHE_ITLB;
    /// Branch prediction unit.
    BPU = abi::PERF_COUNT_HW_CACHE_BPU;
    /// Local memory.
    NODE = abi::PERF_COUNT_HW_CACHE_NODE;
}

/// Kind of access of a generic cache event (`PERF_COUNT_HW_CACHE_OP_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheOp(pub u64);

numbers! { CacheOp:
    /// Reads.
    READ = abi::PERF_COUNT_HW_CACHE_OP_READ;
    /// Writes.
    WRITE = abi::PERF_COUNT_HW_CACHE_OP_WRITE;
    /// Prefetches.
    PREFETCH = abi::PERF_COUNT_HW_CACHE_OP_PREFETCH;
}

/// Outcome that a generic cache event counts (`PERF_COUNT_HW_CACHE_RESULT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheResult(pub u64);

numbers! { CacheResult:
    /// All accesses.
    ACCESS = abi::PERF_COUNT_HW_CACHE_RESULT_ACCESS;
    /// Accesses that missed.
    MISS = abi::PERF_COUNT_HW_CACHE_RESULT_MISS;
}

/// Accesses at which a breakpoint hits (`HW_BREAKPOINT_*` of linux/hw_breakpoint.h). No kernel takes
/// execution together with an access of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BreakpointAccess(pub u32);

impl BreakpointAccess {
    /// No access. Kernels of x86 refuse it.
    pub const EMPTY: BreakpointAccess = BreakpointAccess(0);
    /// Reads. Processors that cannot tell them from writes (x86) refuse this.
    pub const READ: BreakpointAccess = BreakpointAccess(1);
    /// Writes.
    pub const WRITE: BreakpointAccess = BreakpointAccess(2);
    /// Reads and writes.
    pub const READ_WRITE: BreakpointAccess = BreakpointAccess(3);
    /// Execution of the instruction at the address.
    pub const EXECUTE: BreakpointAccess = BreakpointAccess(4);
}

/// Breakpoint on an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Breakpoint {
    /// Address of the first byte.
    pub address: u64,
    /// Bytes that are watched: 1, 2, 4 or 8, and for execution `size_of::<c_long>()`.
    pub length: u64,
    /// Accesses at which it hits.
    pub access: BreakpointAccess,
}

impl Breakpoint {
    /// Watches writes of the value that `place` refers to. It keeps no borrow: the caller sees to it
    /// that the value stays where it is.
    pub fn writes_to<T>(place: &T) -> Breakpoint {
        Breakpoint {
            address: std::ptr::from_ref(place) as u64,
            length: size_of::<T>() as u64,
            access: BreakpointAccess::WRITE,
        }
    }

    /// Puts the breakpoint into an attr.
    pub fn apply(&self, attr: &mut Attr) {
        attr.kind = EventKind::BREAKPOINT;
        attr.config = 0;
        attr.bp_type = self.access.0;
        attr.config1 = self.address;
        attr.config2 = self.length;
    }
}

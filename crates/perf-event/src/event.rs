//! Named events of perf_event_open(2): hardware, software, caches, breakpoints.
//!
//! `rprof-events` looks up names of perf(1), PMUs and tracepoints.

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
    /// Retired instructions.
    INSTRUCTIONS = abi::PERF_COUNT_HW_INSTRUCTIONS;
    /// Accesses to the last-level cache.
    CACHE_REFERENCES = abi::PERF_COUNT_HW_CACHE_REFERENCES;
    /// Misses of the last-level cache.
    CACHE_MISSES = abi::PERF_COUNT_HW_CACHE_MISSES;
    /// Retired branch instructions.
    BRANCH_INSTRUCTIONS = abi::PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
    /// Mispredicted branches.
    BRANCH_MISSES = abi::PERF_COUNT_HW_BRANCH_MISSES;
    /// Bus cycles, which can differ from CPU cycles.
    BUS_CYCLES = abi::PERF_COUNT_HW_BUS_CYCLES;
    /// Cycles in which the front end delivered nothing.
    STALLED_CYCLES_FRONTEND = abi::PERF_COUNT_HW_STALLED_CYCLES_FRONTEND;
    /// Cycles in which the back end retired nothing.
    STALLED_CYCLES_BACKEND = abi::PERF_COUNT_HW_STALLED_CYCLES_BACKEND;
    /// Cycles at the processor's nominal frequency.
    REF_CPU_CYCLES = abi::PERF_COUNT_HW_REF_CPU_CYCLES;
}

/// Software event counted by the kernel (`PERF_COUNT_SW_*`), available on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Software(pub u64);

numbers! { Software:
    /// Nanoseconds of a CPU's clock, from a timer.
    CPU_CLOCK = abi::PERF_COUNT_SW_CPU_CLOCK;
    /// Nanoseconds of running time of the task.
    TASK_CLOCK = abi::PERF_COUNT_SW_TASK_CLOCK;
    /// Page faults of both kinds.
    PAGE_FAULTS = abi::PERF_COUNT_SW_PAGE_FAULTS;
    /// Context switches. They count as kernel events: none with `exclude_kernel`.
    CONTEXT_SWITCHES = abi::PERF_COUNT_SW_CONTEXT_SWITCHES;
    /// Migrations to another CPU. They count as kernel events.
    CPU_MIGRATIONS = abi::PERF_COUNT_SW_CPU_MIGRATIONS;
    /// Page faults without disk I/O.
    PAGE_FAULTS_MIN = abi::PERF_COUNT_SW_PAGE_FAULTS_MIN;
    /// Page faults with disk I/O.
    PAGE_FAULTS_MAJ = abi::PERF_COUNT_SW_PAGE_FAULTS_MAJ;
    /// Misaligned accesses fixed up by the kernel.
    ALIGNMENT_FAULTS = abi::PERF_COUNT_SW_ALIGNMENT_FAULTS;
    /// Instructions emulated by the kernel.
    EMULATION_FAULTS = abi::PERF_COUNT_SW_EMULATION_FAULTS;
    /// Never counts. Carries records of processes.
    DUMMY = abi::PERF_COUNT_SW_DUMMY;
    /// Output of BPF programs.
    BPF_OUTPUT = abi::PERF_COUNT_SW_BPF_OUTPUT;
    /// Switches to a task of another control group.
    CGROUP_SWITCHES = abi::PERF_COUNT_SW_CGROUP_SWITCHES;
}

/// Cache of a generic cache event (`PERF_COUNT_HW_CACHE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GenericCache(pub u64);

numbers! { GenericCache:
    /// First-level data cache.
    L1D = abi::PERF_COUNT_HW_CACHE_L1D;
    /// First-level instruction cache.
    L1I = abi::PERF_COUNT_HW_CACHE_L1I;
    /// Last-level cache.
    LL = abi::PERF_COUNT_HW_CACHE_LL;
    /// TLB of data addresses.
    DTLB = abi::PERF_COUNT_HW_CACHE_DTLB;
    /// TLB of instruction addresses.
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
    /// Read accesses (loads).
    READ = abi::PERF_COUNT_HW_CACHE_OP_READ;
    /// Write accesses (stores).
    WRITE = abi::PERF_COUNT_HW_CACHE_OP_WRITE;
    /// Prefetch accesses.
    PREFETCH = abi::PERF_COUNT_HW_CACHE_OP_PREFETCH;
}

/// Result counted by a generic cache event (`PERF_COUNT_HW_CACHE_RESULT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheResult(pub u64);

numbers! { CacheResult:
    /// Accesses that hit or miss.
    ACCESS = abi::PERF_COUNT_HW_CACHE_RESULT_ACCESS;
    /// Misses.
    MISS = abi::PERF_COUNT_HW_CACHE_RESULT_MISS;
}

/// Accesses that trigger a breakpoint (`HW_BREAKPOINT_*` of linux/hw_breakpoint.h). No kernel
/// combines execution with data accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BreakpointAccess(pub u32);

impl BreakpointAccess {
    /// No access. Refused on x86.
    pub const EMPTY: BreakpointAccess = BreakpointAccess(0);
    /// Reads. Refused by processors that cannot separate them from writes (x86).
    pub const READ: BreakpointAccess = BreakpointAccess(1);
    /// Write accesses only.
    pub const WRITE: BreakpointAccess = BreakpointAccess(2);
    /// Read and write accesses.
    pub const READ_WRITE: BreakpointAccess = BreakpointAccess(3);
    /// Execution of the instruction at the address.
    pub const EXECUTE: BreakpointAccess = BreakpointAccess(4);
}

/// Breakpoint on an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Breakpoint {
    /// Address of the first byte.
    pub address: u64,
    /// Length in bytes: 1, 2, 4 or 8; for execution `size_of::<c_long>()`.
    pub length: u64,
    /// Accesses that trigger it.
    pub access: BreakpointAccess,
}

impl Breakpoint {
    /// Watches writes to `place`. Does not borrow it, so the caller must not move it.
    pub fn writes_to<T>(place: &T) -> Breakpoint {
        Breakpoint {
            address: std::ptr::from_ref(place) as u64,
            length: size_of::<T>() as u64,
            access: BreakpointAccess::WRITE,
        }
    }

    /// Sets the breakpoint in an attr.
    pub fn apply(&self, attr: &mut Attr) {
        attr.kind = EventKind::BREAKPOINT;
        attr.config = 0;
        attr.bp_type = self.access.0;
        attr.config1 = self.address;
        attr.config2 = self.length;
    }
}

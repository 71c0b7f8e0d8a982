//! Bit sets of the ABI. Unnamed bits survive a round trip.

use bitflags::bitflags;

bitflags! {
    /// Fields of a sample: `perf_event_attr.sample_type`, `PERF_SAMPLE_*`.
    ///
    /// The bit order differs from the field order in a record: see
    /// [`SampleLayout`](crate::SampleLayout).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct SampleType: u64 {
        /// Instruction pointer.
        const IP = 1;
        /// Process and thread id.
        const TID = 1 << 1;
        /// Time, in nanoseconds of the event's clock.
        const TIME = 1 << 2;
        /// Address of the event (page fault, memory access).
        const ADDR = 1 << 3;
        /// Counter values.
        const READ = 1 << 4;
        /// Callchain.
        const CALLCHAIN = 1 << 5;
        /// Id of the event (of the group leader if inherited).
        const ID = 1 << 6;
        /// CPU number.
        const CPU = 1 << 7;
        /// Current sampling period.
        const PERIOD = 1 << 8;
        /// Id of the event instance for this task and CPU.
        const STREAM_ID = 1 << 9;
        /// Raw payload (tracepoint fields).
        const RAW = 1 << 10;
        /// Branch records.
        const BRANCH_STACK = 1 << 11;
        /// User registers.
        const REGS_USER = 1 << 12;
        /// Bytes of the user stack.
        const STACK_USER = 1 << 13;
        /// Cost of the event (one 64-bit value).
        const WEIGHT = 1 << 14;
        /// Data source: level of the memory hierarchy, snoop, TLB (`union perf_mem_data_src`).
        const DATA_SRC = 1 << 15;
        /// Event id, always the first word of a sample and the last of a trailer.
        const IDENTIFIER = 1 << 16;
        /// Transaction abort cause.
        const TRANSACTION = 1 << 17;
        /// Registers at the interrupt.
        const REGS_INTR = 1 << 18;
        /// Physical address.
        const PHYS_ADDR = 1 << 19;
        /// Piece of the AUX area.
        const AUX = 1 << 20;
        /// Cgroup id.
        const CGROUP = 1 << 21;
        /// Page size at `ADDR`.
        const DATA_PAGE_SIZE = 1 << 22;
        /// Page size at `IP`.
        const CODE_PAGE_SIZE = 1 << 23;
        /// Cost of the event (three values in one word).
        const WEIGHT_STRUCT = 1 << 24;
        const _ = !0;
    }
}

bitflags! {
    /// Fields of a counter reading: `perf_event_attr.read_format`, `PERF_FORMAT_*`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ReadFormat: u64 {
        /// Enabled time in nanoseconds.
        const TOTAL_TIME_ENABLED = 1;
        /// Running time in nanoseconds.
        const TOTAL_TIME_RUNNING = 1 << 1;
        /// Event id.
        const ID = 1 << 2;
        /// Values of the whole group.
        const GROUP = 1 << 3;
        /// Samples lost by this event.
        const LOST = 1 << 4;
        const _ = !0;
    }
}

bitflags! {
    /// Filter and contents of branch records: `perf_event_attr.branch_sample_type`,
    /// `PERF_SAMPLE_BRANCH_*`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct BranchSampleType: u64 {
        /// User branches.
        const USER = 1;
        /// Kernel branches.
        const KERNEL = 1 << 1;
        /// Hypervisor branches.
        const HV = 1 << 2;
        /// Any branch.
        const ANY = 1 << 3;
        /// Calls of any kind.
        const ANY_CALL = 1 << 4;
        /// Returns of any kind.
        const ANY_RETURN = 1 << 5;
        /// Indirect calls.
        const IND_CALL = 1 << 6;
        /// Aborts of transactions.
        const ABORT_TX = 1 << 7;
        /// Branches inside transactions.
        const IN_TX = 1 << 8;
        /// Branches outside of transactions.
        const NO_TX = 1 << 9;
        /// Conditional branches.
        const COND = 1 << 10;
        /// Call stack from the last branch records.
        const CALL_STACK = 1 << 11;
        /// Indirect jumps.
        const IND_JUMP = 1 << 12;
        /// Direct calls.
        const CALL = 1 << 13;
        /// Branch flags are not required.
        const NO_FLAGS = 1 << 14;
        /// Branch cycles are not required.
        const NO_CYCLES = 1 << 15;
        /// Type of each branch.
        const TYPE_SAVE = 1 << 16;
        /// Word with the hardware index before the entries.
        const HW_INDEX = 1 << 17;
        /// Privilege level of each branch.
        const PRIV_SAVE = 1 << 18;
        /// Word of counters for each entry, after the entries.
        const COUNTERS = 1 << 19;
        const _ = !0;
    }
}

bitflags! {
    /// Bit field of `perf_event_attr`, in little-endian numbering.
    ///
    /// The two bits of `precise_ip` are [`PRECISE_IP_1`](Self::PRECISE_IP_1) (weight 1) and
    /// [`PRECISE_IP_2`](Self::PRECISE_IP_2) (weight 2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct AttrFlags: u64 {
        /// Disabled until enabled.
        const DISABLED = 1;
        /// Children inherit the event.
        const INHERIT = 1 << 1;
        /// Must always have a counter.
        const PINNED = 1 << 2;
        /// The only group on the PMU.
        const EXCLUSIVE = 1 << 3;
        /// Do not count user mode.
        const EXCLUDE_USER = 1 << 4;
        /// Do not count kernel mode.
        const EXCLUDE_KERNEL = 1 << 5;
        /// Do not count the hypervisor.
        const EXCLUDE_HV = 1 << 6;
        /// Do not count when idle.
        const EXCLUDE_IDLE = 1 << 7;
        /// MMAP records for executable mappings.
        const MMAP = 1 << 8;
        /// COMM records.
        const COMM = 1 << 9;
        /// The period field is a frequency.
        const FREQ = 1 << 10;
        /// Per-task counts across context switches.
        const INHERIT_STAT = 1 << 11;
        /// Enables the event on the next exec.
        const ENABLE_ON_EXEC = 1 << 12;
        /// FORK and EXIT records.
        const TASK = 1 << 13;
        /// The wake-up field is in bytes.
        const WATERMARK = 1 << 14;
        /// `precise_ip`, weight 1.
        const PRECISE_IP_1 = 1 << 15;
        /// `precise_ip`, weight 2.
        const PRECISE_IP_2 = 1 << 16;
        /// MMAP records also for data mappings.
        const MMAP_DATA = 1 << 17;
        /// Trailer in every record except samples.
        const SAMPLE_ID_ALL = 1 << 18;
        /// Do not count in the host.
        const EXCLUDE_HOST = 1 << 19;
        /// Do not count in guests.
        const EXCLUDE_GUEST = 1 << 20;
        /// Exclude the kernel part of callchains.
        const EXCLUDE_CALLCHAIN_KERNEL = 1 << 21;
        /// Exclude the user part of callchains.
        const EXCLUDE_CALLCHAIN_USER = 1 << 22;
        /// MMAP2 records instead of MMAP.
        const MMAP2 = 1 << 23;
        /// Mark COMM records caused by exec.
        const COMM_EXEC = 1 << 24;
        /// `clockid` selects the clock of time fields.
        const USE_CLOCKID = 1 << 25;
        /// SWITCH records.
        const CONTEXT_SWITCH = 1 << 26;
        /// Write the ring buffer backward.
        const WRITE_BACKWARD = 1 << 27;
        /// NAMESPACES records.
        const NAMESPACES = 1 << 28;
        /// KSYMBOL records.
        const KSYMBOL = 1 << 29;
        /// BPF_EVENT records.
        const BPF_EVENT = 1 << 30;
        /// AUX records instead of events.
        const AUX_OUTPUT = 1 << 31;
        /// CGROUP records.
        const CGROUP = 1 << 32;
        /// TEXT_POKE records.
        const TEXT_POKE = 1 << 33;
        /// MMAP2 records contain build-ids.
        const BUILD_ID = 1 << 34;
        /// Only threads inherit.
        const INHERIT_THREAD = 1 << 35;
        /// The kernel removes the event on exec.
        const REMOVE_ON_EXEC = 1 << 36;
        /// SIGTRAP on each event.
        const SIGTRAP = 1 << 37;
        /// Defer the user part of callchains to separate records.
        const DEFER_CALLCHAIN = 1 << 38;
        /// CALLCHAIN_DEFERRED records.
        const DEFER_OUTPUT = 1 << 39;
        const _ = !0;
    }
}

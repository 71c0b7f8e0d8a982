//! Header of every record: eight bytes.

use crate::bytes::{Endian, RawBytes};

/// Type of a record, `perf_event_header.type`. Kernel records start at 1, records written by `perf`
/// itself ("user records") at 64. Unknown numbers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordType(pub u32);

macro_rules! record_types {
    ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        impl RecordType {
            $($(#[$doc])* pub const $name: RecordType = RecordType($value);)*

            /// Returns the name in perf_event.h or in perf, if the number is known.
            pub fn name(self) -> Option<&'static str> {
                match self.0 { $($value => Some(stringify!($name)),)* _ => None }
            }
        }
    };
}

record_types! {
    /// A mapping, without inode.
    MMAP = 1;
    /// Records dropped because the ring buffer was full.
    LOST = 2;
    /// A task's new name.
    COMM = 3;
    /// A task exited.
    EXIT = 4;
    /// The kernel throttled an event.
    THROTTLE = 5;
    /// The kernel ended throttling.
    UNTHROTTLE = 6;
    /// A task was created.
    FORK = 7;
    /// Counter values.
    READ = 8;
    /// Sample of an event, with the fields of its `sample_type`.
    SAMPLE = 9;
    /// A mapping, with inode or build-id.
    MMAP2 = 10;
    /// New data in the AUX area.
    AUX = 11;
    /// Instruction tracing started.
    ITRACE_START = 12;
    /// Samples dropped by the hardware.
    LOST_SAMPLES = 13;
    /// Context switch of this task.
    SWITCH = 14;
    /// Context switch of a CPU.
    SWITCH_CPU_WIDE = 15;
    /// Namespaces of a task.
    NAMESPACES = 16;
    /// A kernel symbol was added or removed.
    KSYMBOL = 17;
    /// A BPF program was loaded or unloaded.
    BPF_EVENT = 18;
    /// A cgroup was created.
    CGROUP = 19;
    /// Kernel code changed.
    TEXT_POKE = 20;
    /// Hardware id for AUX output.
    AUX_OUTPUT_HW_ID = 21;
    /// Deferred user part of a callchain.
    CALLCHAIN_DEFERRED = 22;
    /// User record: an attr (pipe mode).
    HEADER_ATTR = 64;
    /// User record: an event type name (obsolete).
    HEADER_EVENT_TYPE = 65;
    /// User record: tracepoint formats; a payload follows the record.
    HEADER_TRACING_DATA = 66;
    /// User record: a build-id.
    HEADER_BUILD_ID = 67;
    /// User record: all ring buffers were read once.
    FINISHED_ROUND = 68;
    /// User record: CPU and thread of each id.
    ID_INDEX = 69;
    /// User record: type of AUX trace.
    AUXTRACE_INFO = 70;
    /// User record: AUX data; a payload follows the record.
    AUXTRACE = 71;
    /// User record: an AUX trace error.
    AUXTRACE_ERROR = 72;
    /// User record: recorded threads.
    THREAD_MAP = 73;
    /// User record: recorded CPUs.
    CPU_MAP = 74;
    /// User record: settings of perf stat.
    STAT_CONFIG = 75;
    /// User record: a count.
    STAT = 76;
    /// User record: a round of counts.
    STAT_ROUND = 77;
    /// User record: a name, unit or scale of an event.
    EVENT_UPDATE = 78;
    /// User record: TSC conversion.
    TIME_CONV = 79;
    /// User record: a feature section (pipe mode).
    HEADER_FEATURE = 80;
    /// User record: a piece of a zstd stream of further records.
    COMPRESSED = 81;
    /// User record: end of the synthesised records at the start.
    FINISHED_INIT = 82;
    /// User record: like COMPRESSED, but padded to eight bytes.
    COMPRESSED2 = 83;
    /// User record: metadata of a BPF program.
    BPF_METADATA = 84;
}

impl RecordType {
    /// Numbers of simpleperf's own records (its `record.h`).
    const SIMPLEPERF: std::ops::Range<u32> = 32768..33024;

    /// Returns true if `perf` defines this number, not the kernel. Such records have no `sample_id`
    /// trailer.
    pub fn is_user(self) -> bool {
        self.0 >= 64
    }

    /// Returns true if only simpleperf defines this number.
    pub fn is_simpleperf(self) -> bool {
        RecordType::SIMPLEPERF.contains(&self.0)
    }

    /// Returns true if the kernel, `perf` or simpleperf defines the number.
    pub fn is_known(self) -> bool {
        self.name().is_some() || self.is_simpleperf()
    }
}

impl std::fmt::Display for RecordType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "record type {}", self.0),
        }
    }
}

/// Mode of the CPU: the low three bits of `misc` (`PERF_RECORD_MISC_CPUMODE_MASK`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CpuMode {
    /// The mode was not recorded, or its number is undefined.
    Unknown,
    /// Kernel mode of this machine.
    Kernel,
    /// User mode of this machine.
    User,
    /// Hypervisor of this machine.
    Hypervisor,
    /// Kernel mode of a guest.
    GuestKernel,
    /// User mode of a guest.
    GuestUser,
}

/// The 16 `misc` bits of a record's header.
///
/// The low three are a number, the [CPU mode](Self::cpu_mode). The meaning of the others depends on
/// the record's type, so one bit has several names. Use only the names for the record's type.
/// [`ProcessEvent`](crate::ProcessEvent) interprets them for process records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Misc(pub u16);

impl Misc {
    /// CPU mode kernel.
    pub const KERNEL: Misc = Misc(1);
    /// CPU mode user.
    pub const USER: Misc = Misc(2);
    /// COMM: caused by exec.
    pub const COMM_EXEC: Misc = Misc(1 << 13);
    /// FORK: the recorder found the thread in /proc, without seeing its creation
    /// (`PERF_RECORD_MISC_FORK_EXEC`).
    pub const FORK_EXEC: Misc = Misc(1 << 13);
    /// MMAP, MMAP2: a data mapping.
    pub const MMAP_DATA: Misc = Misc(1 << 13);
    /// SWITCH: the task left the CPU.
    pub const SWITCH_OUT: Misc = Misc(1 << 13);
    /// SWITCH: it left while runnable.
    pub const SWITCH_OUT_PREEMPT: Misc = Misc(1 << 14);
    /// SAMPLE: the address is precise.
    pub const EXACT_IP: Misc = Misc(1 << 14);
    /// SAMPLE written by rprof: the user stack was unwound, and is truncated. The kernel leaves the
    /// bit unused in samples.
    pub const TRUNCATED_STACK: Misc = Misc(1 << 13);
    /// MMAP2: with a build-id.
    pub const MMAP_BUILD_ID: Misc = Misc(1 << 14);
    /// Synthesised MMAP2: reading /proc/PID/maps timed out.
    pub const PROC_MAP_PARSE_TIMEOUT: Misc = Misc(1 << 12);

    /// Returns the CPU mode: of a sample, or of the mapped code of an MMAP.
    pub fn cpu_mode(self) -> CpuMode {
        match self.0 & 7 {
            1 => CpuMode::Kernel,
            2 => CpuMode::User,
            3 => CpuMode::Hypervisor,
            4 => CpuMode::GuestKernel,
            5 => CpuMode::GuestUser,
            _ => CpuMode::Unknown,
        }
    }

    /// Returns true if all bits of `bit` are set. For CPU modes, which are numbers, use
    /// [`cpu_mode`](Self::cpu_mode). The meaning of a bit depends on the record's type.
    pub fn has(self, bit: Misc) -> bool {
        self.0 & bit.0 == bit.0
    }
}

impl std::ops::BitOr for Misc {
    type Output = Misc;
    fn bitor(self, other: Misc) -> Misc {
        Misc(self.0 | other.0)
    }
}

/// `struct perf_event_header`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Type of the record.
    pub kind: RecordType,
    /// Bits whose meaning depends on the type.
    pub misc: Misc,
    /// Length in bytes including the header, so at most 65,535.
    pub size: u16,
}

impl Header {
    /// Size of a header in bytes.
    pub const SIZE: usize = 8;

    /// Decodes the header at the start of `bytes`; `None` if they are too short.
    #[inline]
    pub fn parse(bytes: &RawBytes<'_>, endian: Endian) -> Option<Header> {
        Some(Header {
            kind: RecordType(bytes.u32(0, endian)?),
            misc: Misc(bytes.u16(4, endian)?),
            size: bytes.u16(6, endian)?,
        })
    }

    /// Encodes the header.
    pub fn encode(self, endian: Endian) -> [u8; 8] {
        let mut out = [0; 8];
        out[..4].copy_from_slice(&endian.put_u32(self.kind.0));
        out[4..6].copy_from_slice(&endian.put_u16(self.misc.0));
        out[6..].copy_from_slice(&endian.put_u16(self.size));
        out
    }
}

/// Undecoded record: header and body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// Type of the record.
    pub kind: RecordType,
    /// Bits whose meaning depends on the type.
    pub misc: Misc,
    /// Bytes of the record after the header.
    pub body: RawBytes<'a>,
    /// Byte order of the body.
    pub endian: Endian,
}

impl<'a> RawRecord<'a> {
    /// Splits off the first record of `bytes`.
    ///
    /// Returns `None` if the header is incomplete, or its size is below eight or exceeds `bytes`.
    #[inline]
    pub fn parse(bytes: RawBytes<'a>, endian: Endian) -> Option<RawRecord<'a>> {
        let header = Header::parse(&bytes, endian)?;
        Some(RawRecord {
            kind: header.kind,
            misc: header.misc,
            body: bytes.get(Header::SIZE..usize::from(header.size))?,
            endian,
        })
    }

    /// Returns the length in bytes, with the header.
    pub fn size(&self) -> usize {
        Header::SIZE + self.body.len()
    }
}

//! The eight bytes that begin every record.

use crate::bytes::{Endian, RawBytes};

/// Type of a record, `perf_event_header.type`. Kernel records count from 1, those that
/// `perf` itself writes ("user records") from 64. Unknown numbers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordType(pub u32);

macro_rules! record_types {
    ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        impl RecordType {
            $($(#[$doc])* pub const $name: RecordType = RecordType($value);)*

            /// The name used in perf_event.h and in perf, if the number is known.
            pub fn name(self) -> Option<&'static str> {
                match self.0 { $($value => Some(stringify!($name)),)* _ => None }
            }
        }
    };
}

record_types! {
    /// A mapping, without inode.
    MMAP = 1;
    /// Records dropped because the ring was full.
    LOST = 2;
    /// A task got a name.
    COMM = 3;
    /// A task ended.
    EXIT = 4;
    /// The kernel slowed an event down.
    THROTTLE = 5;
    /// The kernel lifted a throttling.
    UNTHROTTLE = 6;
    /// A task was born.
    FORK = 7;
    /// Counter values.
    READ = 8;
    /// A sample.
    SAMPLE = 9;
    /// A mapping, with inode or build-id.
    MMAP2 = 10;
    /// New data in the AUX area.
    AUX = 11;
    /// Instruction tracing began.
    ITRACE_START = 12;
    /// Samples dropped by the hardware.
    LOST_SAMPLES = 13;
    /// Context switch of this task.
    SWITCH = 14;
    /// Context switch of a CPU.
    SWITCH_CPU_WIDE = 15;
    /// Namespaces of a task.
    NAMESPACES = 16;
    /// A kernel symbol came or went.
    KSYMBOL = 17;
    /// A BPF program came or went.
    BPF_EVENT = 18;
    /// A cgroup was made.
    CGROUP = 19;
    /// Kernel code was changed.
    TEXT_POKE = 20;
    /// Hardware id for AUX output.
    AUX_OUTPUT_HW_ID = 21;
    /// The user part of a callchain, delivered later.
    CALLCHAIN_DEFERRED = 22;
    /// User record: an attr (pipe mode).
    HEADER_ATTR = 64;
    /// User record: an event type name (long gone).
    HEADER_EVENT_TYPE = 65;
    /// User record: tracepoint formats; a payload follows the record.
    HEADER_TRACING_DATA = 66;
    /// User record: a build-id.
    HEADER_BUILD_ID = 67;
    /// User record: all rings were read once.
    FINISHED_ROUND = 68;
    /// User record: which ids belong to which CPU and thread.
    ID_INDEX = 69;
    /// User record: kind of AUX trace.
    AUXTRACE_INFO = 70;
    /// User record: AUX data; a payload follows the record.
    AUXTRACE = 71;
    /// User record: an AUX trace error.
    AUXTRACE_ERROR = 72;
    /// User record: watched threads.
    THREAD_MAP = 73;
    /// User record: watched CPUs.
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
    /// User record: what was synthesised at the start is complete.
    FINISHED_INIT = 82;
    /// User record: as COMPRESSED, padded to eight bytes.
    COMPRESSED2 = 83;
    /// User record: metadata of a BPF program.
    BPF_METADATA = 84;
}

impl RecordType {
    /// Numbers that simpleperf defines for records of its own (its `record.h`).
    const SIMPLEPERF: std::ops::Range<u32> = 32768..33024;

    /// Returns true if `perf` and not the kernel defines this number. Such records
    /// have no `sample_id` trailer.
    pub fn is_user(self) -> bool {
        self.0 >= 64
    }

    /// Returns true if simpleperf and no other tool defines this number.
    pub fn is_simpleperf(self) -> bool {
        RecordType::SIMPLEPERF.contains(&self.0)
    }

    /// Returns true if the meaning of such records is known: the kernel, `perf` or simpleperf defines the number.
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
    /// Not said, or a number without a meaning yet.
    Unknown,
    /// Kernel.
    Kernel,
    /// User.
    User,
    /// Hypervisor.
    Hypervisor,
    /// Kernel of a guest.
    GuestKernel,
    /// User mode of a guest.
    GuestUser,
}

/// The 16 `misc` bits of a record's header.
///
/// The low three are a number, the [CPU mode](Self::cpu_mode). Of the others, one bit has several
/// names here, since its meaning depends on the record's type: compare only with those that are
/// named for that type. [`ProcessEvent`](crate::ProcessEvent) has decided it for records of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Misc(pub u16);

impl Misc {
    /// CPU mode kernel.
    pub const KERNEL: Misc = Misc(1);
    /// CPU mode user.
    pub const USER: Misc = Misc(2);
    /// COMM: an exec caused it.
    pub const COMM_EXEC: Misc = Misc(1 << 13);
    /// FORK: a recorder found the thread in /proc, and did not see it being born
    /// (`PERF_RECORD_MISC_FORK_EXEC`).
    pub const FORK_EXEC: Misc = Misc(1 << 13);
    /// MMAP, MMAP2: a data mapping.
    pub const MMAP_DATA: Misc = Misc(1 << 13);
    /// SWITCH: the task went away.
    pub const SWITCH_OUT: Misc = Misc(1 << 13);
    /// SWITCH: it went away while it could run.
    pub const SWITCH_OUT_PREEMPT: Misc = Misc(1 << 14);
    /// SAMPLE: the address is exact.
    pub const EXACT_IP: Misc = Misc(1 << 14);
    /// SAMPLE, in what rprof wrote: the user's stack was unwound, and ends before its root. The
    /// kernel leaves the bit unused for samples, and readers look at their CPU mode only.
    pub const TRUNCATED_STACK: Misc = Misc(1 << 13);
    /// MMAP2: the build-id form.
    pub const MMAP_BUILD_ID: Misc = Misc(1 << 14);
    /// Synthesised MMAP2: reading /proc/PID/maps took too long.
    pub const PROC_MAP_PARSE_TIMEOUT: Misc = Misc(1 << 12);

    /// Returns the CPU mode: where the CPU was when a sample was taken, or what an MMAP maps.
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

    /// Returns true if all bits of `bit` are set. For CPU modes, which are numbers and not bits, use
    /// [`cpu_mode`](Self::cpu_mode). One bit means different things for different types of record.
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
    /// Bits that depend on the kind.
    pub misc: Misc,
    /// Length in bytes, these eight included; so at most 65,535.
    pub size: u16,
}

impl Header {
    /// Bytes of a header.
    pub const SIZE: usize = 8;

    /// Reads the header at the start of `bytes`; `None` if they are too few.
    #[inline]
    pub fn parse(bytes: &RawBytes<'_>, endian: Endian) -> Option<Header> {
        Some(Header {
            kind: RecordType(bytes.u32(0, endian)?),
            misc: Misc(bytes.u16(4, endian)?),
            size: bytes.u16(6, endian)?,
        })
    }

    /// The header as bytes.
    pub fn encode(self, endian: Endian) -> [u8; 8] {
        let mut out = [0; 8];
        out[..4].copy_from_slice(&endian.put_u32(self.kind.0));
        out[4..6].copy_from_slice(&endian.put_u16(self.misc.0));
        out[6..].copy_from_slice(&endian.put_u16(self.size));
        out
    }
}

/// A record as it stands: header, and the bytes behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// Type of the record.
    pub kind: RecordType,
    /// Bits that depend on the kind.
    pub misc: Misc,
    /// All bytes after the header.
    pub body: RawBytes<'a>,
    /// Byte order of the body.
    pub endian: Endian,
}

impl<'a> RawRecord<'a> {
    /// Cuts the first record off `bytes`.
    ///
    /// `None` when the header is incomplete, says fewer than eight bytes, or
    /// more than there are. The caller knows the offset and says which.
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

    /// Length in bytes with the header.
    pub fn size(&self) -> usize {
        Header::SIZE + self.body.len()
    }
}

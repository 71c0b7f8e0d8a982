//! Numbers of feature sections.

/// Number of a feature: its bit in the header's bitmap (`HEADER_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Feature(pub u32);

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        impl Feature {
            $($(#[$doc])* pub const $name: Feature = Feature($value);)*

            /// Returns the name used in perf's header.h, if the number is known.
            pub fn name(self) -> Option<&'static str> {
                match self.0 { $($value => Some(stringify!($name)),)* _ => None }
            }
        }
    };
}

features! {
    /// Tracepoint formats.
    TRACING_DATA = 1;
    /// Build-ids of images.
    BUILD_ID = 2;
    /// Host name.
    HOSTNAME = 3;
    /// Kernel release.
    OSRELEASE = 4;
    /// Version of the recorder.
    VERSION = 5;
    /// Machine architecture, as in uname(2).
    ARCH = 6;
    /// CPUs available and online.
    NRCPUS = 7;
    /// CPU model.
    CPUDESC = 8;
    /// CPU vendor, family, model, stepping.
    CPUID = 9;
    /// Memory in KiB.
    TOTAL_MEM = 10;
    /// The recorder's command line.
    CMDLINE = 11;
    /// Events with names and ids.
    EVENT_DESC = 12;
    /// Cores and threads.
    CPU_TOPOLOGY = 13;
    /// Memory nodes.
    NUMA_TOPOLOGY = 14;
    /// Samples hold branch stacks.
    BRANCH_STACK = 15;
    /// Names of PMU numbers.
    PMU_MAPPINGS = 16;
    /// Event groups.
    GROUP_DESC = 17;
    /// AUX traces.
    AUXTRACE = 18;
    /// Written by perf stat.
    STAT = 19;
    /// CPU caches.
    CACHE = 20;
    /// Time of the first and last sample.
    SAMPLE_TIME = 21;
    /// Memory blocks.
    MEM_TOPOLOGY = 22;
    /// Resolution of the clock.
    CLOCKID = 23;
    /// The data is in a folder.
    DIR_FORMAT = 24;
    /// BPF programs.
    BPF_PROG_INFO = 25;
    /// BPF type information.
    BPF_BTF = 26;
    /// Records are compressed.
    COMPRESSED = 27;
    /// Capabilities of the CPU's PMU.
    CPU_PMU_CAPS = 28;
    /// Clock and wall clock at one instant.
    CLOCK_DATA = 29;
    /// CPUs of each kind of core.
    HYBRID_TOPOLOGY = 30;
    /// Capabilities of other PMUs.
    PMU_CAPS = 31;
    /// Scheduling domains of each CPU.
    CPU_DOMAIN_INFO = 32;
    /// ELF machine and its flags (written from perf 7.2 on).
    E_MACHINE = 33;
    /// Bytes of a cache line (written from perf 7.2 on).
    CLN_SIZE = 34;
    /// simpleperf: files with their symbols, as protocol buffers each with a length.
    SIMPLEPERF_FILE = 128;
    /// simpleperf: key-value pairs.
    SIMPLEPERF_META_INFO = 129;
    /// simpleperf: results of unwinding.
    SIMPLEPERF_DEBUG_UNWIND = 130;
    /// simpleperf: files for debugging the unwinder.
    SIMPLEPERF_DEBUG_UNWIND_FILE = 131;
    /// simpleperf: files with their symbols, each as one protocol buffer.
    SIMPLEPERF_FILE2 = 132;
    /// simpleperf: branches decoded from ETM traces.
    SIMPLEPERF_ETM_BRANCH_LIST = 133;
    /// simpleperf: mappings at the start.
    SIMPLEPERF_INIT_MAP = 134;
    /// rprof: [private notes](super::FeatureSections::insert_rprof_notes). Other tools skip the
    /// section.
    RPROF = 200;
    /// rprof: [embedded files](super::FeatureSections::insert_embedded_files).
    RPROF_FILES = 201;
}

impl Feature {
    /// Number of bits in the header's bitmap.
    pub const MAX: u32 = 256;
}

impl std::fmt::Display for Feature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "feature {}", self.0),
        }
    }
}

//! Arguments of `rprof record`, and of whatever else samples.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use super::target::TargetArgs;
use super::values::{self, CallGraph, Frequency, SwitchAt};

/// Records samples of a command, or of what runs already.
///
/// With a COMMAND, or a process to attach to, the recording ends when these do; otherwise
/// with Ctrl-C or after --duration.
///
/// The exit status is the command's own (128+N when signal N ended it); 127 when it
/// is not found, 126 when it cannot be executed, 2 for wrong usage, and 1 when
/// rprof itself failed. Without a command it is 0.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,

    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,

    /// The command, with its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

/// What is written.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// File to write, one that exists is kept as FILE.old; `-` is a stream to standard output
    #[arg(short, long, value_name = "FILE", default_value = "perf.data", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// Compress the records with zstd, at level 1 unless said otherwise
    #[arg(short = 'z', long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = clap::value_parser!(i32).range(1..=22))]
    pub(crate) compression_level: Option<i32>,

    /// End the recording when there are so many bytes of records, or with K, M or G
    #[arg(long, value_name = "N", value_parser = values::file_size)]
    pub(crate) max_size: Option<u64>,

    /// Go on in a new file on SIGUSR2 (`signal`), and at a size (as 100M) or after a time (as 30s)
    ///
    /// Each file is complete in itself, and is renamed to FILE.YYYYMMDDHHMMSSCC, the time
    /// of its end, as perf does.
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "signal", value_parser = values::switch_at)]
    pub(crate) switch_output: Option<SwitchAt>,

    /// Keep only the last N files of --switch-output
    #[arg(long, value_name = "N", requires = "switch_output", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) switch_max_files: Option<u32>,
}

/// Most bytes of stack that are copied into each sample when rprof unwinds: what fits into a
/// record together with the rest of it. What is beyond is known from the stack before.
pub(crate) const DUMP_BYTES: u32 = 60 << 10;

/// What to sample and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct SamplingArgs {
    /// Samples a second on each CPU, or `max`; above the system's limit it is lowered [default: 999]
    #[arg(short = 'F', long, value_name = "N", value_parser = values::frequency, conflicts_with = "count")]
    pub(crate) freq: Option<Frequency>,

    /// Fail if the system does not allow the frequency, instead of lowering it
    #[arg(long)]
    pub(crate) strict_freq: bool,

    /// One sample for every N events, instead of a frequency
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,

    /// Events to sample, as `page-faults`, `cpu-clock:u`, `a,b` or `{a,b}`; repeatable [default: cycles, or cpu-clock where there are none]
    #[arg(short, long, value_name = "EVENT")]
    pub(crate) event: Vec<String>,

    /// Record call stacks
    #[arg(short = 'g')]
    pub(crate) stacks: bool,

    /// How to record call stacks; implies -g: `auto` unwinds while recording, `fp` follows
    /// frame pointers, `dwarf[,BYTES]` copies the stack into the file, to be unwound by
    /// readers; `lbr` takes the processor's record of calls; or `none` [default: auto]
    #[arg(long, value_name = "HOW", value_parser = values::call_graph)]
    pub(crate) call_graph: Option<CallGraph>,

    /// Size of the sample ring of each CPU, in pages, or with B, K, M or G in bytes
    #[arg(short, long, value_name = "N", value_parser = values::ring_size)]
    pub(crate) mmap_pages: Option<usize>,

    /// Only user mode
    #[arg(long, conflicts_with = "all_kernel")]
    pub(crate) all_user: bool,

    /// Only the kernel
    #[arg(long)]
    pub(crate) all_kernel: bool,

    /// Only the command or process itself, not what it starts
    #[arg(short = 'i', long, overrides_with = "inherit")]
    pub(crate) no_inherit: bool,

    /// Also what the command or process starts; the default
    #[arg(long, hide = true, overrides_with = "no_inherit")]
    pub(crate) inherit: bool,

    /// Begin to sample so many milliseconds after the start
    #[arg(short = 'D', long, value_name = "MS", value_parser = values::delay, allow_negative_numbers = true)]
    pub(crate) delay: Option<Duration>,

    /// End the recording after so many seconds (or with ms, m, h); a COMMAND goes on
    #[arg(short = 'd', long, value_name = "SECONDS", value_parser = values::seconds)]
    pub(crate) duration: Option<Duration>,

    /// Leave rprof itself out
    #[arg(long)]
    pub(crate) exclude_perf: bool,

    /// Read the rings with this real-time priority (SCHED_FIFO)
    #[arg(long, value_name = "PRIO", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub(crate) realtime: Option<u8>,

    /// No summary, no progress; only errors
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Say more of how it is done
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

impl SamplingArgs {
    /// The first flag that was given and is for recording only.
    pub(crate) fn first_given(&self) -> Option<&'static str> {
        let given = [
            (self.freq.is_some(), "-F"),
            (self.strict_freq, "--strict-freq"),
            (self.count.is_some(), "-c"),
            (self.stacks, "-g"),
            (self.call_graph.is_some(), "--call-graph"),
            (self.mmap_pages.is_some(), "-m"),
            (self.all_user, "--all-user"),
            (self.all_kernel, "--all-kernel"),
            (self.no_inherit, "--no-inherit"),
            (self.delay.is_some(), "-D"),
            (self.duration.is_some(), "-d"),
            (self.exclude_perf, "--exclude-perf"),
            (self.realtime.is_some(), "--realtime"),
        ];
        (given.iter()).find_map(|(given, flag)| given.then_some(*flag))
    }

    pub(crate) fn wants_stacks(&self) -> bool {
        match self.call_graph {
            Some(CallGraph::None) => false,
            Some(_) => true,
            None => self.stacks,
        }
    }

    /// Bytes of stack to copy into each sample, where there are to be stacks.
    pub(crate) fn dump_bytes(&self) -> Option<u32> {
        match self.call_graph.unwrap_or(CallGraph::Auto) {
            _ if self.all_kernel => None,
            CallGraph::Auto => Some(DUMP_BYTES),
            CallGraph::Dwarf(bytes) => Some(bytes),
            CallGraph::Fp | CallGraph::Lbr | CallGraph::None => None,
        }
    }

    /// Whether stacks are unwound while recording.
    pub(crate) fn unwinds(&self) -> bool {
        matches!(self.call_graph, None | Some(CallGraph::Auto))
    }
}

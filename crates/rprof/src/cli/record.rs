//! Arguments of `rprof record`, and sampling options of other commands.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, FromArgMatches, ValueHint};

use super::extras::ExtraArgs;
use super::filters::Filters;
use super::suggested::{EVENTS, STACKS, suggested, text};
use super::target::TargetArgs;
use super::values::{self, BufferSizes, CallGraph, Frequency, Keep, SwitchAt};
use super::waits::OffCpuArgs;

/// Records where a command, a running process or the whole system spends its time.
///
/// Recording ends with the COMMAND or process, on Ctrl-C, or at --duration or --max-size.
///
/// Exit status: the COMMAND's own, 128+N if signal N killed it, 127 if it was not found, 126 if it
/// cannot be executed; 2 for usage errors, 1 if rprof failed, and 0 without a COMMAND.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// Command to run and record, with its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,

    #[command(flatten)]
    pub(crate) target: TargetArgs,

    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,

    #[command(flatten)]
    pub(crate) waits: OffCpuArgs,

    /// Record which code made the memory resident: every page fault with its stack, and the
    /// resident pages of the processes
    ///
    /// Shows allocators of any kind and language, in bytes that take memory (RSS). Memory that was
    /// requested but not touched counts nothing, and memory that was given back is gone. `rprof
    /// report` and `rprof flamegraph` show the end, with `--at peak` the peak.
    #[arg(long, help_heading = "Sampling")]
    pub(crate) memory: bool,

    /// Record which code requested memory: about one allocation in BYTES requested bytes, with its
    /// stack and its release [default: 512K]
    ///
    /// Loads a small library into the COMMAND and its children (LD_PRELOAD), which samples malloc,
    /// operator new and their relatives. Programs with the probes otel_memory:alloc and :free are
    /// recorded by these, also with -p. Shows bytes and numbers of allocations: in use at the end,
    /// with `--at peak` at the peak, with `--at ever` all.
    #[arg(long, help_heading = "Sampling", value_name = "BYTES", num_args = 0..=1, require_equals = true, default_missing_value = "512K", value_parser = values::file_size)]
    pub(crate) alloc: Option<u64>,

    /// Record which request each sample belongs to, for --by, --trace and --slower-than of `report`
    /// and other commands; needs root
    ///
    /// Reads the trace id, span id and attributes that OpenTelemetry SDKs publish in each thread
    /// (thread context, OTEP 4947). A BPF program reads them while the thread is interrupted.
    #[arg(long, help_heading = "Sampling", conflicts_with_all = ["memory", "alloc", "overwrite", "off_cpu_budget"])]
    pub(crate) requests: bool,

    #[command(flatten)]
    pub(crate) extras: ExtraArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Options for the output file.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// File to write; an existing file is renamed to FILE.old; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "perf.data", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// Compress with zstd at level 1 to 22 [default level: 1]
    #[arg(short = 'z', long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = values::number::<i32>(1..=22))]
    pub(crate) compression_level: Option<i32>,

    /// Also count the default events of `rprof stat`, and store the counts in the recording;
    /// `rprof header` shows them
    #[arg(long)]
    pub(crate) stat: bool,

    /// Stop recording after N bytes of records; N may end in K, M or G
    #[arg(long, value_name = "N", value_parser = values::file_size)]
    pub(crate) max_size: Option<u64>,

    /// Start a new file on SIGUSR2 (`signal`), and at a size (100M) or after a time (30s)
    ///
    /// Each file is complete, and is renamed to FILE.YYYYMMDDHHMMSSCC, the time at which it ended,
    /// as in perf.
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "signal", value_parser = values::switch_at)]
    pub(crate) switch_output: Option<SwitchAt>,

    /// Keep only the last N files of --switch-output
    #[arg(long, value_name = "N", requires = "switch_output", value_parser = values::number::<u32>(1..))]
    pub(crate) switch_max_files: Option<u32>,

    /// Run the COMMAND N times, and record each run to its own file: FILE.1 to FILE.N, or 1.data to
    /// N.data in a folder FILE, for `rprof gate --base`. Stops if a run fails, and deletes its
    /// recording
    #[arg(long, value_name = "N", conflicts_with = "switch_output", value_parser = values::number::<u32>(1..=1000))]
    pub(crate) runs: Option<u32>,

    /// Programs, libraries and JIT symbol files to embed in the recording
    ///
    /// Reports need these files for function names. `rprof header` lists them. You share them with
    /// the recording.
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Keep::Auto)]
    pub(crate) keep: Keep,
}

/// Maximum stack copy per sample, in bytes. A record holds at most 65,535 bytes, including the
/// other fields of the sample. Frames above the copy are read from process memory.
pub(crate) const DUMP_BYTES: u32 = 60 << 10;

/// Sampling options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct SamplingArgs {
    /// Samples per second on each CPU, or `max`; lowered to the kernel's limit [default: 999]
    #[arg(short = 'F', long, value_name = "N", value_parser = values::frequency, conflicts_with = "count")]
    pub(crate) freq: Option<Frequency>,

    /// Fail if -F exceeds the kernel's limit, instead of lowering it
    #[arg(long)]
    pub(crate) strict_freq: bool,

    /// Take a sample every N events, instead of at a frequency
    #[arg(short, long, value_name = "N", value_parser = values::number::<u64>(1..))]
    pub(crate) count: Option<u64>,

    // Before `event`, because clap removes an argument's indices when it fills the field.
    #[command(flatten)]
    pub(crate) filters: Filters,

    /// Events to sample, such as `page-faults`, `cpu-clock:u`, `a,b` or `{a,b}`; repeatable, see `rprof list` [default: cycles, or cpu-clock without hardware counters]
    #[arg(short, long, value_name = "EVENT", value_parser = suggested(EVENTS, text::<String>), hide_possible_values = true)]
    pub(crate) event: Vec<String>,

    /// Record call stacks, unwound while recording (the default)
    #[arg(short = 'g', overrides_with = "no_call_graph")]
    pub(crate) stacks: bool,

    /// How to record call stacks: `auto` unwinds while recording; `fp` follows frame pointers;
    /// `dwarf[,BYTES]` copies stacks into the file, which becomes large, to unwind them later;
    /// `lbr` uses the processor's last branch records; `none` [default: auto]
    #[arg(long, value_name = "HOW", value_parser = suggested(STACKS, values::call_graph), hide_possible_values = true, overrides_with = "no_call_graph")]
    pub(crate) call_graph: Option<CallGraph>,

    /// Record no call stacks (--call-graph none)
    #[arg(long, overrides_with_all = ["stacks", "call_graph"])]
    pub(crate) no_call_graph: bool,

    /// Ring buffer size per CPU, in pages, or in bytes with B, K, M or G; a second N sizes the
    /// buffer for traces (Intel PT); enlarge it if samples are lost
    #[arg(short, long, value_name = "N[,N]", value_parser = values::buffer_sizes)]
    pub(crate) mmap_pages: Option<BufferSizes>,

    /// Sample user mode only
    #[arg(long, conflicts_with = "all_kernel")]
    pub(crate) all_user: bool,

    /// Sample kernel mode only
    #[arg(long)]
    pub(crate) all_kernel: bool,

    /// Do not record new threads and child processes
    #[arg(short = 'i', long, overrides_with = "inherit")]
    pub(crate) no_inherit: bool,

    /// Record new threads and child processes (the default)
    #[arg(long, hide = true, overrides_with = "no_inherit")]
    pub(crate) inherit: bool,

    /// Start sampling after MS milliseconds
    #[arg(short = 'D', long, value_name = "MS", value_parser = values::delay, allow_negative_numbers = true)]
    pub(crate) delay: Option<Duration>,

    /// Stop recording after SECONDS, or a time such as 500ms, 5m or 1h; a COMMAND continues
    #[arg(short = 'd', long, value_name = "SECONDS", value_parser = values::seconds)]
    pub(crate) duration: Option<Duration>,

    /// Make runtimes write names of JIT code: Node.js, Java, Python, .NET, Erlang
    ///
    /// Sets environment variables for the COMMAND, and prints them. After sampling, requests the
    /// names from running Java processes over HotSpot's attach protocol, without executing a
    /// program.
    #[arg(long)]
    pub(crate) runtimes: bool,

    /// Do not record rprof itself
    #[arg(long)]
    pub(crate) exclude_perf: bool,

    /// Read and write samples with this real-time priority, 1 to 99 (SCHED_FIFO)
    ///
    /// By default, these threads get a low real-time priority only while they are late, and the
    /// writer for at most a quarter of the time. Needs CAP_SYS_NICE or `ulimit -r`.
    #[arg(long, value_name = "PRIO", value_parser = values::number::<u8>(1..=99))]
    pub(crate) realtime: Option<u8>,

    /// Print errors only, no progress or summary
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Print the opened events and their settings
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

impl SamplingArgs {
    /// Returns the options of a recording without flags.
    ///
    /// # Errors
    /// Never: no option is required.
    pub(crate) fn defaults() -> Result<SamplingArgs, clap::Error> {
        let command = SamplingArgs::augment_args(clap::Command::new("record"));
        SamplingArgs::from_arg_matches(&command.try_get_matches_from(["record"])?)
    }

    /// Returns the first given flag that applies to recording only.
    pub(crate) fn first_given(&self) -> Option<&'static str> {
        let given = [
            (self.freq.is_some(), "-F"),
            (self.strict_freq, "--strict-freq"),
            (self.count.is_some(), "-c"),
            (!self.filters.0.is_empty(), "--filter"),
            (self.stacks, "-g"),
            (self.call_graph.is_some(), "--call-graph"),
            (self.no_call_graph, "--no-call-graph"),
            (self.mmap_pages.is_some(), "-m"),
            (self.all_user, "--all-user"),
            (self.all_kernel, "--all-kernel"),
            (self.no_inherit, "--no-inherit"),
            (self.delay.is_some(), "-D"),
            (self.duration.is_some(), "-d"),
            (self.exclude_perf, "--exclude-perf"),
            (self.runtimes, "--runtimes"),
            (self.realtime.is_some(), "--realtime"),
        ];
        (given.iter()).find_map(|(given, flag)| given.then_some(*flag))
    }

    pub(crate) fn wants_stacks(&self) -> bool {
        !self.no_call_graph && self.call_graph != Some(CallGraph::None)
    }

    /// Returns the number of stack bytes to copy into each sample, if stacks are recorded.
    pub(crate) fn dump_bytes(&self) -> Option<u32> {
        match self.call_graph.unwrap_or(CallGraph::Auto) {
            _ if self.all_kernel => None,
            CallGraph::Auto => Some(DUMP_BYTES),
            CallGraph::Dwarf(bytes) => Some(bytes),
            CallGraph::Fp | CallGraph::Lbr | CallGraph::None => None,
        }
    }

    pub(crate) fn unwinds(&self) -> bool {
        !self.no_call_graph && matches!(self.call_graph, None | Some(CallGraph::Auto))
    }
}

//! Arguments of `rprof stat`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use rprof_counting::metrics::NamedMetric;

use super::suggested::{EVENTS, suggested, text};
use super::target::TargetArgs;
use super::values::{self, Limit};

/// Counts what a command, a running process or the whole system does.
///
/// By default, shows time, memory, page faults and context switches; also instructions, cycles and
/// misses if the machine has counters for them. Two commands separated by `:::` are run alternately
/// and compared:
///
///     rprof stat -- ./old args ::: ./new args
///
/// The exit status is the command's own; for a comparison 0, or 3 if --fail-above is exceeded.
#[derive(Debug, Args)]
pub(crate) struct StatArgs {
    /// Command to count, with its arguments; a second command after `:::` is compared with it
    #[arg(trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,

    #[command(flatten)]
    pub(crate) target: TargetArgs,

    #[command(flatten)]
    pub(crate) counting: CountingArgs,

    #[command(flatten)]
    pub(crate) repeating: RepeatingArgs,

    #[command(flatten)]
    pub(crate) printing: PrintingArgs,
}

/// Counting options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Counting")]
pub(crate) struct CountingArgs {
    /// Events to count, such as `page-faults`, `cycles:u`, `a,b` or `{a,b}` (counted together);
    /// repeatable, see `rprof list`
    #[arg(short, long, value_name = "EVENT", value_parser = suggested(EVENTS, text::<String>), hide_possible_values = true)]
    pub(crate) event: Vec<String>,

    /// Also count pipeline slots by outcome: retired, bad speculation, front end, back end
    #[arg(long)]
    pub(crate) topdown: bool,

    /// Count the events of these metrics, and show the metrics first: `ipc`, `clock`,
    /// `branch-misses`, …; several with commas
    #[arg(short = 'M', long, value_name = "METRIC", value_delimiter = ',', value_parser = values::metric)]
    pub(crate) metrics: Vec<&'static NamedMetric>,

    /// Share counters in turns if there are too few for all events, and extrapolate counts; with
    /// `no`, run the command once for each set of events instead
    #[arg(
        long,
        value_name = "YES|NO",
        value_enum,
        default_value = "yes",
        hide_default_value = true
    )]
    pub(crate) multiplex: YesNo,

    /// Count user mode only
    #[arg(long, conflicts_with = "all_kernel")]
    pub(crate) all_user: bool,

    /// Count kernel mode only
    #[arg(long)]
    pub(crate) all_kernel: bool,

    /// Do not count new threads and child processes
    #[arg(short = 'i', long, overrides_with = "inherit")]
    pub(crate) no_inherit: bool,

    /// Count new threads and child processes (the default)
    #[arg(long, hide = true, overrides_with = "no_inherit")]
    pub(crate) inherit: bool,

    /// Start counting after MS milliseconds
    #[arg(short = 'D', long, value_name = "MS", value_parser = values::delay, allow_negative_numbers = true)]
    pub(crate) delay: Option<Duration>,

    /// Stop counting after MS milliseconds; a COMMAND is ended by SIGTERM
    #[arg(long, value_name = "MS", value_parser = values::milliseconds)]
    pub(crate) timeout: Option<Duration>,

    /// Print counts every MS milliseconds, each for its interval
    #[arg(short = 'I', long, value_name = "MS", value_parser = values::milliseconds)]
    pub(crate) interval_print: Option<Duration>,

    /// Stop after N intervals of -I
    #[arg(long, value_name = "N", requires = "interval_print", value_parser = values::number::<u64>(1..))]
    pub(crate) interval_count: Option<u64>,

    /// Show separate counts for each part
    #[arg(long, value_name = "PART", value_enum)]
    pub(crate) per: Option<PerArg>,

    /// Show counts of each CPU (--per cpu)
    #[arg(short = 'A', long, hide = true, conflicts_with = "per")]
    pub(crate) no_aggr: bool,

    /// Show counts of each core (--per core)
    #[arg(long, hide = true, conflicts_with = "per")]
    pub(crate) per_core: bool,

    /// Show counts of each socket (--per socket)
    #[arg(long, hide = true, conflicts_with = "per")]
    pub(crate) per_socket: bool,

    /// Show counts of each memory node (--per node)
    #[arg(long, hide = true, conflicts_with = "per")]
    pub(crate) per_node: bool,

    /// Show counts of each thread (--per thread)
    #[arg(long, hide = true, conflicts_with = "per")]
    pub(crate) per_thread: bool,
}

/// Value of a flag that is `yes` or `no`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum YesNo {
    /// Extrapolate counts if necessary (the default)
    Yes,
    /// Never extrapolate counts
    No,
}

/// Value of `--per`: parts with separate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PerArg {
    /// CPUs
    Cpu,
    /// Cores
    Core,
    /// Sockets
    Socket,
    /// Memory nodes
    Node,
    /// Threads
    Thread,
    /// Processes
    Process,
}

impl CountingArgs {
    /// Returns the parts with separate counts, from `--per` or perf's flag for it.
    pub(crate) fn per(&self) -> Option<PerArg> {
        let flags = [
            (self.no_aggr, PerArg::Cpu),
            (self.per_core, PerArg::Core),
            (self.per_socket, PerArg::Socket),
            (self.per_node, PerArg::Node),
            (self.per_thread, PerArg::Thread),
        ];
        let flag = || flags.iter().find_map(|(given, per)| given.then_some(*per));
        self.per.or_else(flag)
    }
}

/// Options for repeated runs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Repeating and comparing")]
pub(crate) struct RepeatingArgs {
    /// Run the command N times, and show how much runs differ [default: 1, or 10 with `:::`]
    #[arg(short, long, value_name = "N", value_parser = values::number::<u32>(1..=100_000))]
    pub(crate) repeat: Option<u32>,

    /// Repeat the command for SECONDS, or a time such as 500ms or 2m; at least twice
    #[arg(long, alias = "time", value_name = "SECONDS", value_parser = values::seconds, conflicts_with = "repeat")]
    pub(crate) repeat_for: Option<Duration>,

    /// Warm up: run the command N times first, without counting [default: 0, or 1 with `:::`]
    #[arg(short, long, value_name = "N", value_parser = values::number::<u32>(0..=100_000))]
    pub(crate) warmup: Option<u32>,

    /// Run this with `sh` before each run, without counting
    #[arg(long, value_name = "COMMAND")]
    pub(crate) prepare: Option<String>,

    /// Include runs with an exit status other than 0, instead of excluding them
    #[arg(long)]
    pub(crate) ignore_failure: bool,

    /// Exit with status 3 if the second command takes over X% more: `5%` of CPU time, or
    /// `page-faults=1%`; repeatable
    #[arg(long, value_name = "[NAME=]X%", value_parser = values::limit)]
    pub(crate) fail_above: Vec<Limit>,

    /// Exit with status 4 if --fail-above is inconclusive
    #[arg(long, requires = "fail_above")]
    pub(crate) strict: bool,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatFormat {
    /// A table for people, on standard error
    Text,
    /// One document with every count of every run; with -I, one document per line
    Json,
    /// One line per count
    Csv,
}

/// Output options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct PrintingArgs {
    /// Output format [default: text]
    #[arg(long, value_enum)]
    pub(crate) format: Option<StatFormat>,

    /// Print CSV with SEP as the separator instead of commas
    #[arg(short = 'x', long, value_name = "SEP", value_parser = values::separator, conflicts_with = "format")]
    pub(crate) field_separator: Option<u8>,

    /// File to write; `-` is standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,

    /// Append to the file of -o instead of replacing it
    #[arg(long, requires = "output")]
    pub(crate) append: bool,

    /// Print errors and the result only
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Print the opened events and their settings
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

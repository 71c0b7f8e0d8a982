//! The command line. Names and letters are perf's where the meaning is the same.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default());

/// A sampling profiler for Linux.
///
/// Records where a program spends its time, as a perf.data file that perf and its
/// relatives read as well, and shows it as a table or a flame graph.
#[derive(Debug, Parser)]
#[command(name = "rprof", version, styles = STYLES, max_term_width = 100)]
#[command(
    after_help = "Begin with `rprof demo`, then `rprof record -g -- COMMAND` and `rprof report`."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Record(RecordArgs),
    Report(ReportArgs),
    Flamegraph(FlamegraphArgs),
    Collapse(CollapseArgs),
    Script(ScriptArgs),
    Header(HeaderArgs),
    Demo(DemoArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
    #[command(hide = true)]
    DemoWorkload(WorkloadArgs),
}

/// Runs a command and records samples of it.
///
/// The exit status is the command's own (128+N when signal N ended it); 127 when it
/// is not found, 126 when it cannot be executed, 2 for wrong usage, and 1 when
/// rprof itself failed.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// File to write, one that exists is kept as FILE.old; `-` is a stream to standard output
    #[arg(short, long, value_name = "FILE", default_value = "perf.data", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// Compress the records with zstd, at level 1 unless said otherwise
    #[arg(short = 'z', long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = clap::value_parser!(i32).range(1..=22))]
    pub(crate) compression_level: Option<i32>,

    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,

    /// Only the command itself, not what it starts
    #[arg(short = 'i', long, overrides_with = "inherit")]
    pub(crate) no_inherit: bool,

    /// Also what the command starts; the default
    #[arg(long, hide = true, overrides_with = "no_inherit")]
    pub(crate) inherit: bool,

    /// The command, with its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

/// What to sample and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct SamplingArgs {
    /// Samples a second on each CPU, or `max`; above the system's limit it is lowered [default: 999]
    #[arg(short = 'F', long, value_name = "N", value_parser = parse_frequency, conflicts_with = "count")]
    pub(crate) freq: Option<Frequency>,

    /// Fail if the system does not allow the frequency, instead of lowering it
    #[arg(long)]
    pub(crate) strict_freq: bool,

    /// One sample for every N events, instead of a frequency
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,

    /// Event to sample, such as `page-faults` or `cpu-clock:u` [default: cycles, or cpu-clock where there are none]
    #[arg(short, long, value_name = "EVENT")]
    pub(crate) event: Option<String>,

    /// Record call stacks
    #[arg(short = 'g')]
    pub(crate) stacks: bool,

    /// How to record call stacks; implies -g
    #[arg(long, value_name = "HOW")]
    pub(crate) call_graph: Option<CallGraph>,

    /// Size of the sample ring of each CPU, in pages, or with B, K, M or G in bytes
    #[arg(short, long, value_name = "N", value_parser = parse_ring_size)]
    pub(crate) mmap_pages: Option<usize>,

    /// Only user mode
    #[arg(long, conflicts_with = "all_kernel")]
    pub(crate) all_user: bool,

    /// Only the kernel
    #[arg(long)]
    pub(crate) all_kernel: bool,

    /// No summary, no progress; only errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// How stacks are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CallGraph {
    /// The best way there is: frame pointers, until unwinding without them is here
    Auto,
    /// Frame pointers, followed by the kernel
    Fp,
    /// No stacks
    None,
}

impl SamplingArgs {
    pub(crate) fn wants_stacks(&self) -> bool {
        match self.call_graph {
            Some(CallGraph::None) => false,
            Some(CallGraph::Auto | CallGraph::Fp) => true,
            None => self.stacks,
        }
    }
}

/// A value of `-F`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frequency {
    Hertz(u64),
    Max,
}

fn parse_frequency(text: &str) -> Result<Frequency, String> {
    match text {
        "max" => Ok(Frequency::Max),
        _ => match text.parse() {
            Ok(0) => Err("0 samples a second are none".into()),
            Ok(n) => Ok(Frequency::Hertz(n)),
            Err(_) => Err("neither a number nor `max`".into()),
        },
    }
}

/// Bytes of a ring: a number of pages, or of bytes with a unit.
fn parse_ring_size(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: usize = digits.parse().map_err(|_| "not a number".to_owned())?;
    let unit = match &text[digits.len()..] {
        "" => rustix::param::page_size(),
        "B" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return Err("units are B, K, M and G".into()),
    };
    match number.checked_mul(unit) {
        Some(0) => Err("a ring needs at least one page".into()),
        Some(bytes) if bytes <= 1 << 32 => Ok(bytes),
        _ => Err("larger than 4 GiB".into()),
    }
}

/// What is read, and which part of it counts.
#[derive(Debug, Args)]
pub(crate) struct InputArgs {
    /// Recording to read; `-` is standard input
    #[arg(short, long, value_name = "FILE", default_value = "perf.data", value_hint = ValueHint::FilePath)]
    pub(crate) input: PathBuf,

    /// Do not print warnings
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Only these events
    #[arg(
        long,
        help_heading = "Filters",
        value_name = "EVENT",
        value_delimiter = ','
    )]
    pub(crate) event: Vec<String>,

    #[command(flatten)]
    pub(crate) filter: FilterArgs,
}

/// Which samples count; several values of one are alternatives.
#[derive(Debug, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct FilterArgs {
    /// Only threads of these names
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) comm: Vec<String>,

    /// Only these processes
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub(crate) pid: Vec<i32>,

    /// Only these threads
    #[arg(long, value_name = "TID", value_delimiter = ',')]
    pub(crate) tid: Vec<i32>,

    /// Only these CPUs
    #[arg(long, value_name = "CPU", value_delimiter = ',')]
    pub(crate) cpu: Vec<u32>,

    /// Only samples whose leaf lies in one of these objects (path or file name)
    #[arg(long, value_name = "OBJECT", value_delimiter = ',')]
    pub(crate) dso: Vec<String>,

    /// Only samples whose leaf is one of these functions; repeatable
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) symbol: Vec<String>,

    /// Only samples of this time, in seconds as `script` shows them; either end may be left out
    #[arg(long, value_name = "FROM,TO", value_parser = parse_time_span)]
    pub(crate) time: Option<(u64, u64)>,

    /// What a sample counts for
    #[arg(long, value_name = "WHAT", default_value = "period")]
    pub(crate) weight: WeightArg,
}

fn parse_time_span(text: &str) -> Result<(u64, u64), String> {
    let (from, to) = text.split_once(',').ok_or("FROM,TO is wanted")?;
    let nanos = |text: &str, default| match text.trim() {
        "" => Ok(default),
        text => match text.parse::<f64>() {
            Ok(seconds) if seconds.is_finite() && seconds >= 0.0 => Ok((seconds * 1e9) as u64),
            _ => Err(format!("{text:?} is not a number of seconds")),
        },
    };
    match (nanos(from, 0)?, nanos(to, u64::MAX)?) {
        (from, to) if from <= to => Ok((from, to)),
        _ => Err("it ends before it begins".into()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WeightArg {
    /// Its period: the events, or the nanoseconds, it stands for
    Period,
    /// One
    Samples,
}

/// Shows the top functions.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,

    #[command(flatten)]
    pub(crate) rows: RowArgs,

    /// Form of the output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: Format,

    /// Colour the shares
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

/// Which rows.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rows")]
pub(crate) struct RowArgs {
    /// What rows are told apart by
    #[arg(
        short,
        long,
        value_name = "KEY",
        value_delimiter = ',',
        default_value = "symbol,dso"
    )]
    pub(crate) sort: Vec<SortKey>,

    /// Sort by total [default when the recording has stacks]
    #[arg(long, overrides_with = "no_children")]
    pub(crate) children: bool,

    /// Sort by self
    #[arg(long, overrides_with = "children")]
    pub(crate) no_children: bool,

    /// Leave out rows of a smaller share than this
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub(crate) percent_limit: f64,

    /// At most N rows
    #[arg(short = 'n', long = "rows", value_name = "N")]
    pub(crate) limit: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortKey {
    /// Thread name
    Comm,
    /// Process
    Pid,
    /// Thread
    Tid,
    /// Object
    Dso,
    /// Function
    #[value(alias = "sym")]
    Symbol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table
    Text,
    /// JSON, in a stable form
    Json,
    /// CSV with headings
    Csv,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    Always,
    Never,
}

/// Draws a flame graph, from a recording or of a command.
///
/// With a COMMAND it is recorded first, with call stacks, and its exit status is kept:
/// `rprof flamegraph -- make` is one line for CI.
#[derive(Debug, Args)]
pub(crate) struct FlamegraphArgs {
    /// SVG file to write; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "flamegraph.svg", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// Recording to read when there is no COMMAND; `-` is standard input
    #[arg(short, long, value_name = "FILE", default_value = "perf.data", value_hint = ValueHint::FilePath)]
    pub(crate) input: PathBuf,

    /// Title at the top [default: the command]
    #[arg(long)]
    pub(crate) title: Option<String>,

    /// Line under the title
    #[arg(long)]
    pub(crate) subtitle: Option<String>,

    /// Grow downwards
    #[arg(long)]
    pub(crate) inverted: bool,

    /// Merge from the leaves instead of the roots
    #[arg(long)]
    pub(crate) reverse: bool,

    /// Palette, such as hot, rust, java, aqua
    #[arg(long, value_name = "PALETTE", default_value = "hot")]
    pub(crate) colors: String,

    /// Leave out frames narrower than this share of the width
    #[arg(long, value_name = "PERCENT", default_value_t = 0.01)]
    pub(crate) min_width: f64,

    /// Width in pixels [default: that of the window]
    #[arg(long, value_name = "PIXELS")]
    pub(crate) width: Option<usize>,

    #[command(flatten)]
    pub(crate) filter: FilterArgs,

    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,

    /// Only the command itself, not what it starts
    #[arg(long, help_heading = "Sampling")]
    pub(crate) no_inherit: bool,

    /// The command to record, with its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

/// Writes folded stacks, as inferno and FlameGraph read them.
#[derive(Debug, Args)]
pub(crate) struct CollapseArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// File to write; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
}

/// Prints every sample, in the form of perf script.
#[derive(Debug, Args)]
pub(crate) struct ScriptArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// Fields to show, as `comm,ip,sym`; `+FIELD` and `-FIELD` change the default set;
    /// `hw:`, `sw:`, `trace:`, `raw:` or `break:` before the list limit it to events of that
    /// kind
    #[arg(short = 'F', long, help_heading = "Output", value_name = "LIST", allow_hyphen_values = true, value_parser = rprof_export::script::FieldList::parse)]
    pub(crate) fields: Vec<rprof_export::script::FieldList>,

    /// Times with nanoseconds
    #[arg(long, help_heading = "Output")]
    pub(crate) ns: bool,

    /// At most N frames of a stack
    #[arg(long, help_heading = "Output", value_name = "N")]
    pub(crate) max_stack: Option<std::num::NonZeroUsize>,

    /// Show samples with a stack as if they had none
    #[arg(short = 'G', long, help_heading = "Output")]
    pub(crate) hide_call_graph: bool,

    /// Also records of lost samples
    #[arg(long, help_heading = "Records")]
    pub(crate) show_lost_events: bool,

    /// Also names, births and ends of tasks
    #[arg(long, help_heading = "Records")]
    pub(crate) show_task_events: bool,

    /// Also mappings
    #[arg(long, help_heading = "Records")]
    pub(crate) show_mmap_events: bool,

    /// Also context switches
    #[arg(long, help_heading = "Records")]
    pub(crate) show_switch_events: bool,

    /// Also namespaces of tasks
    #[arg(long, help_heading = "Records")]
    pub(crate) show_namespace_events: bool,

    /// Also BPF programs, and symbols that the kernel made at run time
    #[arg(long, help_heading = "Records")]
    pub(crate) show_bpf_events: bool,

    /// Also cgroups
    #[arg(long, help_heading = "Records")]
    pub(crate) show_cgroup_events: bool,

    /// Also changes of kernel code
    #[arg(long, help_heading = "Records")]
    pub(crate) show_text_poke_events: bool,
}

/// Shows what a recording says of itself: machine, command, events, images.
#[derive(Debug, Args)]
pub(crate) struct HeaderArgs {
    /// Recording to read; `-` is standard input
    #[arg(short, long, value_name = "FILE", default_value = "perf.data", value_hint = ValueHint::FilePath)]
    pub(crate) input: PathBuf,

    /// Form of the output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: HeaderFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HeaderFormat {
    /// Lines of text
    Text,
    /// JSON
    Json,
}

/// Records a bundled program with two threads and shows what comes of it.
///
/// Prints its top functions beside the shares that the program is made to spend, and
/// writes flamegraph.svg.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Flame graph to write
    #[arg(short, long, value_name = "FILE", default_value = "flamegraph.svg", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// CPU seconds that each of the two threads spends
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = parse_demo_seconds)]
    pub(crate) seconds: f64,
}

fn parse_demo_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.01..=600.0).contains(&s) => Ok(s),
        _ => Err("between 0.01 and 600".into()),
    }
}

/// The program that `demo` records.
#[derive(Debug, Args)]
pub(crate) struct WorkloadArgs {
    #[arg(default_value_t = 2.0, value_parser = parse_demo_seconds)]
    pub(crate) seconds: f64,
}

/// Prints a completion script for a shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Prints the manual page, of rprof or of one of its commands.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command
    pub(crate) command: Option<String>,
}

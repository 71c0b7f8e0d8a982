//! Arguments of the commands that read recordings.

use std::ops::Deref;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};
use rprof_export::{Content, FORMATS, Format, SampleLabel};

use super::symbols::SymbolArgs;
use super::time_span::TimeSpan;
use super::values::{self, CpuList};
use super::waits::WaitArgs;

/// Recording to read, and filters on it.
#[derive(Clone, Debug, Args)]
pub(crate) struct InputArgs {
    /// Recordings or folded stacks to read, several are merged; `-` is standard input [default: perf.data]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,

    /// Recording or folded stacks to read, as FILE
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) input: Vec<PathBuf>,

    /// Do not print warnings
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Only samples of these events
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

impl InputArgs {
    /// Returns the files to read, which are one at least.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        paths(&self.files, &self.input)
    }
}

/// Returns the files given as FILE and with -i, or the default.
pub(super) fn paths(files: &[PathBuf], input: &[PathBuf]) -> Vec<PathBuf> {
    match [files, input].concat() {
        none if none.is_empty() => vec!["perf.data".into()],
        some => some,
    }
}

/// Filters on samples. Several values of one option are alternatives.
#[derive(Clone, Debug, Args)]
pub(crate) struct FilterArgs {
    #[command(flatten)]
    pub(crate) tasks: TaskFilterArgs,

    #[command(flatten)]
    pub(crate) samples: SampleFilterArgs,
}

impl Deref for FilterArgs {
    type Target = SampleFilterArgs;

    fn deref(&self) -> &SampleFilterArgs {
        &self.samples
    }
}

/// Filters by process, thread and CPU: options that select what to record in commands that record.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct TaskFilterArgs {
    /// Only samples of these processes
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = values::task)]
    pub(crate) pid: Vec<i32>,

    /// Only samples of these threads
    #[arg(short, long, value_name = "TID", value_delimiter = ',', value_parser = values::task)]
    pub(crate) tid: Vec<i32>,

    /// Only samples on these CPUs, such as `0-3,8`
    #[arg(short = 'C', long, value_name = "CPUS", value_parser = values::cpus)]
    pub(crate) cpu: Vec<CpuList>,
}

/// Filters that select among recorded samples in every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct SampleFilterArgs {
    /// Only samples of threads with these names; `*` and `?` stand for any characters, here and below
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) comm: Vec<String>,

    /// Only samples taken in one of these programs or libraries: path, file name, or `libc` for libc.so.6
    #[arg(long, value_name = "OBJECT", value_delimiter = ',')]
    pub(crate) dso: Vec<String>,

    /// Only samples taken in one of these functions, or in a call inlined there; repeatable
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) symbol: Vec<String>,

    /// Only samples with one of these functions anywhere in their stack; repeatable
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) focus: Vec<String>,

    /// Show what called these functions: of each stack the callers, in the report with the direct ones as self; repeatable
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) callers: Vec<String>,

    /// Only samples between these times, in seconds as `script` prints them; or `10%,20%` of the recording, `-5s,` (the last five seconds), `,+5s` (the first); either may be left out
    #[arg(long, value_name = "FROM,TO", allow_hyphen_values = true, value_parser = TimeSpan::parse)]
    pub(crate) time: Option<TimeSpan>,

    /// Count samples by their period, or each as one
    #[arg(long, value_name = "WHAT", default_value = "period")]
    pub(crate) weight: Option<WeightArg>,

    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WeightArg {
    /// Events or nanoseconds since the sample before
    Period,
    /// Each sample counts as one
    Samples,
}

/// Shows the functions in which the time was spent.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,

    #[command(flatten)]
    pub(crate) rows: RowArgs,

    #[command(flatten)]
    pub(crate) waits: WaitArgs,

    /// Output format
    #[arg(long, help_heading = "Output", value_name = "FORMAT", default_value = "text", value_parser = report_format())]
    pub(crate) format: &'static Format,

    /// Show below each row its call tree: `callee`, the callers of what ran (the default, sorted by self), or
    /// `caller`, what the function called (the default with --children); `,PERCENT` is the least share of a branch: of all
    /// samples, or twenty times that of its row [default: 0.5]
    #[arg(short = 'g', long, help_heading = "Rows", value_name = "WHICH", num_args = 0..=1, default_missing_value = "")]
    pub(crate) call_graph: Option<String>,

    /// Show the profile on the whole screen, to move about in: functions, trees, flame graph, threads, time; `?` lists the keys
    ///
    /// Which rows there are, their order, and their trees are chosen by keys there, but for --children.
    #[arg(long, help_heading = "Output", conflicts_with_all = ["sort", "limit", "call_graph", "no_children", "percent_limit", "wide", "format"])]
    pub(crate) tui: bool,

    /// Print the report as text, as without --tui; for fingers that know perf
    #[arg(long, hide = true, conflicts_with = "tui")]
    pub(crate) stdio: bool,

    /// When to use colours
    #[arg(
        long,
        help_heading = "Output",
        value_name = "WHEN",
        default_value = "auto"
    )]
    pub(crate) color: Color,
}

/// Options for the rows of a report.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rows")]
pub(crate) struct RowArgs {
    /// Make a row for each combination of these
    #[arg(
        short,
        long,
        value_name = "KEY",
        value_delimiter = ',',
        default_value = "symbol,dso"
    )]
    pub(crate) sort: Vec<SortKey>,

    /// Sort by total: time in the function and in those it called
    #[arg(long, overrides_with = "no_children")]
    pub(crate) children: bool,

    /// Sort by self, time in the function itself, and read no callers: there is no total then, and it is faster
    /// [default: by self, with total; json and csv with call stacks: --children]
    #[arg(long, overrides_with = "children")]
    pub(crate) no_children: bool,

    /// Leave out rows below this share
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = values::percent)]
    pub(crate) percent_limit: f64,

    /// Show at most N rows, 0 for all [default: as many as fit on a terminal, all elsewhere]
    #[arg(short = 'n', long = "rows", value_name = "N")]
    pub(crate) limit: Option<usize>,

    /// Show names and paths in full on a terminal, not fitted to its width
    #[arg(long)]
    pub(crate) wide: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortKey {
    /// Thread name
    Comm,
    /// Process
    Pid,
    /// Thread
    Tid,
    /// `running`, or what the thread waited for (--wall)
    State,
    /// Object
    Dso,
    /// Function
    #[value(alias = "sym")]
    Symbol,
    /// Source file and line, from debug information
    #[value(name = "srcline")]
    SrcLine,
    /// Share, samples or weight: columns that every row has. perf lists them among the keys
    #[value(hide = true, name = "overhead", aliases = ["overhead_children", "sample", "samples", "period"])]
    Figures,
}

/// Offers every form of a report that there is.
fn report_format() -> impl TypedValueParser<Value = &'static Format> {
    let values = Format::of(Content::Functions)
        .map(|format| PossibleValue::new(format.name).help(format.help));
    PossibleValuesParser::new(values).map(|name| Format::by_name(&name).unwrap_or(&FORMATS[0]))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    Always,
    Never,
}

/// Writes folded stacks, the text format that flame graph tools read.
#[derive(Debug, Args)]
pub(crate) struct CollapseArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,

    #[command(flatten)]
    pub(crate) waits: WaitArgs,

    /// File to write; `-` is standard output
    #[arg(short, long, help_heading = "Output", value_name = "FILE", default_value = "-", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
}

/// Writes the profile in the format of another tool.
///
/// The name of the output says which: `.pb.gz` for pprof, `go build -pgo`, Pyroscope and Parca; `.firefox.json.gz` for
/// profiler.firefox.com; `.speedscope.json` for speedscope; `.otlp.pb.gz` for OpenTelemetry; `.folded` for inferno and flamegraph.pl;
/// `.svg` for a browser. Names of functions, files and lines are in it, so it can be opened where the programs are not.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// File to write, such as profile.pb.gz, profile.firefox.json.gz, profile.speedscope.json or profile.folded; `-` is standard output
    #[arg(short, long, help_heading = "Output", value_name = "FILE", default_value = "profile.pb.gz", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// Format to write [default: by the end of the output's name]
    #[arg(long, help_heading = "Output", value_name = "FORMAT", value_parser = export_format())]
    pub(crate) format: Option<ExportForm>,

    /// What pprof and OpenTelemetry can group and filter by, beside functions; samples that differ in one stay apart, which takes more
    /// room [default: thread]
    #[arg(
        long,
        help_heading = "Output",
        alias = "label",
        value_name = "LIST",
        value_enum,
        value_delimiter = ','
    )]
    pub(crate) labels: Option<Vec<LabelArg>>,

    /// Unit of times in folded stacks, for shorter numbers [default: ns]
    #[arg(long, help_heading = "Output", value_enum)]
    pub(crate) unit: Option<TimeUnit>,

    /// Service that parquet's rows are of [default: the name of each process]
    #[arg(hide = !cfg!(feature = "parquet"), long, help_heading = "Output", value_name = "NAME")]
    pub(crate) service: Option<String>,

    /// Version of the service in parquet's rows
    #[arg(hide = !cfg!(feature = "parquet"), long, help_heading = "Output", value_name = "VERSION")]
    pub(crate) service_version: Option<String>,

    #[command(flatten)]
    pub(crate) input: InputArgs,

    #[command(flatten)]
    pub(crate) waits: WaitArgs,
}

/// Value of `--labels`: label of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LabelArg {
    /// Name of the thread
    #[value(alias = "comm")]
    Thread,
    /// Name of the process
    Process,
    /// Number of the process
    Pid,
    /// Number of the thread
    Tid,
    /// Number of the CPU
    Cpu,
    /// `user` or `kernel`
    Mode,
    /// No label
    None,
}

impl LabelArg {
    /// Returns the labels of a list, each once.
    pub(crate) fn labels(list: &[LabelArg]) -> Vec<SampleLabel> {
        let mut labels: Vec<SampleLabel> = list.iter().filter_map(|arg| arg.label()).collect();
        labels.sort_unstable();
        labels.dedup();
        labels
    }

    fn label(self) -> Option<SampleLabel> {
        Some(match self {
            LabelArg::Thread => SampleLabel::Thread,
            LabelArg::Process => SampleLabel::Process,
            LabelArg::Pid => SampleLabel::Pid,
            LabelArg::Tid => SampleLabel::Tid,
            LabelArg::Cpu => SampleLabel::Cpu,
            LabelArg::Mode => SampleLabel::Mode,
            LabelArg::None => return None,
        })
    }
}

/// Value of `--unit`: unit of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimeUnit {
    /// Nanoseconds
    Ns,
    /// Microseconds
    Us,
    /// Milliseconds
    Ms,
    /// Seconds
    S,
}

impl TimeUnit {
    /// Returns its nanoseconds.
    pub(crate) fn nanoseconds(self) -> u64 {
        match self {
            TimeUnit::Ns => 1,
            TimeUnit::Us => 1_000,
            TimeUnit::Ms => 1_000_000,
            TimeUnit::S => 1_000_000_000,
        }
    }
}

/// Form of what `export` writes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ExportForm {
    /// A file.
    File(&'static Format),
    /// A folder of tables.
    Tables,
}

/// Offers every form that holds more than rows.
fn export_format() -> impl TypedValueParser<Value = ExportForm> {
    let values = (FORMATS
        .iter()
        .filter(|format| format.content != Content::Functions))
    .map(|format| PossibleValue::new(format.name).help(format.help));
    let tables = PossibleValue::new("parquet")
        .help("A folder of Parquet tables for SQL over many hosts: docs/fleet.md")
        .hide(!cfg!(feature = "parquet"));
    PossibleValuesParser::new(values.chain([tables])).map(|name| match Format::by_name(&name) {
        Some(format) => ExportForm::File(format),
        None => ExportForm::Tables,
    })
}

/// Prints every sample, in the format of perf script.
#[derive(Debug, Args)]
pub(crate) struct ScriptArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// Fields to print, such as `comm,ip,sym`; `+FIELD` and `-FIELD` change the default set; `hw:`, `sw:`,
    /// `trace:`, `raw:` or `break:` before the list applies it to events of that kind only
    #[arg(short = 'F', long, help_heading = "Output", value_name = "LIST", allow_hyphen_values = true, value_parser = rprof_script::FieldList::parse)]
    pub(crate) fields: Vec<rprof_script::FieldList>,

    /// Print times with nanoseconds
    #[arg(long, help_heading = "Output")]
    pub(crate) ns: bool,

    /// Print at most N frames of each stack
    #[arg(long, help_heading = "Output", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_stack: Option<u32>,

    /// Print samples without their call stacks
    #[arg(short = 'G', long, help_heading = "Output")]
    pub(crate) hide_call_graph: bool,

    /// Print records of lost samples too
    #[arg(long, help_heading = "Records")]
    pub(crate) show_lost_events: bool,

    /// Print starts, names and ends of threads and processes too
    #[arg(long, help_heading = "Records")]
    pub(crate) show_task_events: bool,

    /// Print memory mappings too
    #[arg(long, help_heading = "Records")]
    pub(crate) show_mmap_events: bool,

    /// Print context switches too
    #[arg(long, help_heading = "Records")]
    pub(crate) show_switch_events: bool,

    /// Print counts of single threads too (`record -s`)
    #[arg(long, help_heading = "Records")]
    pub(crate) show_thread_counts: bool,

    /// Print pieces of AUX traces too
    #[arg(long, help_heading = "Records")]
    pub(crate) show_aux_events: bool,

    /// Print namespaces of processes too
    #[arg(long, help_heading = "Records")]
    pub(crate) show_namespace_events: bool,

    /// Print BPF programs and symbols generated by the kernel too
    #[arg(long, help_heading = "Records")]
    pub(crate) show_bpf_events: bool,

    /// Print control groups too
    #[arg(long, help_heading = "Records")]
    pub(crate) show_cgroup_events: bool,

    /// Print changes of kernel code too
    #[arg(long, help_heading = "Records")]
    pub(crate) show_text_poke_events: bool,
}

/// Shows how a recording was made: machine, command, events, and build-ids of programs.
#[derive(Debug, Args)]
pub(crate) struct HeaderArgs {
    /// Recordings to show; `-` is standard input [default: perf.data]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,

    /// Recording to show, as FILE
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) input: Vec<PathBuf>,

    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: HeaderFormat,
}

impl HeaderArgs {
    /// Returns the files to show, which are one at least.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        paths(&self.files, &self.input)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HeaderFormat {
    /// Lines of text
    Text,
    /// JSON
    Json,
}

//! Arguments of the commands that read recordings.

use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};
use rprof_export::{Content, ExportFormat, FORMATS, SampleLabel};
use rprof_profile::Language;

use super::symbols::SymbolArgs;
use super::time_span::TimeSpan;
use super::values::{self, CpuList};
use super::waits::WaitArgs;

/// Recording to read, and filters on it.
#[derive(Clone, Debug, Args)]
pub(crate) struct InputArgs {
    /// Recordings or profiles of other tools: folded stacks, pprof, Firefox, speedscope, Chrome and
    /// others; several are merged; `-` is standard input [default: perf.data]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,

    /// Recording or profile of another tool to read, such as folded stacks (same as FILE)
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
    /// Returns the files to read, at least one.
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

/// Filters by process, thread and CPU. In commands that record, these options select the target.
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

/// Filters on recorded samples, in every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct SampleFilterArgs {
    /// Only samples of threads with these names; `*` and `?` are wildcards, here and below
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) comm: Vec<String>,

    /// Only samples in these programs or libraries: path, file name, or `libc` for libc.so.6
    #[arg(long, value_name = "OBJECT", value_delimiter = ',')]
    pub(crate) dso: Vec<String>,

    /// Only samples in functions of these languages, such as `python`; native code that Python calls
    /// is `native`
    #[arg(long, value_name = "LANGUAGE", value_delimiter = ',', value_parser = values::language)]
    pub(crate) language: Vec<Language>,

    /// Only samples in these functions, or in calls inlined into them; repeatable
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) symbol: Vec<String>,

    /// Only samples with one of these functions anywhere in the stack; repeatable
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) focus: Vec<String>,

    /// Show the callers of these functions: stacks end at the call, and reports count self for
    /// direct callers; repeatable
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) callers: Vec<String>,

    /// Only samples between these times, in seconds as `script` prints them, `10%,20%` of the
    /// recording, `-5s,` (the last five seconds) or `,+5s` (the first); FROM or TO may be empty
    #[arg(long, value_name = "FROM,TO", allow_hyphen_values = true, value_parser = TimeSpan::parse)]
    pub(crate) time: Option<TimeSpan>,

    /// Only samples while this many threads of their process group ran, such as `1` or `2-8`; 0
    /// selects waits while none ran; needs a recording of `record --latency` or --off-cpu
    #[arg(long, value_name = "THREADS", value_parser = values::cpus)]
    pub(crate) parallelism: Option<CpuList>,

    /// Only samples of requests with these trace ids; needs a recording of `record --requests`
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = values::trace_id)]
    pub(crate) trace: Vec<String>,

    /// Only samples in spans that took longer, such as 100ms, from the first to the last sample;
    /// needs a recording of `record --requests`
    #[arg(long, value_name = "TIME", value_parser = values::seconds)]
    pub(crate) slower_than: Option<Duration>,

    /// Weight of each sample: its period, or one
    #[arg(long, value_name = "WHAT", default_value = "period")]
    pub(crate) weight: Option<WeightArg>,

    /// Show wall-clock time of the program instead of CPU time: each sample counts for one divided
    /// by the number of threads that ran; needs a recording of `record --latency` or --off-cpu
    ///
    /// With --wall, also the waits while no thread ran: all rows together are the elapsed time.
    #[arg(long, conflicts_with = "weight")]
    pub(crate) latency: bool,

    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WeightArg {
    /// Events or nanoseconds since the previous sample
    Period,
    /// Each sample counts as one
    Samples,
}

/// Shows the time spent in each function.
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
    pub(crate) format: &'static ExportFormat,

    /// Show a call tree below each row: `callee` shows callers (default when sorted by self),
    /// `caller` shows callees (default with --children); `,PERCENT` hides branches below this share
    /// of all samples, or below twenty times this share of their row [default PERCENT: 0.5]
    #[arg(short = 'g', long, help_heading = "Rows", value_name = "WHICH", num_args = 0..=1, default_missing_value = "")]
    pub(crate) call_graph: Option<String>,

    /// Explore the profile on the whole screen: functions, trees, flame graph, threads, timeline;
    /// `?` lists the keys
    ///
    /// Keys select rows, order and trees there. Of the row options, only --children applies.
    #[arg(long, help_heading = "Output", conflicts_with_all = ["sort", "limit", "call_graph", "no_children", "percent_limit", "wide", "format"])]
    pub(crate) tui: bool,

    /// Print the report as text (the default); accepted as in perf
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
    /// Group samples into rows by these keys
    #[arg(
        short,
        long,
        value_name = "KEY",
        value_delimiter = ',',
        default_value = "symbol,dso"
    )]
    pub(crate) sort: Vec<SortKey>,

    /// Sort by total: time in the function and its callees
    #[arg(long, overrides_with = "no_children")]
    pub(crate) children: bool,

    /// Sort by self, time in the function alone, and omit total, which is faster [default: by self,
    /// with total; json and csv with call stacks: --children]
    #[arg(long, overrides_with = "children")]
    pub(crate) no_children: bool,

    /// Hide rows below this share
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = values::percent)]
    pub(crate) percent_limit: f64,

    /// Show at most N rows, 0 for all [default: one screen on a terminal, otherwise all]
    #[arg(short = 'n', long = "rows", value_name = "N", value_parser = values::number::<usize>(0..))]
    pub(crate) limit: Option<usize>,

    /// Do not shorten names and paths to the terminal's width
    #[arg(long)]
    pub(crate) wide: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortKey {
    /// Thread name
    Comm,
    /// Process ID
    Pid,
    /// Thread ID
    Tid,
    /// `running`, or the wait reason (--wall)
    State,
    /// Language of the function
    Language,
    /// Program or library
    Dso,
    /// Function
    #[value(alias = "sym")]
    Symbol,
    /// Source file and line, from debug information
    #[value(name = "srcline")]
    SrcLine,
    /// Share, samples or weight: columns that every row has. perf accepts them as keys.
    #[value(hide = true, name = "overhead", aliases = ["overhead_children", "sample", "samples", "period"])]
    Figures,
}

/// Accepts every report format.
fn report_format() -> impl TypedValueParser<Value = &'static ExportFormat> {
    let values = ExportFormat::of(Content::Functions)
        .map(|format| PossibleValue::new(format.name).help(format.help));
    PossibleValuesParser::new(values)
        .map(|name| ExportFormat::by_name(&name).unwrap_or(&FORMATS[0]))
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
/// The output's file name selects the format: `.pb.gz` for pprof, `go build -pgo`, Pyroscope and
/// Parca; `.firefox.json.gz` for profiler.firefox.com; `.speedscope.json` for speedscope;
/// `.cpuprofile` for Chrome's developer tools and VS Code;
/// `.pftrace` for Perfetto (ui.perfetto.dev), with waits;
/// `.otlp.pb.gz` for OpenTelemetry; `.folded` for inferno and flamegraph.pl; `.svg` for a browser.
/// The file contains function, file and line names, so viewers do not need the programs.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// File to write, such as profile.pb.gz, profile.firefox.json.gz, profile.speedscope.json or profile.folded; `-` is standard output
    #[arg(short, long, help_heading = "Output", value_name = "FILE", default_value = "profile.pb.gz", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// Format to write [default: from the output's file name]
    #[arg(long, help_heading = "Output", value_name = "FORMAT", value_parser = export_format())]
    pub(crate) format: Option<&'static ExportFormat>,

    /// Sample labels, to group and filter by in pprof and OpenTelemetry; each label makes the file
    /// larger [default: thread]
    #[arg(
        long,
        help_heading = "Output",
        alias = "label",
        value_name = "LIST",
        value_enum,
        value_delimiter = ','
    )]
    pub(crate) labels: Option<Vec<LabelArg>>,

    /// Time unit in folded stacks, for shorter numbers [default: ns]
    #[arg(long, help_heading = "Output", value_enum)]
    pub(crate) unit: Option<TimeUnit>,

    #[command(flatten)]
    pub(crate) input: InputArgs,

    #[command(flatten)]
    pub(crate) waits: WaitArgs,
}

/// Value of `--labels`: label of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LabelArg {
    /// Thread name
    #[value(alias = "comm")]
    Thread,
    /// Process name
    Process,
    /// Process ID
    Pid,
    /// Thread ID
    Tid,
    /// CPU number
    Cpu,
    /// `user` or `kernel`
    Mode,
    /// Trace ID of the request, from `record --requests`
    Trace,
    /// Span ID of the request; with the trace ID, a link in OpenTelemetry
    Span,
    /// No label
    None,
}

impl LabelArg {
    /// Returns the labels of a list, without duplicates.
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
            LabelArg::Trace => SampleLabel::Trace,
            LabelArg::Span => SampleLabel::Span,
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
    /// Returns the unit in nanoseconds.
    pub(crate) fn nanoseconds(self) -> u64 {
        match self {
            TimeUnit::Ns => 1,
            TimeUnit::Us => 1_000,
            TimeUnit::Ms => 1_000_000,
            TimeUnit::S => 1_000_000_000,
        }
    }
}

/// Accepts every format with more content than rows. Parquet is the agent's.
fn export_format() -> impl TypedValueParser<Value = &'static ExportFormat> {
    let values = (FORMATS.iter())
        .filter(|format| format.content != Content::Functions)
        .map(|format| PossibleValue::new(format.name).help(format.help));
    let tables = PossibleValue::new("parquet").hide(true);
    PossibleValuesParser::new(values.chain([tables])).try_map(|name| {
        let elsewhere = "`rprof-agent export RECORDING -o FOLDER` writes Parquet tables";
        ExportFormat::by_name(&name).ok_or(elsewhere)
    })
}

/// Prints every sample, in the format of perf script.
#[derive(Debug, Args)]
#[command(mut_arg("by_language", |argument| argument.hide(true)))]
#[command(mut_arg("no_by_language", |argument| argument.hide(true)))]
pub(crate) struct ScriptArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// Fields to print, such as `comm,ip,sym`; `+FIELD` and `-FIELD` change the default set; `hw:`,
    /// `sw:`, `trace:`, `raw:` or `break:` before the list applies it only to events of that kind
    #[arg(short = 'F', long, help_heading = "Output", value_name = "LIST", allow_hyphen_values = true, value_parser = rprof_script::FieldList::parse)]
    pub(crate) fields: Vec<rprof_script::FieldList>,

    /// Print times with nanoseconds
    #[arg(long, help_heading = "Output")]
    pub(crate) ns: bool,

    /// Print at most N frames of each stack
    #[arg(long, help_heading = "Output", value_name = "N", value_parser = values::number::<u32>(1..))]
    pub(crate) max_stack: Option<u32>,

    /// Print samples without their call stacks
    #[arg(short = 'G', long, help_heading = "Output")]
    pub(crate) hide_call_graph: bool,

    /// Print records of lost samples too
    #[arg(long, help_heading = "Records")]
    pub(crate) show_lost_events: bool,

    /// Print forks, exits and names of threads too
    #[arg(long, help_heading = "Records")]
    pub(crate) show_task_events: bool,

    /// Print memory mappings too
    #[arg(long, help_heading = "Records")]
    pub(crate) show_mmap_events: bool,

    /// Print context switches too
    #[arg(long, help_heading = "Records")]
    pub(crate) show_switch_events: bool,

    /// Print per-thread counts too (`record -s`)
    #[arg(long, help_heading = "Records")]
    pub(crate) show_thread_counts: bool,

    /// Print AUX trace records too
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

    /// Print kernel code changes too
    #[arg(long, help_heading = "Records")]
    pub(crate) show_text_poke_events: bool,
}

/// Shows how a recording was made: machine, command, events, and build-ids of programs.
#[derive(Debug, Args)]
pub(crate) struct HeaderArgs {
    /// Recordings to show; `-` is standard input [default: perf.data]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,

    /// Recording to show (same as FILE)
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) input: Vec<PathBuf>,

    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: HeaderFormat,
}

impl HeaderArgs {
    /// Returns the files to show, at least one.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        paths(&self.files, &self.input)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HeaderFormat {
    /// Plain text
    Text,
    /// JSON
    Json,
}

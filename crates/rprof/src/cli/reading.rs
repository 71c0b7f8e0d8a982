//! Arguments of the commands that read recordings.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};
use rprof_export::{FORMATS, Format};

use super::symbols::SymbolArgs;
use super::values::{self, CpuList};

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
    #[arg(long, alias = "comms", value_name = "NAME", value_delimiter = ',')]
    pub(crate) comm: Vec<String>,

    /// Only these processes
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = values::task)]
    pub(crate) pid: Vec<i32>,

    /// Only these threads
    #[arg(long, value_name = "TID", value_delimiter = ',', value_parser = values::task)]
    pub(crate) tid: Vec<i32>,

    /// Only these CPUs, as `0-3,8`
    #[arg(long, value_name = "CPUS", value_parser = values::cpus)]
    pub(crate) cpu: Vec<CpuList>,

    /// Only samples whose leaf lies in one of these objects (path or file name)
    #[arg(long, alias = "dsos", value_name = "OBJECT", value_delimiter = ',')]
    pub(crate) dso: Vec<String>,

    /// Only samples whose leaf is one of these functions; repeatable
    #[arg(long, alias = "symbols", value_name = "FUNCTION")]
    pub(crate) symbol: Vec<String>,

    /// Only samples of this time, in seconds as `script` shows them; either end may be left out
    #[arg(long, value_name = "FROM,TO", value_parser = time_span)]
    pub(crate) time: Option<(u64, u64)>,

    /// What a sample counts for
    #[arg(long, value_name = "WHAT", default_value = "period")]
    pub(crate) weight: WeightArg,

    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
}

fn time_span(text: &str) -> Result<(u64, u64), String> {
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
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = report_format())]
    pub(crate) format: &'static Format,

    /// perf's call trees, which are told not to be here.
    #[arg(short = 'g', long, hide = true, num_args = 0..=1, default_missing_value = "")]
    pub(crate) call_graph: Option<String>,

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
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = values::percent)]
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
    /// Source file and line, from debug information
    #[value(name = "srcline")]
    SrcLine,
}

/// Offers every form of a report that there is.
fn report_format() -> impl TypedValueParser<Value = &'static Format> {
    let values = FORMATS
        .iter()
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
    #[arg(short = 'F', long, help_heading = "Output", value_name = "LIST", allow_hyphen_values = true, value_parser = rprof_script::FieldList::parse)]
    pub(crate) fields: Vec<rprof_script::FieldList>,

    /// Times with nanoseconds
    #[arg(long, help_heading = "Output")]
    pub(crate) ns: bool,

    /// At most N frames of a stack
    #[arg(long, help_heading = "Output", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_stack: Option<u32>,

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

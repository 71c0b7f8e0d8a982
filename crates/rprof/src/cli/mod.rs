//! The command line. Options have perf's names and letters where the meaning is the same.
//!
//! | module | holds |
//! |---|---|
//! | `record` | `record`, sampling and output options |
//! | `stat` | `stat` |
//! | `extras` | `record`: additional sample fields and records |
//! | `filters` | `--filter`, with the events before it |
//! | `target` | target processes, threads and CPUs |
//! | `flamegraph`, `html` | `flamegraph`, `html` |
//! | `annotate`, `diff`, `gate`, `top` | the commands of these names |
//! | `push` | `push` |
//! | `reading` | commands that read recordings, and their filters |
//! | `symbols` | symbol lookup and demangling |
//! | `list`, `doctor`, `demo`, `pages` | the commands of these names; `completions` and `man` |
//! | `groups` | the list of commands in `rprof --help` |
//! | `short_help` | the help text of `-h` |
//! | `suggested` | values that shells complete |
//! | `time_span` | time ranges relative to the start or end of a recording |
//! | `values` | parsers of sizes, times and lists |
//! | `elsewhere` | commands and options of other tools, with their rprof equivalents |
//! | `parsing` | arguments to [`Cli`], with forms that perf accepts and clap does not |

mod annotate;
mod demo;
mod diff;
mod doctor;
mod elsewhere;
mod explain;
mod extras;
mod filters;
mod flamegraph;
mod gate;
mod groups;
#[cfg(test)]
mod help_tests;
mod html;
mod list;
mod memory;
mod pages;
mod parsing;
mod push;
mod reading;
mod record;
mod short_help;
mod stat;
mod suggested;
mod symbols;
mod target;
mod time_span;
mod top;
mod values;
mod waits;

pub(crate) use annotate::{
    AnnotateArgs, AnnotateFormat, InlinedArg, PartsArg, PercentArg, SyntaxArg,
};
pub(crate) use demo::{DemoArgs, WorkloadArgs};
pub(crate) use diff::{DiffArgs, DiffSort, JudgingArgs, ScopeArg, ShownArgs, ToldArgs};
pub(crate) use doctor::DoctorArgs;
pub(crate) use explain::ExplainArgs;
pub(crate) use flamegraph::{FlamegraphArgs, PictureArgs};
pub(crate) use gate::GateArgs;
pub(crate) use html::HtmlArgs;
pub(crate) use list::ListArgs;
pub(crate) use memory::{MemoryArgs, MemoryMoment};
pub(crate) use pages::{CompletionsArgs, ManArgs};
pub(crate) use parsing::{command, readers_of_profiles};
pub(crate) use push::{AccessArgs, LimitArgs, PushArgs};
pub(crate) use reading::{
    CollapseArgs, Color, ExportArgs, FilterArgs, HeaderArgs, HeaderFormat, InputArgs, LabelArg,
    ReportArgs, SampleFilterArgs, ScriptArgs, SortKey, TaskFilterArgs, WeightArg,
};
pub(crate) use record::{DUMP_BYTES, OutputArgs, RecordArgs, SamplingArgs};
pub(crate) use stat::{PerArg, StatArgs, StatFormat, YesNo};
pub(crate) use symbols::{DemangleArg, SymbolArgs};
pub(crate) use target::TargetArgs;
pub(crate) use top::{TopArgs, TopFormat};
pub(crate) use values::{CallGraph, Frequency, Keep, Limit, SwitchAt, percentage};
pub(crate) use waits::WaitArgs;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Parser, Subcommand};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default());

/// A sampling profiler for Linux.
///
/// Records where a program spends its time, as a perf.data file that perf can also read, and shows
/// it as a table or a flame graph.
#[derive(Debug, Parser)]
#[command(name = "rprof", version, styles = STYLES, max_term_width = 100)]
#[command(
    after_help = "Start with `rprof demo`, then `rprof record -- COMMAND` and `rprof report`."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Record(RecordArgs),
    Report(ReportArgs),
    Annotate(AnnotateArgs),
    Top(Box<TopArgs>),
    Stat(Box<StatArgs>),
    Flamegraph(Box<FlamegraphArgs>),
    Html(Box<HtmlArgs>),
    Diff(Box<DiffArgs>),
    Gate(Box<GateArgs>),
    Explain(ExplainArgs),
    Collapse(CollapseArgs),
    Export(ExportArgs),
    Push(Box<PushArgs>),
    Script(ScriptArgs),
    Header(HeaderArgs),
    List(ListArgs),
    Doctor(DoctorArgs),
    Demo(DemoArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
    #[command(hide = true)]
    DemoWorkload(WorkloadArgs),
}

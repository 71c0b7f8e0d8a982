//! The command line. Names and letters are perf's where the meaning is the same.
//!
//! | module | holds |
//! |---|---|
//! | `record` | `record`, and how to sample |
//! | `target` | what to watch |
//! | `flamegraph` | `flamegraph` |
//! | `reading` | the commands that read recordings, and their filters |
//! | `symbols` | how functions are named |
//! | `values` | sizes, times and lists as they are typed |

mod flamegraph;
mod reading;
mod record;
mod symbols;
mod target;
mod values;

pub(crate) use flamegraph::FlamegraphArgs;
pub(crate) use reading::{
    CollapseArgs, Color, FilterArgs, Format, HeaderArgs, HeaderFormat, InputArgs, ReportArgs,
    RowArgs, ScriptArgs, SortKey, WeightArg,
};
pub(crate) use record::{DUMP_BYTES, OutputArgs, RecordArgs, SamplingArgs};
pub(crate) use symbols::{DemangleArg, SymbolArgs};
pub(crate) use target::TargetArgs;
pub(crate) use values::{CallGraph, Frequency, SwitchAt};

use std::ffi::OsString;
use std::path::PathBuf;

use crate::list::ListArgs;
use clap::builder::styling::{AnsiColor, Styles};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};

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
    Flamegraph(Box<FlamegraphArgs>),
    Collapse(CollapseArgs),
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

impl Cli {
    /// Reads the process's own arguments. Wrong ones end it with exit status 2.
    pub(crate) fn from_arguments() -> Cli {
        let mut command = with_negations(command());
        let mut arguments: Vec<OsString> = std::env::args_os().collect();
        let matches = loop {
            match command.try_get_matches_from_mut(&arguments) {
                Err(e) if e.kind() == ErrorKind::UnknownArgument && part_level(&mut arguments) => {}
                other => break other,
            }
        };
        matches
            .and_then(|matches| Cli::from_arg_matches(&matches))
            .map_err(|e| e.format(&mut command))
            .unwrap_or_else(|e| e.exit())
    }
}

/// Makes `-z=9` of a first `-z9`, which perf takes and clap does not: it would take `-z 9` then
/// as well, and a COMMAND for a level. Says whether there was one.
///
/// Only where the arguments are wrong as they are: a COMMAND may have a `-z9` of its own.
fn part_level(arguments: &mut [OsString]) -> bool {
    let level = |arg: &OsString| {
        let digits = arg.to_str()?.strip_prefix("-z")?;
        let is_level = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        is_level.then(|| format!("-z={digits}").into())
    };
    let ours = arguments.iter_mut().take_while(|arg| *arg != "--");
    let found = ours.filter_map(|arg| level(arg).map(|level| *arg = level));
    found.take(1).count() > 0
}

/// The command line as it is described to users.
pub(crate) fn command() -> clap::Command {
    // There -i is the input, and these long names are filters.
    Cli::command().mut_subcommand("flamegraph", |flamegraph| {
        ["processes", "threads", "cpus"]
            .into_iter()
            .fold(flamegraph, |c, id| c.mut_arg(id, |arg| arg.long(None)))
            .mut_arg("no_inherit", |arg| arg.short(None))
    })
}

/// The same with `--no-X` for each `--X` without a value; the one that comes last counts.
fn with_negations(command: clap::Command) -> clap::Command {
    command.mut_subcommands(|command| {
        let negations: Vec<Arg> = (command.get_arguments())
            .filter(|arg| matches!(arg.get_action(), ArgAction::SetTrue))
            .filter_map(|arg| Some((arg.get_id().clone(), arg.get_long()?)))
            .filter(|(_, long)| {
                let twin = format!("no-{long}");
                let has_twin = command.get_arguments().any(|a| a.get_long() == Some(&twin));
                !long.starts_with("no-") && !has_twin
            })
            .map(|(id, long)| {
                let name = format!("no-{long}");
                (Arg::new(name.clone()).long(name).hide(true))
                    .action(ArgAction::SetTrue)
                    .overrides_with(id)
            })
            .collect();
        command.args(negations)
    })
}

/// Tells whether this user may profile here, and what stands in the way.
///
/// The exit status is 0 only if `rprof record -g` would work.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Form of the output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: HeaderFormat,

    /// Colour the states
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
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

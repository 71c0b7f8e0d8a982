//! Arguments of `top`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};

use super::reading::Color;
use super::record::SamplingArgs;
use super::symbols::SymbolArgs;
use super::target::TargetArgs;
use super::values;

/// Shows the functions that take time now, on the whole screen of the terminal.
///
/// The default target is the whole system, or your processes if you lack the permission. Columns
/// show self and total for the last seconds and since the start. Space pauses, `w` switches to
/// everything since the start, `z` counts from zero, `W` writes the last seconds as perf.data; `?`
/// lists the keys. If standard output is not a terminal, rprof prints a table for each interval,
/// as with --batch.
#[derive(Debug, Args)]
#[command(mut_arg("duration", |argument| argument.short(None)))]
pub(crate) struct TopArgs {
    /// Command to run and watch, with its arguments; without a terminal while the screen is in use;
    /// `q` ends it
    #[arg(trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,

    #[command(flatten)]
    pub(crate) target: TargetArgs,

    #[command(flatten)]
    pub(crate) shown: LookArgs,

    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,

    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
}

/// Display options.
#[derive(Debug, Args)]
#[command(next_help_heading = "View")]
pub(crate) struct LookArgs {
    /// Refresh interval in seconds, or with a unit such as 500ms
    #[arg(short = 'd', long, value_name = "SECONDS", default_value = "2", value_parser = refresh)]
    pub(crate) refresh: Duration,

    /// Length of the time window [default: 10 s on the screen, one interval with --batch]
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds)]
    pub(crate) window: Option<Duration>,

    /// Print a table for each interval, instead of the whole screen
    #[arg(short = 'b', long)]
    pub(crate) batch: bool,

    /// Stop after N intervals; implies --batch
    #[arg(short = 'n', long = "intervals", value_name = "N", value_parser = values::number::<u64>(1..))]
    pub(crate) intervals: Option<u64>,

    /// Output format; `json` prints one line per interval and implies --batch
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: TopFormat,

    /// Print at most N rows, 0 for all [default: 20; all with --format json]
    #[arg(short = 'E', long, value_name = "N", value_parser = values::number::<usize>(0..))]
    pub(crate) entries: Option<usize>,

    /// Sort by total: time in the function and its callees
    #[arg(long)]
    pub(crate) children: bool,

    /// File that `W` writes; an existing file is renamed to FILE.old
    #[arg(short, long, value_name = "FILE", default_value = "perf.data", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopFormat {
    /// A table
    Text,
    /// JSON, stable schema
    Json,
}

/// Minimum refresh interval.
const MINIMUM: Duration = Duration::from_millis(100);

fn refresh(text: &str) -> Result<Duration, String> {
    match values::seconds(text)? {
        time if time < MINIMUM => Err("the minimum is 100ms".to_owned()),
        time => Ok(time),
    }
}

//! Arguments of `rprof gate`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::diff::{JudgingArgs, ShownArgs, ToldArgs};
use super::reading::FilterArgs;
use super::suggested::{EVENTS, STACKS, suggested, text};
use super::values;

/// Records several runs of a command and checks whether it regressed.
///
/// The base is an old command before `:::`, run alternately with the new one; or a folder of
/// recordings (--base), written by --save; or this machine's folder among several (--baseline-dir),
/// created if missing. The gate fails if something regressed by --fail-above (5% by default);
/// `rprof diff` explains the verdict. If a run fails, the gate stops without a verdict. --calibrate
/// measures the noise of this machine and the smallest detectable change.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 0 if nothing regressed, or if inconclusive (4 with --strict); 3 if something regressed; \
1 if the command or rprof failed; 2 for usage errors, or if the sides cannot be compared, such as from two machines.")]
pub(crate) struct GateArgs {
    /// Command to run, with its arguments; or two commands separated by `:::`, the old one first
    #[arg(trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,

    /// Number of runs of each command
    #[arg(long, value_name = "N", default_value = "5", value_parser = values::number::<u32>(1..=1000))]
    pub(crate) runs: u32,

    /// Folder of recordings to compare with
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) base: Option<PathBuf>,

    /// Folder with a base for each machine; use this machine's base, or create it if missing
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["base", "save"])]
    pub(crate) baseline_dir: Option<PathBuf>,

    /// With --baseline-dir, record this machine's base again
    #[arg(long, requires = "baseline_dir")]
    pub(crate) renew: bool,

    /// Save the new recordings in a folder, for --base; existing recordings are renamed to FILE.old
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) save: Option<PathBuf>,

    /// Measure noise between runs of one COMMAND, or of --base: false alarms, smallest detectable
    /// change
    #[arg(long, conflicts_with_all = ["baseline_dir", "output", "folded"])]
    pub(crate) calibrate: bool,

    /// With --calibrate, number of random splits to compare
    #[arg(long, value_name = "N", default_value = "200", value_parser = values::number::<u32>(1..=100_000))]
    pub(crate) splits: u32,

    /// With --calibrate, compare runs in pairs, as for two alternating commands
    #[arg(long, requires = "calibrate")]
    pub(crate) paired: bool,

    /// Print only the rows: no progress, no warnings, no summary
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Samples per second on each CPU, or `max`
    #[arg(short = 'F', long, help_heading = "Sampling", value_name = "N")]
    pub(crate) freq: Option<String>,

    /// Events to sample, as for record
    #[arg(short, long, help_heading = "Sampling", value_name = "EVENT", value_parser = suggested(EVENTS, text::<String>), hide_possible_values = true)]
    pub(crate) event: Vec<String>,

    /// How to record call stacks, as for record
    #[arg(long, help_heading = "Sampling", value_name = "HOW", value_parser = suggested(STACKS, text::<String>), hide_possible_values = true)]
    pub(crate) call_graph: Option<String>,

    #[command(flatten)]
    pub(crate) judging: JudgingArgs,

    #[command(flatten)]
    pub(crate) shown: ShownArgs,

    #[command(flatten)]
    pub(crate) told: ToldArgs,

    #[command(flatten)]
    pub(crate) filter: FilterArgs,
}

//! Arguments of `rprof gate`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::diff::{JudgingArgs, ShownArgs, ToldArgs};
use super::reading::FilterArgs;
use super::suggested::{EVENTS, STACKS, suggested, text};

/// Records several runs of a command and says whether it takes more than before.
///
/// Before is another command, given behind `:::`, whose runs alternate with those of the first; or a folder of recordings
/// (--base), which --save made; or the folder of this machine among several (--baseline-dir), made where there is none. What
/// takes more by --fail-above (5% by default) fails it; see `rprof diff`, whose verdict it is. A run that fails ends it:
/// nothing is judged then. --calibrate says what noise this machine has, and which changes could be seen.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 0 if nothing takes more, or it cannot be told (4 with --strict); 3 if something takes more; \
1 if the command failed or rprof did; 2 for wrong usage, or if the sides do not compare, as those of two machines.")]
pub(crate) struct GateArgs {
    /// Number of runs of each command
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) runs: u32,

    /// Folder of recordings to compare with
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) base: Option<PathBuf>,

    /// Folder with a base for each machine: compare with that of this one, or make it if there is none
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["base", "save"])]
    pub(crate) baseline_dir: Option<PathBuf>,

    /// With --baseline-dir, make the base of this machine anew
    #[arg(long, requires = "baseline_dir")]
    pub(crate) renew: bool,

    /// Keep the recordings of this time in a folder, for --base; those that it had become FILE.old
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) save: Option<PathBuf>,

    /// Compare runs of one COMMAND with each other: noise, false alarms, the smallest change that would be seen. Of recordings
    /// that are there by --base
    #[arg(long, conflicts_with_all = ["baseline_dir", "output", "folded"])]
    pub(crate) calibrate: bool,

    /// With --calibrate, number of random halves that are compared
    #[arg(long, value_name = "N", default_value = "200", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) splits: u32,

    /// With --calibrate, compare runs in pairs, as those of two commands are that run in turns
    #[arg(long, requires = "calibrate")]
    pub(crate) paired: bool,

    /// Print no progress, no warnings, and nothing above the rows
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Samples per second on each CPU, or `max`
    #[arg(short = 'F', long, help_heading = "Sampling", value_name = "N")]
    pub(crate) freq: Option<String>,

    /// Event to sample, as for record
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

    /// Command to run, with its arguments; or two with `:::` between them, the old one first
    #[arg(trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

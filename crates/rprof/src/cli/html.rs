//! Arguments of `rprof html`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::reading::SampleFilterArgs;
use super::record::SamplingArgs;
use super::target::TargetArgs;
use super::values;
use super::waits::WaitArgs;

/// Writes one HTML file that explores a recording, or records a command and writes that.
///
/// The file needs nothing but a browser: no server, no network. It has a time line by thread, process and CPU, flame graphs,
/// functions with their callers and callees, filters, search, and a link for what is shown. With -p, -a or another
/// target, that is recorded until Ctrl-C or for --duration; a COMMAND keeps its exit status.
#[derive(Debug, Args)]
pub(crate) struct HtmlArgs {
    /// HTML file to write; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "profile.html", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// Recording or folded stacks to read, without a COMMAND; several are merged, without times; `-` is standard input [default: perf.data]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["command", "all_cpus", "cgroups", "user"])]
    pub(crate) input: Vec<PathBuf>,

    /// Open the page when it is written, in the program that xdg-open finds
    #[arg(long)]
    pub(crate) open: bool,

    /// Title at the top [default: the command, or what else was recorded]
    #[arg(long)]
    pub(crate) title: Option<String>,

    /// Recording or folded stacks before, with which the page compares
    #[arg(long, value_name = "OLD", value_hint = ValueHint::FilePath)]
    pub(crate) diff: Option<PathBuf>,

    /// Leave out times and CPUs of samples, and with them the time line
    #[arg(long)]
    pub(crate) no_timeline: bool,

    /// Leave out source lines, which take time to be found
    #[arg(long)]
    pub(crate) no_lines: bool,

    /// Put source lines and instructions of the N functions with most self into the page, without the text of the sources
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=200))]
    pub(crate) annotate: Option<u16>,

    /// Put the text of those source lines into the page as well: whoever gets it can read them
    #[arg(long, requires = "annotate")]
    pub(crate) with_source: bool,

    /// Size that the page should not exceed, such as `10M`: times, lines and small frames are left out as needed, and
    /// that is told
    #[arg(long, value_name = "SIZE", default_value = "10M", value_parser = values::file_size)]
    pub(crate) max_size: u64,

    #[command(flatten)]
    pub(crate) waits: WaitArgs,

    #[command(flatten)]
    pub(crate) filter: SampleFilterArgs,

    #[command(flatten)]
    pub(crate) target: TargetArgs,

    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,

    /// Command to run and record, with its arguments; or recordings and folded stacks to show, as with -i
    #[arg(trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

//! Arguments of `rprof html`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::flamegraph::PictureArgs;
use super::values;

/// Writes an HTML page to explore a recording, or a command that it records first.
///
/// The page needs only a browser: no server, no network. It has a timeline by thread, process and
/// CPU, flame graphs, functions with callers and callees, filters, search, and links to the current
/// view. With -p, -a or another target, records until Ctrl-C or for --duration. Returns the exit
/// status of a COMMAND.
#[derive(Debug, Args)]
pub(crate) struct HtmlArgs {
    /// Command to run and record, with its arguments; or files to show, as with -i
    #[arg(trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,

    /// HTML file to write; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "profile.html", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// Recording or profile of another tool (such as folded stacks) to read; several are merged, without times; `-` is standard input [default: perf.data]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["command", "all_cpus", "cgroups", "user"])]
    pub(crate) input: Vec<PathBuf>,

    /// Old recording or profile to compare with
    #[arg(long, value_name = "OLD", value_hint = ValueHint::FilePath)]
    pub(crate) diff: Option<PathBuf>,

    /// Omit times and CPUs of samples, and so the timeline
    #[arg(long)]
    pub(crate) no_timeline: bool,

    /// Omit source lines, which are slow to look up
    #[arg(long)]
    pub(crate) no_lines: bool,

    /// Include line numbers and instructions of the N functions with most self, without the text of
    /// the sources
    #[arg(long, value_name = "N", value_parser = values::number::<u16>(1..=200))]
    pub(crate) annotate: Option<u16>,

    /// Include the text of these source lines too; every reader of the page can see it
    #[arg(long, requires = "annotate")]
    pub(crate) with_source: bool,

    /// Page size to stay below if possible, such as `10M`; times, lines and small frames are
    /// dropped as needed, with a message
    #[arg(long, alias = "max-size", value_name = "SIZE", default_value = "10M", value_parser = values::file_size)]
    pub(crate) page_size: u64,

    #[command(flatten)]
    pub(crate) picture: PictureArgs,
}

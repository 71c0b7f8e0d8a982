//! Arguments of `rprof flamegraph`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use rprof_export::svg::Colors;

use super::reading::SampleFilterArgs;
use super::record::SamplingArgs;
use super::suggested::{PALETTES, suggested, text};
use super::target::TargetArgs;
use super::values;
use super::waits::WaitArgs;

/// Draws a flame graph of a recording, or of a command that it records first.
///
/// Records a COMMAND with call stacks and returns its exit status: in CI, run `rprof flamegraph --
/// make`. With -p, -a or another target, records until Ctrl-C or for --duration.
#[derive(Debug, Args)]
pub(crate) struct FlamegraphArgs {
    /// Command to run and record, with its arguments; or files to draw, as with -i
    #[arg(trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,

    /// SVG file to write; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "flamegraph.svg", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// Recording or profile of another tool (such as folded stacks) to read; several are merged; `-` is standard input [default: perf.data]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["command", "all_cpus", "cgroups", "user"])]
    pub(crate) input: Vec<PathBuf>,

    /// Line under the title [default: samples, time, host and quality]
    #[arg(long)]
    pub(crate) subtitle: Option<String>,

    /// Draw callees below their callers, the root at the top (the default)
    #[arg(long, overrides_with = "no_inverted")]
    pub(crate) inverted: bool,

    /// Draw callees above their callers, the root at the bottom
    #[arg(long, overrides_with = "inverted")]
    pub(crate) no_inverted: bool,

    /// Merge stacks from the innermost function outwards
    #[arg(long)]
    pub(crate) reverse: bool,

    /// Colours of frames: `kind` (user, inlined, kernel, JIT, unnamed, waiting, waiting for a CPU,
    /// idle), or a palette such as hot, mem, io, rust, java or aqua
    #[arg(long, value_name = "PALETTE", default_value = "kind", value_parser = suggested(PALETTES, text::<Colors>), hide_possible_values = true)]
    pub(crate) colors: Colors,

    /// Merge threads with names that match PATTERN (`*`, `?`); repeatable. Names that differ only
    /// in numbers, such as `worker-1` and `worker-2`, are merged by default
    #[arg(long, value_name = "PATTERN", overrides_with = "no_merge_threads")]
    pub(crate) merge_threads: Vec<String>,

    /// Do not merge threads of different names
    #[arg(long, overrides_with = "merge_threads")]
    pub(crate) no_merge_threads: bool,

    /// Omit frames narrower than this share of the width
    #[arg(long, value_name = "PERCENT", default_value = "0.01", value_parser = values::percent)]
    pub(crate) min_width: f64,

    /// Width in pixels [default: the window's width]
    #[arg(long, value_name = "PIXELS", value_parser = values::number::<u32>(200..=100_000))]
    pub(crate) width: Option<u32>,

    #[command(flatten)]
    pub(crate) picture: PictureArgs,
}

/// Options of the commands that draw a recording, or a command that they record first.
#[derive(Debug, Args)]
pub(crate) struct PictureArgs {
    /// Open the finished file with xdg-open
    #[arg(long)]
    pub(crate) open: bool,

    /// Title at the top [default: the recorded command or target]
    #[arg(long)]
    pub(crate) title: Option<String>,

    #[command(flatten)]
    pub(crate) waits: WaitArgs,

    #[command(flatten)]
    pub(crate) filter: SampleFilterArgs,

    #[command(flatten)]
    pub(crate) target: TargetArgs,

    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
}

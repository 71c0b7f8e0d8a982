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

/// Draws a flame graph of a recording, or records a command and draws that.
///
/// A COMMAND is recorded with call stacks, and its exit status is kept, so that `rprof flamegraph -- make`
/// is all that CI needs. With -p, -a or another target, that is recorded until Ctrl-C or for --duration.
#[derive(Debug, Args)]
pub(crate) struct FlamegraphArgs {
    /// SVG file to write; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "flamegraph.svg", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// Recording or folded stacks to read, without a COMMAND; several are merged; `-` is standard input [default: perf.data]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["command", "all_cpus", "cgroups", "user"])]
    pub(crate) input: Vec<PathBuf>,

    /// Open the SVG when it is written, in the program that xdg-open finds
    #[arg(long)]
    pub(crate) open: bool,

    /// Title at the top [default: the command, or what else was recorded]
    #[arg(long)]
    pub(crate) title: Option<String>,

    /// Line under the title [default: samples, time, host and the verdict]
    #[arg(long)]
    pub(crate) subtitle: Option<String>,

    /// Draw callees below their callers, the root at the top; the default
    #[arg(long, overrides_with = "no_inverted")]
    pub(crate) inverted: bool,

    /// Draw flames: callees above their callers, the root at the bottom
    #[arg(long, overrides_with = "inverted")]
    pub(crate) no_inverted: bool,

    /// Merge stacks by their innermost functions, with callers above
    #[arg(long)]
    pub(crate) reverse: bool,

    /// Colour frames by their kind (user, inlined, kernel, JIT, unnamed, waiting, waiting for a CPU, idle), or by a
    /// palette such as hot, mem, io, rust, java or aqua
    #[arg(long, value_name = "PALETTE", default_value = "kind", value_parser = suggested(PALETTES, text::<Colors>), hide_possible_values = true)]
    pub(crate) colors: Colors,

    /// Draw threads whose names match PATTERN (`*`, `?`) as one; repeatable. Names that differ in
    /// numbers only, as `worker-1` and `worker-2`, are one in any case
    #[arg(long, value_name = "PATTERN", overrides_with = "no_merge_threads")]
    pub(crate) merge_threads: Vec<String>,

    /// Draw threads of different names apart
    #[arg(long, overrides_with = "merge_threads")]
    pub(crate) no_merge_threads: bool,

    /// Leave out frames narrower than this share of the width
    #[arg(long, value_name = "PERCENT", default_value = "0.01", value_parser = values::percent)]
    pub(crate) min_width: f64,

    /// Width in pixels [default: that of the window]
    #[arg(long, value_name = "PIXELS", value_parser = clap::value_parser!(u32).range(200..=100_000))]
    pub(crate) width: Option<u32>,

    #[command(flatten)]
    pub(crate) waits: WaitArgs,

    #[command(flatten)]
    pub(crate) filter: SampleFilterArgs,

    #[command(flatten)]
    pub(crate) target: TargetArgs,

    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,

    /// Command to run and record, with its arguments; or recordings and folded stacks to draw, as with -i
    #[arg(trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

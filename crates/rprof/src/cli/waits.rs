//! Arguments for waits of threads, and for other weights than CPU time.

use clap::Args;
use rprof_profile::RequestKey;
use rprof_profile::waits::reasons::{RUNNING, WORDS};

use super::memory::MemoryArgs;
use super::suggested::{suggested, text};
use super::values;

/// Options of `rprof record` for waits.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct OffCpuArgs {
    /// Record waits of threads with duration and reason, as the event offcpu-time; waits shorter
    /// than 1/HZ seconds are summed per stack [default HZ: 1000]
    ///
    /// Without -e, also samples cpu-clock, so that CPU time and waits have the same unit (`rprof
    /// report --wall`).
    #[arg(long, visible_alias = "wall", value_name = "HZ", num_args = 0..=1, require_equals = true, default_missing_value = "1000", value_parser = values::number::<u32>(1..=1_000_000))]
    pub(crate) off_cpu: Option<u32>,

    /// Limit for recording context switches, in percent of a CPU's time; above it, switches are
    /// recorded in windows, and times extrapolated; 100 records all [default: 2]
    #[arg(long, value_name = "PERCENT", requires = "off_cpu", value_parser = values::number::<u32>(1..=100))]
    pub(crate) off_cpu_budget: Option<u32>,

    /// Record the thread that ended each wait, as a frame below its reason ([woken by NAME]), and
    /// the delay until the woken thread runs; needs root, or CAP_PERFMON and a readable tracefs
    #[arg(long, requires = "off_cpu")]
    pub(crate) wakers: bool,

    /// Record context switches for `report --latency`, and for --latency of other commands; without
    /// stacks
    #[arg(long)]
    pub(crate) latency: bool,
}

/// Options for waits and memory in commands that show recordings.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WaitArgs {
    /// Show waits and their reasons instead of CPU time
    #[arg(long, help_heading = "Waits")]
    pub(crate) off_cpu: bool,

    /// Show wall-clock time of threads: CPU time and waits
    #[arg(long, help_heading = "Waits", conflicts_with = "off_cpu")]
    pub(crate) wall: bool,

    /// Only waits with these reasons: futex, disk, socket, cpu (waiting for a CPU), kernel-lock,
    /// idle and others; running is CPU time. Implies --off-cpu unless --wall or running is given
    #[arg(long, help_heading = "Waits", value_name = "REASON", value_delimiter = ',', value_parser = suggested(WORDS, text::<String>), hide_possible_values = true)]
    pub(crate) reason: Vec<String>,

    // Not a doc comment, because rustdoc would make the brackets a link.
    #[arg(
        long,
        help = "Show waits of idle threads by stack, not as one block [idle]",
        help_heading = "Waits"
    )]
    pub(crate) no_fold_idle: bool,

    /// Group samples by request instead of by thread: `trace`, `span`, or an attribute such as
    /// http.route; needs a recording of `record --requests`
    #[arg(long, help_heading = "Filters", value_name = "KEY", value_parser = values::request_key)]
    pub(crate) by: Option<RequestKey>,

    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

impl WaitArgs {
    pub(crate) fn is_given(&self) -> bool {
        self.off_cpu || self.wall || !self.reason.is_empty()
    }

    pub(crate) fn wants_running(&self) -> bool {
        self.reason.iter().any(|word| word == RUNNING)
    }

    pub(crate) fn shows_waits_alone(&self) -> bool {
        self.off_cpu || !(self.wall || self.reason.is_empty() || self.wants_running())
    }
}

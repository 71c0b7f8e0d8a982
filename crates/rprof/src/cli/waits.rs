//! Arguments for where threads wait.

use clap::Args;
use rprof_profile::reasons::{RUNNING, WORDS};

use super::suggested::{suggested, text};

/// Options of `rprof record` for waits.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct OffCpuArgs {
    /// Record where threads wait, and for how long, as the event offcpu-time; short waits of one stack are added up
    /// to 1/HZ seconds [default HZ: 1000]
    ///
    /// Without -e, cpu-clock is sampled beside it, so that time on CPUs and waits have one unit (`rprof report --wall`).
    #[arg(long, visible_alias = "wall", value_name = "HZ", num_args = 0..=1, require_equals = true, default_missing_value = "1000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) off_cpu: Option<u32>,

    /// Percent of a CPU's time that recording switches of threads may take; where there are more, they are recorded in
    /// windows, which stand for the gaps between them; 100 records all [default: 2]
    #[arg(long, value_name = "PERCENT", requires = "off_cpu", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) off_cpu_budget: Option<u32>,

    /// Record who ended each wait, as a frame below its reason ([woken by NAME]), and how long the thread then waited for a CPU;
    /// takes root, or CAP_PERFMON and a readable tracefs
    #[arg(long, requires = "off_cpu")]
    pub(crate) wakers: bool,
}

/// Options of commands that show recordings for waits.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WaitArgs {
    /// Show where threads waited, and what for, in place of where they ran
    #[arg(long, help_heading = "Waits")]
    pub(crate) off_cpu: bool,

    /// Show what threads did with all of their time: where they ran and where they waited
    #[arg(long, help_heading = "Waits", conflicts_with = "off_cpu")]
    pub(crate) wall: bool,

    /// Only waits for these, as their innermost frames have them: futex, disk, socket, cpu (waiting for one), kernel-lock and so
    /// on, idle; running is time on a CPU. Without --wall and running, as with --off-cpu
    #[arg(long, help_heading = "Waits", value_name = "REASON", value_delimiter = ',', value_parser = suggested(WORDS, text::<String>), hide_possible_values = true)]
    pub(crate) reason: Vec<String>,

    // Not a doc comment, in which the brackets would be a link.
    #[arg(
        long,
        help = "Show the waits of idle threads apart, not as one block [idle]",
        help_heading = "Waits"
    )]
    pub(crate) no_fold_idle: bool,
}

impl WaitArgs {
    /// Returns true if waits are to be shown.
    pub(crate) fn is_given(&self) -> bool {
        self.off_cpu || self.wall || !self.reason.is_empty()
    }

    /// Returns true if time on CPUs is asked for by its word.
    pub(crate) fn wants_running(&self) -> bool {
        self.reason.iter().any(|word| word == RUNNING)
    }

    /// Returns true if waits alone are to be shown.
    pub(crate) fn shows_waits_alone(&self) -> bool {
        self.off_cpu || !(self.wall || self.reason.is_empty() || self.wants_running())
    }
}

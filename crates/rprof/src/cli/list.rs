//! Arguments of `rprof list`.

use clap::Args;

use super::HeaderFormat;

/// Lists events, and whether they work on this machine.
///
/// A WORD is a kind (hardware, software, cache, raw, pmu, tracepoint, breakpoint, probe), a pattern
/// such as `sched:*`, or a part of a name. Lists events that match one of the kinds and one of the
/// names.
///
/// The column HERE is `yes` if the event can be sampled, `count` if it can only be counted (`rprof
/// stat`), `denied` if you lack the permission, `no` if this machine does not have it, and `-` if
/// it depends on values that you fill in.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Kind, pattern, or part of a name [default: all events]
    #[arg(value_name = "WORD")]
    pub(crate) words: Vec<String>,

    /// Only events that can be sampled here
    #[arg(long)]
    pub(crate) available: bool,

    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: HeaderFormat,
}

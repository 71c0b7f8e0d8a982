//! `list`.

use clap::Args;

use super::HeaderFormat;

/// Lists the events that can be recorded, and whether they work here.
///
/// Words are kinds (hardware, software, cache, raw, pmu, tracepoint, breakpoint, probe),
/// patterns such as `sched:*`, or parts of names; of several kinds or names, either will do.
///
/// HERE is `yes` for what can be sampled, `count` for what can only be counted (by perf stat),
/// `denied` for what this user may not, `no` for what this machine does not have, and `-` where
/// that depends on what is filled in.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Kinds, patterns, or parts of names; without any, everything
    #[arg(value_name = "WORD")]
    pub(crate) words: Vec<String>,

    /// Only what can be sampled here
    #[arg(long)]
    pub(crate) available: bool,

    /// Form of the output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: HeaderFormat,
}

//! Arguments for resident and requested memory.

use clap::{Args, ValueEnum};

/// Options of commands that show recordings of memory.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct MemoryArgs {
    /// Moment of a recording made with `record --memory` or `--alloc` [default: end]
    #[arg(long, help_heading = "Memory", value_name = "WHEN", value_enum, conflicts_with_all = ["event", "off_cpu", "wall", "reason"])]
    pub(crate) at: Option<MemoryMoment>,
}

/// Value of `--at`: moment of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MemoryMoment {
    /// Memory that was resident, or not released, at the end
    End,
    /// Memory that was resident, or not released, when most was
    Peak,
    /// All memory that ever became resident or was requested, given back or not
    Ever,
}

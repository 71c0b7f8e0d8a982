//! What there is to know at the end.

use crate::drain::DrainCounts;
use rprof_perf_event::Count;

/// Counts at the end of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FinalCounts {
    /// One entry for each CPU, in the order of [`Session::cpus`](crate::Session::cpus).
    pub cpus: Vec<CpuCounts>,
}

/// What there is to know of one CPU at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuCounts {
    /// The CPU.
    pub cpu: u32,
    /// A reading of each sample event, in the order of [`Session::events`](crate::Session::events).
    pub events: Vec<Count>,
    /// A reading of the sideband event: its `lost` says how many mappings and names are missing.
    pub sideband: Count,
    /// What the drain thread did.
    pub drain: DrainCounts,
}

impl FinalCounts {
    /// Samples dropped in full rings, on all CPUs; `None` when the kernel does not tell.
    ///
    /// More than the sum of all LOST records by those that were dropped last, after which
    /// no record could be written any more.
    pub fn lost_samples(&self) -> Option<u64> {
        let events = self.cpus.iter().flat_map(|cpu| &cpu.events);
        events.map(|count| count.lost).sum()
    }

    /// Sideband records dropped in full rings, on all CPUs; `None` when the kernel does not tell.
    pub fn lost_sideband(&self) -> Option<u64> {
        self.cpus.iter().map(|cpu| cpu.sideband.lost).sum()
    }
}

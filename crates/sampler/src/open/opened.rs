//! Open events of a session, as data.

use crate::trace_area::TraceArea;
use rprof_perf_event::{BackwardRing, PerfFd, Ring};
use rprof_records::Attr;
use std::sync::Arc;

/// Purpose of an event's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Samples.
    Samples,
    /// Switches of threads: SWITCH records, and a sample of each thread that leaves its CPU, if its
    /// `exclude_kernel` is not set.
    OffCpu,
    /// Wakeups of all threads on the machine: a sample of the thread that wakes another, with the payload of
    /// `sched:sched_waking`, which says whom.
    Wakeups,
    /// Descriptions of processes: names, mappings, forks and exits.
    Sideband,
}

/// An event as it was opened: what a file needs to attribute records to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventIds {
    /// Purpose of its records.
    pub role: Role,
    /// The attr as the kernel took it.
    pub attr: Attr,
    /// Name for the file's event description, as `cpu-clock:u`.
    pub name: String,
    /// Every id its records can have: those for the first thing watched (the command, a thread, a
    /// control group) on each CPU, in the order of [`Session::cpus`](crate::Session::cpus), then
    /// those for the next. An event that is not for all CPUs has fewer.
    pub ids: Vec<u64>,
}

/// Descriptors whose rings a CPU's drain thread reads.
#[derive(Debug)]
pub(crate) struct CpuEvents {
    pub(crate) cpu: u32,
    pub(crate) samples: Arc<PerfFd>,
    pub(crate) sideband: Arc<PerfFd>,
    /// True if the descriptors hang up only when the CPU goes away.
    pub(crate) watches_cpu: bool,
}

/// Ring of one CPU in which later samples overwrite earlier ones, with the event that it is of.
#[derive(Debug)]
pub(crate) struct OverwrittenRing {
    pub(crate) event: Arc<PerfFd>,
    pub(crate) ring: BackwardRing,
}

/// Rings of one CPU.
#[derive(Debug)]
pub(crate) struct CpuRings {
    pub(crate) samples: Ring,
    pub(crate) sideband: Ring,
    /// Area of the first sample event, where that writes a trace.
    pub(crate) trace: Option<Box<dyn TraceArea>>,
}

//! Open events, as data.

use crate::trace_area::TraceArea;
use rprof_perf_event::{BackwardRing, PerfFd, Ring};
use rprof_records::{Attr, Endian, SampleLayout};
use std::sync::Arc;

/// Purpose of an event's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Samples of an event that the user asked for.
    Samples,
    /// SWITCH records, and unless `exclude_kernel` is set, a sample of each thread that leaves its
    /// CPU.
    OffCpu,
    /// Wakeups of all threads: samples of the waking thread. The `sched:sched_waking` payload names
    /// the woken one.
    Wakeups,
    /// Thread and process contexts of OpenTelemetry: see
    /// [`request_context`](rprof_records::request_context).
    Contexts,
    /// Process records: names, mappings, forks and exits.
    Sideband,
}

/// An opened event, with the data to attribute records to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventIds {
    /// Purpose of its records.
    pub role: Role,
    /// Attr as accepted by the kernel.
    pub attr: Attr,
    /// Name for a file's event description, such as `cpu-clock:u`.
    pub name: String,
    /// Ids of its records: of the first subject (the command, a thread, a control group) on each of
    /// [`Session::cpus`](crate::Session::cpus), then of the next.
    pub ids: Vec<u64>,
}

impl EventIds {
    /// Returns the sample layout of the first event with a role; of an empty attr if there is none.
    pub fn layout(events: &[EventIds], role: Role) -> SampleLayout {
        let event = events.iter().find(|event| event.role == role);
        let attr = event.map(|event| event.attr.clone()).unwrap_or_default();
        SampleLayout::new(&attr, Endian::NATIVE)
    }
}

#[derive(Debug)]
pub(crate) struct CpuEvents {
    pub(crate) cpu: u32,
    pub(crate) samples: Arc<PerfFd>,
    pub(crate) sideband: Arc<PerfFd>,
}

#[derive(Debug)]
pub(crate) struct OverwrittenRing {
    pub(crate) event: Arc<PerfFd>,
    pub(crate) ring: BackwardRing,
}

#[derive(Debug)]
pub(crate) struct CpuRings {
    pub(crate) samples: Ring,
    pub(crate) sideband: Ring,
    /// AUX area of the first sample event, if it is a trace event.
    pub(crate) trace: Option<Box<dyn TraceArea>>,
}

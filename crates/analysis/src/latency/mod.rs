//! Latency: the wall-clock time of a program, divided among the threads that were on its way.
//!
//! CPU time answers how much work a program did, latency how long it took. If four threads run for
//! one second, each has one second of CPU time, and a quarter of a second of latency. perf 6.15 has
//! the same weight (`perf report --latency`).
//!
//! ```text
//!   SWITCH, FORK and EXIT records --+
//!                                   +--> changes --> timelines: threads that run, by group and time
//!   or waits of `--off-cpu` --------+                waits of each thread, with their latency
//! ```
//!
//! A sample on a CPU weighs its period, divided by the number of running threads of its group.
//! While none runs, the time belongs to the wait that ends this standstill. So all latencies of a
//! group add up to its wall-clock time.
//!
//! A group is a process with all processes that it started while recorded.

mod changes;
mod timelines;
mod weights;

use rprof_perfdata::PerfData;
use rprof_profile::waits::is_of_waits;
use rprof_records::AttrFlags;

pub(crate) use timelines::Timelines;
pub(crate) use weights::{LatencyOptions, LatencyWeights, Moment, Share, WaitMoment};

/// Returns true if a recording shows when threads ran: by records of context switches (`record
/// --latency`, `perf record --switch-events`), or waits (`record --off-cpu`).
pub fn tells_latency(data: &PerfData) -> bool {
    has_switches(data)
        || (data.events().list())
            .iter()
            .any(|event| is_of_waits(&event.name))
}

fn has_switches(data: &PerfData) -> bool {
    let events = data.events().list();
    (events.iter()).any(|event| event.attr.flags.contains(AttrFlags::CONTEXT_SWITCH))
}

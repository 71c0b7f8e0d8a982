//! CPU time that was used, beside that which samples stand for.

use std::time::Duration;

use rprof_cpu_time::CpuTime;
use rprof_records::{Attr, AttrFlags, EventKind};
use rprof_sampler::{EventIds, FinalCounts, Role, Session};

use crate::output::Tally;

/// Shortest period of a clock event in nanoseconds (`perf_swevent_start_hrtimer` in kernel/events/core.c).
const SHORTEST_PERIOD: u64 = 10_000;

/// Configuration of `cpu-clock` and of `task-clock` (`PERF_COUNT_SW_CPU_CLOCK`, `PERF_COUNT_SW_TASK_CLOCK`).
const CLOCKS: [u64; 2] = [0, 1];

/// Returns the CPU time of a session at its end; `None` where whole CPUs were watched, which do not wait, and where no
/// clock was sampled.
pub(crate) fn measured(
    session: &Session,
    counts: &FinalCounts,
    total: &Tally,
    wall: Duration,
) -> Option<CpuTime> {
    if session.target().is_by_cpu() {
        return None;
    }
    let online = rprof_events::cpus::online().unwrap_or_default();
    let is_everywhere = session.cpus().len() >= online.len();
    let samples = total.samples + total.all_lost();
    let wall = is_everywhere.then_some(wall);
    of_counts(session.events(), counts, samples, wall, total.born)
}

/// Returns the CPU time by the counts at the end, of threads that were watched; `None` where no clock was sampled.
///
/// A clock event counts the nanoseconds for which its thread runs, whether or not a sample is taken, and those
/// of threads that have ended as well. So its count is the CPU time that was used, and samples times period
/// is what the samples stand for. The two differ where threads are short: each begins a period of its own.
fn of_counts(
    events: &[EventIds],
    counts: &FinalCounts,
    samples: u64,
    wall: Option<Duration>,
    tasks: u64,
) -> Option<CpuTime> {
    let sampled: Vec<_> = events.iter().filter(|e| e.role == Role::Samples).collect();
    let place = sampled.iter().position(|event| is_clock(&event.attr))?;
    let attr = &sampled[place].attr;
    let each = counts.cpus.iter().filter_map(|cpu| cpu.events.get(place));
    let used = each.filter_map(rprof_sampler::EventCount::value).sum();
    let period = period_ns(attr);
    let leaves_out = AttrFlags::EXCLUDE_USER | AttrFlags::EXCLUDE_KERNEL;
    let is_whole = sampled.len() == 1 && !attr.flags.intersects(leaves_out);
    Some(CpuTime {
        used: Duration::from_nanos(used),
        sampled: is_whole.then(|| Duration::from_nanos(samples.saturating_mul(period))),
        period: Duration::from_nanos(period),
        wall,
        tasks,
    })
}

fn is_clock(attr: &Attr) -> bool {
    attr.kind == EventKind::SOFTWARE && CLOCKS.contains(&attr.config)
}

/// Returns the period of a clock event: the kernel turns its frequency into a period once and for all.
fn period_ns(attr: &Attr) -> u64 {
    let period = match attr.flags.contains(AttrFlags::FREQ) {
        true => 1_000_000_000 / attr.period_or_freq.max(1),
        false => attr.period_or_freq,
    };
    period.max(SHORTEST_PERIOD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_sampler::{CpuCounts, EventCount};

    fn clock(flags: AttrFlags) -> EventIds {
        EventIds {
            role: Role::Samples,
            name: "cpu-clock".into(),
            ids: Vec::new(),
            attr: Attr {
                kind: EventKind::SOFTWARE,
                period_or_freq: 1000,
                flags: AttrFlags::FREQ | flags,
                ..Attr::default()
            },
        }
    }

    fn counts(values: &[u64]) -> FinalCounts {
        let cpus = values.iter().map(|value| {
            let sum = Some(rprof_perf_event::Reading {
                value: *value,
                ..Default::default()
            });
            CpuCounts {
                events: vec![EventCount { sum, failure: None }],
                ..CpuCounts::default()
            }
        });
        FinalCounts {
            cpus: cpus.collect(),
        }
    }

    #[test]
    fn what_was_used_is_the_count_and_what_samples_stand_for_is_their_number() {
        let wall = Some(Duration::from_secs(1));
        let of = |event| of_counts(&[event], &counts(&[300_000_000, 1]), 20, wall, 7).unwrap();
        let time = of(clock(AttrFlags::empty()));
        assert_eq!(time.used, Duration::from_nanos(300_000_001));
        assert_eq!(time.sampled, Some(Duration::from_millis(20)));
        assert_eq!(time.period, Duration::from_millis(1));
        // Half of it is not sampled at all.
        assert_eq!(of(clock(AttrFlags::EXCLUDE_KERNEL)).sampled, None);
        let mut faults = clock(AttrFlags::empty());
        faults.attr.config = 2;
        assert_eq!(of_counts(&[faults], &counts(&[1]), 1, None, 0), None);
    }

    #[test]
    fn no_period_is_shorter_than_the_kernel_has_it() {
        let mut attr = clock(AttrFlags::empty()).attr;
        attr.period_or_freq = 1_000_000;
        assert_eq!(period_ns(&attr), 10_000);
        attr.flags = AttrFlags::empty();
        assert_eq!(period_ns(&attr), 1_000_000);
    }
}

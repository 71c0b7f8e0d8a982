//! When the kernel pauses sampling, and at which rate it would not have.

use rprof_records::AttrFlags;
use rprof_sampler::{EventIds, FinalCounts, Limits, Role};

use crate::tally::Tally;

/// The kernel paused an event until its next tick, since there had been more samples in
/// this one than `perf_event_max_sample_rate` allows for. It also lowers that limit by
/// itself when samples take more than `perf_cpu_time_max_percent` of the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Throttling {
    /// How often, of all events.
    pub times: u64,
    /// The event that was paused most often.
    pub event: String,
    /// The limit now, in samples a second and CPU.
    pub limit: Option<u64>,
    /// The rate that would have been slow enough.
    pub slow_enough: Option<SlowEnough>,
}

/// A rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowEnough {
    /// Samples a second.
    Frequency(u64),
    /// Events for each sample.
    Period(u64),
}

impl Throttling {
    /// What the counts say; `None` if nothing was throttled.
    pub(crate) fn of(
        tally: &Tally,
        events: &[EventIds],
        counts: &FinalCounts,
        seconds: f64,
    ) -> Option<Throttling> {
        let times = tally.times_throttled();
        if times == 0 {
            return None;
        }
        let limit = Limits::read().max_sample_rate.filter(|limit| *limit > 0);
        let sampled = || events.iter().filter(|e| e.role == Role::Samples);
        let throttled = |event: &EventIds| -> u64 {
            let of_id = |id| tally.throttled.get(id).copied();
            event.ids.iter().filter_map(of_id).sum()
        };
        let (place, event) = (sampled().enumerate()).max_by_key(|(_, e)| throttled(e))?;
        let slow_enough = limit.map(|limit| {
            let attr = &event.attr;
            if attr.flags.contains(AttrFlags::FREQ) {
                // The limit holds for each tick by itself: leave room for jitter.
                return SlowEnough::Frequency((attr.period_or_freq.min(limit) * 9 / 10).max(1));
            }
            // The busiest CPU would have had this many events a second.
            let of_cpu = counts.cpus.iter().filter_map(|cpu| cpu.events.get(place));
            let most = of_cpu.map(|count| count.value).max().unwrap_or(0);
            let period = most as f64 / seconds.max(1e-3) / limit as f64;
            SlowEnough::Period((period.ceil() as u64).max(attr.period_or_freq * 2))
        });
        Some(Throttling {
            times,
            event: event.name.clone(),
            limit,
            slow_enough,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_records::{Attr, AttrFlags};
    use rprof_sampler::{Count, CpuCounts};

    fn of(attr: Attr, value: u64) -> Option<SlowEnough> {
        let event = EventIds {
            role: Role::Samples,
            attr,
            name: "page-faults".into(),
            ids: vec![7],
        };
        let mut tally = Tally::default();
        assert_eq!(
            Throttling::of(
                &tally,
                std::slice::from_ref(&event),
                &FinalCounts::default(),
                1.0
            ),
            None
        );
        tally.throttled.insert(7, 3);
        let counts = FinalCounts {
            cpus: vec![CpuCounts {
                events: vec![Count {
                    value,
                    ..Count::default()
                }],
                ..CpuCounts::default()
            }],
        };
        let throttling = Throttling::of(&tally, &[event], &counts, 2.0)?;
        assert_eq!(
            (throttling.times, &throttling.event[..]),
            (3, "page-faults")
        );
        throttling.slow_enough
    }

    #[test]
    fn the_rate_is_below_the_limit() {
        let Some(limit) = Limits::read().max_sample_rate else {
            return;
        };
        let by_frequency = Attr {
            period_or_freq: 1_000_000,
            flags: AttrFlags::FREQ,
            ..Attr::default()
        };
        assert_eq!(
            of(by_frequency, 0),
            Some(SlowEnough::Frequency(limit * 9 / 10))
        );
        let by_period = Attr {
            period_or_freq: 1,
            ..Attr::default()
        };
        // Ten times the limit, for two seconds.
        assert_eq!(of(by_period, limit * 20), Some(SlowEnough::Period(10)));
    }
}

//! [`Throttling`]: detects that the kernel throttled sampling, and suggests a lower rate.

use rprof_perf_event::Limits;
use rprof_records::AttrFlags;
use rprof_sampler::{EventCount, EventIds, FinalCounts, Role};

use crate::output::Tally;

/// Throttling by the kernel, which pauses an event until the next tick after too many samples
/// (`perf_event_max_sample_rate`). It lowers that limit if samples take more than
/// `perf_cpu_time_max_percent` of the CPU time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Throttling {
    /// Number of THROTTLE records of all events.
    pub times: u64,
    /// The event throttled most often.
    pub event: String,
    /// The current limit, in samples per second and CPU.
    pub limit: Option<u64>,
    /// Rate that avoids throttling.
    pub suggested_rate: Option<SuggestedRate>,
}

/// A sampling rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuggestedRate {
    /// Samples per second.
    Frequency(u64),
    /// Events per sample.
    Period(u64),
}

impl Throttling {
    pub(crate) fn of(
        tally: &Tally,
        events: &[EventIds],
        counts: &FinalCounts,
        seconds: f64,
    ) -> Option<Throttling> {
        if tally.times_throttled() == 0 {
            // The usual case. Reads no files, because the user waits for the end.
            return None;
        }
        let limit = Limits::read().max_sample_rate;
        Throttling::with_limit(tally, events, counts, seconds, limit)
    }

    fn with_limit(
        tally: &Tally,
        events: &[EventIds],
        counts: &FinalCounts,
        seconds: f64,
        limit: Option<u64>,
    ) -> Option<Throttling> {
        let times = tally.times_throttled();
        if times == 0 {
            return None;
        }
        let limit = limit.filter(|limit| *limit > 0);
        let sampled = || events.iter().filter(|e| e.role == Role::Samples);
        let throttled = |event: &EventIds| -> u64 {
            let of_id = |id| tally.throttled.get(id).copied();
            event.ids.iter().filter_map(of_id).sum()
        };
        let (place, event) = (sampled().enumerate()).max_by_key(|(_, e)| throttled(e))?;
        let suggested_rate = limit.map(|limit| {
            let attr = &event.attr;
            if attr.flags.contains(AttrFlags::FREQ) {
                // The kernel checks the limit per tick, so leave room for jitter.
                return SuggestedRate::Frequency((attr.period_or_freq.min(limit) * 9 / 10).max(1));
            }
            // Event rate of the busiest CPU.
            let of_cpu = counts.cpus.iter().filter_map(|cpu| cpu.events.get(place));
            let most = of_cpu.filter_map(EventCount::value).max().unwrap_or(0);
            let period = most as f64 / seconds.max(1e-3) / limit as f64;
            SuggestedRate::Period((period.ceil() as u64).max(attr.period_or_freq * 2))
        });
        Some(Throttling {
            times,
            event: event.name.clone(),
            limit,
            suggested_rate,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_records::{Attr, AttrFlags};
    use rprof_sampler::{CpuCounts, Reading};

    const LIMIT: u64 = 1_000;

    /// Returns the suggestion after three throttles, with a limit of 1,000 and `value` events in
    /// two seconds.
    fn suggested(attr: Attr, value: u64) -> Option<SuggestedRate> {
        let event = EventIds {
            role: Role::Samples,
            attr,
            name: "page-faults".into(),
            ids: vec![7],
        };
        let mut tally = Tally::default();
        let none = FinalCounts::default();
        let untouched = Throttling::of(&tally, std::slice::from_ref(&event), &none, 1.0);
        assert_eq!(untouched, None);
        tally.throttled.insert(7, 3);
        let counts = FinalCounts {
            cpus: vec![CpuCounts {
                events: vec![EventCount {
                    sum: Some(Reading {
                        value,
                        ..Reading::default()
                    }),
                    failure: None,
                }],
                ..CpuCounts::default()
            }],
        };
        let throttling = Throttling::with_limit(&tally, &[event], &counts, 2.0, Some(LIMIT))?;
        assert_eq!(
            (throttling.times, &throttling.event[..]),
            (3, "page-faults")
        );
        throttling.suggested_rate
    }

    #[test]
    fn the_rate_is_below_the_limit() {
        let by_frequency = |period_or_freq| Attr {
            period_or_freq,
            flags: AttrFlags::FREQ,
            ..Attr::default()
        };
        for (hertz, expected) in [(1_000_000, 900), (500, 450), (1, 1)] {
            let expected = Some(SuggestedRate::Frequency(expected));
            assert_eq!(suggested(by_frequency(hertz), 0), expected, "{hertz}");
        }
        let by_period = |period_or_freq| Attr {
            period_or_freq,
            ..Attr::default()
        };
        // Ten times the limit for two seconds; the suggestion is at least twice the old period.
        for (period, expected) in [(1, 10), (100, 200)] {
            let expected = Some(SuggestedRate::Period(expected));
            assert_eq!(suggested(by_period(period), LIMIT * 20), expected);
        }
    }
}

//! [`LossAdvice`]: settings that lose fewer samples.

use rprof_records::{AttrFlags, SampleType};
use rprof_sampler::open::ring_sizes;
use rprof_sampler::{Degradation, EventIds, Role, Session};

use crate::throttling::SuggestedRate;

/// Minimum suggested ring size, if all CPUs together stay within [`MAX_OF_ALL`].
const LARGE: usize = 64 << 20;

/// Largest ring that the kernel accepts.
const LARGEST: usize = 1 << 30;

const MAX_OF_ALL: usize = 2 << 30;

/// Suggested settings after samples were lost in full rings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LossAdvice {
    /// Lower rate. `None` for fixed periods with stack copies: their samples come in bursts, and a
    /// burst of a third of them overflows the ring too.
    pub rate: Option<SuggestedRate>,
    /// Larger ring size per CPU, in bytes.
    pub ring: Option<usize>,
    /// Value of `kernel.perf_event_mlock_kb` that allows this ring, if the current one does not.
    pub mlock_kb: Option<usize>,
    /// True if samples copy the stack, which takes most of the space in a ring.
    pub copies_stacks: bool,
}

impl LossAdvice {
    pub(crate) fn of(session: &Session, lost: u64, all: u64) -> LossAdvice {
        let (ring, _) = session.ring_bytes();
        let events = session.events().iter();
        let (ring, mlock_kb) = larger_ring(ring, session.cpus().len(), session.degradations());
        LossAdvice {
            ring,
            mlock_kb,
            ..LossAdvice::of_events(events, lost, all)
        }
    }

    fn of_events<'a>(
        events: impl Iterator<Item = &'a EventIds>,
        lost: u64,
        all: u64,
    ) -> LossAdvice {
        let copies = |event: &EventIds| (event.attr.sample_type).contains(SampleType::STACK_USER);
        let sampled = events.filter(|event| event.role == Role::Samples);
        // Events with stack copies fill a ring first.
        let Some(event) = sampled.reduce(|a, b| if copies(a) { a } else { b }) else {
            return LossAdvice::default();
        };
        let comes_in_bursts = copies(event) && !event.attr.flags.contains(AttrFlags::FREQ);
        LossAdvice {
            rate: (!comes_in_bursts).then(|| lower_rate(event, lost, all)),
            copies_stacks: copies(event),
            ..LossAdvice::default()
        }
    }
}

/// Returns three quarters of the rate of kept samples.
fn lower_rate(event: &EventIds, lost: u64, all: u64) -> SuggestedRate {
    let kept = all.saturating_sub(lost).max(1) as f64 / all.max(1) as f64 * 0.75;
    let rate = event.attr.period_or_freq;
    if event.attr.flags.contains(AttrFlags::FREQ) {
        return SuggestedRate::Frequency(((rate as f64 * kept) as u64).max(1));
    }
    let period = (rate.max(1) as f64 / kept).ceil() as u64;
    SuggestedRate::Period(period.max(rate.saturating_mul(2)))
}

/// Returns a larger ring size in bytes, and the `kernel.perf_event_mlock_kb` for it if the user's
/// limit is too low.
fn larger_ring(ring: usize, cpus: usize, steps: &[Degradation]) -> (Option<usize>, Option<usize>) {
    let fair = (MAX_OF_ALL / cpus.max(1)).clamp(1, LARGEST);
    // A power of two, as rings are.
    let most = 1 << fair.ilog2();
    let larger = ring.saturating_mul(4).max(LARGE).min(most);
    if larger <= ring {
        return (None, None);
    }
    let is_short = ring == ring_sizes::UNPRIVILEGED.samples
        || (steps.iter()).any(|step| matches!(step, Degradation::RingShrunk { .. }));
    // The ring of sideband, and the control pages of both, count as well.
    let limit = (larger + (1 << 20)) / 1024;
    (Some(larger), is_short.then_some(limit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_records::Attr;

    fn event(role: Role, attr: Attr) -> EventIds {
        EventIds {
            role,
            attr,
            name: "e".into(),
            ids: vec![1],
        }
    }

    #[test]
    fn rates_are_suggested_in_the_unit_that_was_used() {
        let frequency = Attr {
            period_or_freq: 999,
            flags: AttrFlags::FREQ,
            sample_type: SampleType::STACK_USER,
            ..Attr::default()
        };
        let period = |period_or_freq| Attr {
            period_or_freq,
            ..Attr::default()
        };
        let of = |attr: Attr, lost, all| {
            let events = [
                event(Role::Sideband, Attr::default()),
                event(Role::Samples, attr),
            ];
            LossAdvice::of_events(events.iter(), lost, all)
        };
        let advice = of(frequency.clone(), 300, 1000);
        assert_eq!(advice.rate, Some(SuggestedRate::Frequency(524)));
        assert!(advice.copies_stacks);
        let all_lost = of(frequency, 1000, 1000).rate;
        assert_eq!(all_lost, Some(SuggestedRate::Frequency(1)));
        let few = of(period(1), 5, 16_501);
        assert_eq!(few.rate, Some(SuggestedRate::Period(2)));
        assert!(!few.copies_stacks);
        assert_eq!(
            of(period(100), 900, 1000).rate,
            Some(SuggestedRate::Period(1334))
        );
        assert_eq!(of(period(0), 0, 0).rate, Some(SuggestedRate::Period(2)));
        let burst = Attr {
            sample_type: SampleType::STACK_USER,
            ..period(1)
        };
        let advice = of(burst, 5, 16_501);
        assert!(advice.rate.is_none() && advice.copies_stacks);
        assert_eq!(
            LossAdvice::of_events([].iter(), 1, 2),
            LossAdvice::default()
        );
    }

    #[test]
    fn a_ring_is_suggested_that_is_larger_and_can_be_had() {
        let of = |ring, cpus| larger_ring(ring, cpus, &[]);
        assert_eq!(of(8 << 20, 2), (Some(64 << 20), None));
        assert_eq!(of(32 << 20, 2), (Some(128 << 20), None));
        assert_eq!(of(4 << 20, 100), (Some(16 << 20), None));
        assert_eq!(of(2 << 20, 4096), (None, None));
        assert_eq!(of(1 << 30, 1), (None, None));
        let (ring, limit) = of(256 << 10, 2);
        assert_eq!((ring, limit), (Some(64 << 20), Some(66_560)));
        let shrunk = Degradation::RingShrunk {
            wanted: 16 << 20,
            used: 128 << 10,
            errno: rprof_perf_event::Errno::PERM,
        };
        let (ring, limit) = larger_ring(128 << 10, 2, &[shrunk]);
        assert_eq!((ring, limit), (Some(64 << 20), Some(66_560)));
    }
}

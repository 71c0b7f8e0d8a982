//! [`MonotonicTimes`]: converts times of the samples' clock to CLOCK_MONOTONIC.

use rprof_sampler::Clock;

/// Nanoseconds between measurements of the clocks' offset. CLOCK_MONOTONIC_RAW drifts by at most
/// some hundred microseconds per second (adjtimex(2)), and the wall clock may be set.
const REFRESH: u64 = 100_000_000;

#[derive(Debug)]
pub(super) struct MonotonicTimes {
    clock: Clock,
    /// Nanoseconds by which CLOCK_MONOTONIC is ahead of the clock.
    ahead: i128,
    measured: u64,
}

impl MonotonicTimes {
    pub(super) fn new(clock: Clock) -> MonotonicTimes {
        let mut times = MonotonicTimes {
            clock,
            ahead: 0,
            measured: 0,
        };
        times.measure(Clock::MONOTONIC.now_ns());
        times
    }

    pub(super) fn of(&mut self, time: u64) -> u64 {
        if self.clock == Clock::MONOTONIC {
            return time;
        }
        let now = Clock::MONOTONIC.now_ns();
        if now.saturating_sub(self.measured) >= REFRESH {
            self.measure(now);
        }
        let monotonic = i128::from(time) + self.ahead;
        u64::try_from(monotonic.max(0)).unwrap_or(u64::MAX)
    }

    fn measure(&mut self, now: u64) {
        let before = i128::from(now);
        let there = i128::from(self.clock.now_ns());
        let after = i128::from(Clock::MONOTONIC.now_ns());
        self.ahead = (before + after) / 2 - there;
        self.measured = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_every_clock_come_to_lie_between_those_around_them() {
        for (name, clock) in Clock::NAMES {
            let mut times = MonotonicTimes::new(clock);
            let before = Clock::MONOTONIC.now_ns();
            let time = clock.now_ns();
            let monotonic = times.of(time);
            // Allow a second in case this thread is preempted.
            let lowest = before.saturating_sub(1_000_000_000);
            let highest = Clock::MONOTONIC.now_ns() + 1_000_000_000;
            assert!((lowest..=highest).contains(&monotonic), "{name}");
        }
    }

    #[test]
    fn the_clock_itself_stays_as_it_is() {
        let mut times = MonotonicTimes::new(Clock::MONOTONIC);
        assert_eq!([times.of(0), times.of(5)], [0, 5]);
    }
}

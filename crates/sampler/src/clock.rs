//! Clocks.

use rprof_perf_event::Clock;
use std::time::Duration;

/// Returns `CLOCK_MONOTONIC` in ns, the default clock of a [`Session`](crate::Session)'s records.
pub fn monotonic_ns() -> u64 {
    Clock::MONOTONIC.now_ns()
}

/// Returns the time since boot, sleep included (`CLOCK_BOOTTIME`).
pub(crate) fn since_boot() -> Duration {
    Duration::from_nanos(Clock::BOOTTIME.now_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_moves_forward() {
        let before = monotonic_ns();
        assert!(before > 0 && monotonic_ns() >= before);
    }
}

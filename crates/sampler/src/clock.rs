//! Clocks.

use rprof_perf_event::Clock;
use std::time::Duration;

/// Returns `CLOCK_MONOTONIC` in nanoseconds: the clock that stamps every record of a
/// [`Session`](crate::Session), unless another was asked for.
pub fn monotonic_ns() -> u64 {
    Clock::MONOTONIC.now_ns()
}

/// Returns the time since the machine was started, sleep included (`CLOCK_BOOTTIME`).
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

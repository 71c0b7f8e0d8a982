//! Clocks.

use rprof_perf_event::Clock;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Returns `CLOCK_MONOTONIC` in ns, the default clock of a [`Session`](crate::Session)'s records.
pub fn monotonic_ns() -> u64 {
    Clock::MONOTONIC.now_ns()
}

/// Returns the time since boot, sleep included (`CLOCK_BOOTTIME`), in this process's time
/// namespace, like the starts of processes in /proc.
pub(crate) fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    now.try_into().unwrap_or_default()
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

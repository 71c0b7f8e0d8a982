//! Clocks.

use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::Duration;

/// Returns `CLOCK_MONOTONIC` in nanoseconds: the clock that stamps every record of a
/// [`Session`](crate::Session).
pub fn monotonic_ns() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    tv_sec as u64 * 1_000_000_000 + tv_nsec as u64
}

/// Returns the time since the machine was started, sleep included (`CLOCK_BOOTTIME`).
pub(crate) fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
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

//! Clocks of records.

use rprof_launch::procfs::ClockOffsets;
use rustix::time::{ClockId, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic};
use std::str::FromStr;

/// Clock of records: `perf_event_attr.clockid`, a clock number of clock_gettime(2).
///
/// ```
/// use rprof_perf_event::Clock;
///
/// assert_eq!("mono".parse(), Ok(Clock::MONOTONIC));
/// assert!("process".parse::<Clock>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Clock(pub i32);

impl Clock {
    /// Wall clock, which may be set (`CLOCK_REALTIME`). Software events only.
    pub const REALTIME: Clock = Clock(libc::CLOCK_REALTIME);
    /// Time since boot, without suspend (`CLOCK_MONOTONIC`).
    pub const MONOTONIC: Clock = Clock(libc::CLOCK_MONOTONIC);
    /// Time since boot, without suspend and never adjusted (`CLOCK_MONOTONIC_RAW`).
    pub const MONOTONIC_RAW: Clock = Clock(libc::CLOCK_MONOTONIC_RAW);
    /// Time since boot, with suspend (`CLOCK_BOOTTIME`). Software events only.
    pub const BOOTTIME: Clock = Clock(libc::CLOCK_BOOTTIME);
    /// International atomic time (`CLOCK_TAI`). Software events only.
    pub const TAI: Clock = Clock(libc::CLOCK_TAI);

    /// Names of all clocks, as in `perf record -k`.
    pub const NAMES: [(&str, Clock); 9] = [
        ("monotonic", Clock::MONOTONIC),
        ("mono", Clock::MONOTONIC),
        ("monotonic_raw", Clock::MONOTONIC_RAW),
        ("raw", Clock::MONOTONIC_RAW),
        ("realtime", Clock::REALTIME),
        ("real", Clock::REALTIME),
        ("boottime", Clock::BOOTTIME),
        ("boot", Clock::BOOTTIME),
        ("tai", Clock::TAI),
    ];

    /// Returns the clock number: `CLOCK_*` of clock_gettime(2).
    pub fn number(self) -> i32 {
        self.0
    }

    /// Returns the first name in [`NAMES`](Self::NAMES).
    pub fn name(self) -> &'static str {
        let named = Clock::NAMES.iter().find(|(_, clock)| *clock == self);
        named.map_or("unknown", |(name, _)| name)
    }

    /// Returns true if handlers of hardware events can read the clock. The kernel accepts other
    /// clocks only for software events (`perf_event_set_clock`).
    pub fn is_safe_for_hardware(self) -> bool {
        matches!(self, Clock::MONOTONIC | Clock::MONOTONIC_RAW)
    }

    /// Returns the time of the clock as in records, in nanoseconds. In a time namespace
    /// (time_namespaces(7)), clock_gettime(2) returns another one.
    pub fn now_ns(self) -> u64 {
        let time = match self {
            Clock::REALTIME => clock_gettime(ClockId::Realtime),
            Clock::MONOTONIC_RAW => clock_gettime(ClockId::MonotonicRaw),
            Clock::BOOTTIME => clock_gettime(ClockId::Boottime),
            Clock::TAI => {
                let tai = clock_gettime_dynamic(DynamicClockId::Tai);
                tai.unwrap_or_else(|_| clock_gettime(ClockId::Realtime))
            }
            _ => clock_gettime(ClockId::Monotonic),
        };
        let ahead = match self {
            Clock::REALTIME | Clock::TAI => 0,
            Clock::BOOTTIME => ClockOffsets::own().boottime,
            _ => ClockOffsets::own().monotonic,
        };
        nanoseconds(time).saturating_add_signed(ahead.saturating_neg())
    }

    /// Returns the resolution of the clock in nanoseconds (clock_getres(2)).
    pub fn resolution_ns(self) -> u64 {
        let id = match self {
            Clock::REALTIME | Clock::TAI => ClockId::Realtime,
            Clock::MONOTONIC_RAW => ClockId::MonotonicRaw,
            Clock::BOOTTIME => ClockId::Boottime,
            _ => ClockId::Monotonic,
        };
        nanoseconds(rustix::time::clock_getres(id))
    }
}

impl Default for Clock {
    /// Returns [`Clock::MONOTONIC`], the clock of jitdumps.
    fn default() -> Clock {
        Clock::MONOTONIC
    }
}

/// Error for an unknown clock name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("valid clocks: monotonic, monotonic_raw, realtime, boottime, tai")]
pub struct UnknownClock;

impl FromStr for Clock {
    type Err = UnknownClock;

    /// Parses a name in [`Clock::NAMES`] in any case, with or without `CLOCK_`, or a clock number.
    fn from_str(text: &str) -> Result<Clock, UnknownClock> {
        let text = text.to_ascii_lowercase();
        let name = text.strip_prefix("clock_").unwrap_or(&text);
        let number: Option<i32> = name.parse().ok();
        let is_it = |(known, clock): &&(&str, Clock)| *known == name || number == Some(clock.0);
        let found = Clock::NAMES.iter().find(is_it);
        found.map(|(_, clock)| *clock).ok_or(UnknownClock)
    }
}

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clock_moves_forward_and_has_a_name() {
        for (name, clock) in Clock::NAMES {
            let before = clock.now_ns();
            assert!(before > 0 && clock.now_ns() >= before, "{name}");
            assert!(clock.resolution_ns() > 0, "{name}");
            assert_eq!(name.parse(), Ok(clock));
            assert_eq!(format!("CLOCK_{}", clock.name()).parse(), Ok(clock));
            assert_eq!(clock.number().to_string().parse(), Ok(clock));
        }
        assert_eq!("thread".parse::<Clock>(), Err(UnknownClock));
        let wrong = [Clock::REALTIME, Clock::BOOTTIME, Clock::TAI];
        assert!(wrong.iter().all(|clock| !clock.is_safe_for_hardware()));
    }

    #[test]
    fn atomic_time_is_not_the_time_of_the_day_before() {
        let (tai, day) = (Clock::TAI.now_ns(), Clock::REALTIME.now_ns());
        assert!(tai.abs_diff(day) < 60_000_000_000);
    }
}

//! [`Count`]: the count of one event, in one or several places.

use rprof_perf_event::{ReadError, Reading};

/// Minimum share of the enabled time with counting. Below 5 %, extrapolation is too unreliable.
pub const MIN_SHARE: f64 = 0.05;

/// Count of one event, summed over threads or CPUs.
///
/// The kernel multiplexes events if they need too many hardware counters. Each place's count is
/// then extrapolated from its own times, and the sum is an estimate ([`is_exact`](Self::is_exact)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Sum of the raw counts.
    pub raw: u64,
    /// Sum of the counts, extrapolated to the enabled time.
    pub estimate: u64,
    /// Enabled time in nanoseconds, summed over the places.
    pub enabled: u64,
    /// Time on a counter in nanoseconds, summed over the places.
    pub running: u64,
    /// Number of places where the event was enabled but never ran.
    pub never_ran: u32,
    /// First read error. The sum lacks its place.
    pub failure: Option<ReadError>,
}

impl Count {
    /// Adds the reading of a place.
    pub fn add(&mut self, reading: Result<Reading, ReadError>) {
        let reading = match reading {
            Ok(reading) => reading,
            Err(error) => {
                self.failure = self.failure.or(Some(error));
                return;
            }
        };
        let (enabled, running) = (reading.enabled.unwrap_or(0), reading.running.unwrap_or(0));
        self.raw = self.raw.wrapping_add(reading.value);
        self.enabled = self.enabled.saturating_add(enabled);
        self.running = self.running.saturating_add(running);
        // Never enabled, as for a thread that slept: a count of zero.
        match reading.scaled() {
            None if enabled == 0 => {}
            None => self.never_ran += 1,
            Some(scaled) => self.estimate = self.estimate.saturating_add(scaled.value),
        }
    }

    /// Subtracts a part that is counted separately.
    pub(crate) fn subtract(&mut self, part: &Count) {
        self.raw = self.raw.saturating_sub(part.raw);
        self.estimate = self.estimate.saturating_sub(part.estimate);
        self.enabled = self.enabled.saturating_sub(part.enabled);
        self.running = self.running.saturating_sub(part.running).min(self.enabled);
        // Equal counters do not start at exactly the same time.
        if part.is_exact() && self.enabled.saturating_sub(self.running) < 1_000_000 {
            self.running = self.enabled;
        }
    }

    /// Returns the counted share of the enabled time; 1 if it was never enabled.
    pub fn share(&self) -> f64 {
        match self.enabled {
            0 => 1.0,
            enabled => self.running as f64 / enabled as f64,
        }
    }

    /// Returns true if nothing is extrapolated or missing.
    pub fn is_exact(&self) -> bool {
        self.running >= self.enabled && self.never_ran == 0 && self.failure.is_none()
    }

    /// Returns the count, extrapolated if necessary; `None` after read errors, or if the counted
    /// share is below [`MIN_SHARE`].
    pub fn value(&self) -> Option<u64> {
        let is_enough = self.share() >= MIN_SHARE && self.failure.is_none();
        is_enough.then_some(self.estimate)
    }

    /// Returns the count if it is exact.
    pub fn exact(&self) -> Option<u64> {
        self.is_exact().then_some(self.raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(value: u64, enabled: u64, running: u64) -> Result<Reading, ReadError> {
        Ok(Reading {
            value,
            enabled: Some(enabled),
            running: Some(running),
            ..Reading::default()
        })
    }

    fn sum(readings: &[Result<Reading, ReadError>]) -> Count {
        let mut count = Count::default();
        readings.iter().for_each(|reading| count.add(*reading));
        count
    }

    #[test]
    fn each_place_is_scaled_by_its_own_times() {
        // Scaling the sums would give 110 * 20 / 12 = 183.
        let count = sum(&[reading(100, 10, 10), reading(10, 10, 2)]);
        assert_eq!((count.raw, count.value()), (110, Some(150)));
        assert!(!count.is_exact() && count.exact().is_none());
        assert!((count.share() - 0.6).abs() < 1e-12);
    }

    #[test]
    fn what_slept_counted_nothing_and_what_never_ran_is_unknown() {
        let slept = sum(&[reading(0, 0, 0)]);
        assert_eq!((slept.value(), slept.exact()), (Some(0), Some(0)));
        let starved = sum(&[reading(0, 10, 0)]);
        assert_eq!((starved.value(), starved.never_ran), (None, 1));
        // One twentieth is the limit for extrapolation.
        assert_eq!(sum(&[reading(7, 100, 4)]).value(), None);
        assert_eq!(sum(&[reading(7, 100, 5)]).value(), Some(140));
    }

    #[test]
    fn a_pinned_event_that_could_not_run_has_no_value() {
        let pinned = sum(&[reading(5, 10, 10), Err(ReadError::PinnedWithoutCounter)]);
        assert_eq!(
            (pinned.raw, pinned.value(), pinned.exact()),
            (5, None, None)
        );
        assert_eq!(pinned.failure, Some(ReadError::PinnedWithoutCounter));
    }
}

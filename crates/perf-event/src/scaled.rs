//! Counts extrapolated to the enabled time.

use std::fmt;

/// Count with the share of time for which it was measured.
///
/// With more events than hardware counters, the kernel multiplexes them. A share below 1 makes the
/// value an estimate: the unmeasured time was assumed similar.
///
/// ```
/// use rprof_perf_event::Reading;
///
/// let reading = Reading { value: 1000, enabled: Some(10_000), running: Some(2_500), lost: None };
/// let scaled = reading.scaled().expect("it was counted for a while");
/// assert_eq!(scaled.value, 4000);
/// assert_eq!(scaled.to_string(), "4000 (counted 25.0 % of the time)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaled {
    /// Count, or nanoseconds for clock events.
    pub value: u64,
    /// Running share of the enabled time: above 0, and 1 for an exact count. Also 1 if the read
    /// format lacks the times.
    pub share: f64,
}

impl Scaled {
    /// Extrapolates `value` from the running to the enabled time, in nanoseconds. `None` if the
    /// event was enabled but never ran.
    pub(crate) fn new(value: u64, enabled: u64, running: u64) -> Option<Scaled> {
        if running >= enabled {
            return Some(Scaled { value, share: 1.0 });
        }
        if running == 0 {
            return None;
        }
        let scaled = u128::from(value) * u128::from(enabled) / u128::from(running);
        Some(Scaled {
            value: u64::try_from(scaled).unwrap_or(u64::MAX),
            share: running as f64 / enabled as f64,
        })
    }

    /// Returns true if the event was measured for only part of the time, so that the value is an
    /// estimate.
    pub fn is_estimate(&self) -> bool {
        self.share < 1.0
    }
}

impl fmt::Display for Scaled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)?;
        match self.is_estimate() {
            true => write!(f, " (counted {:.1} % of the time)", self.share * 100.0),
            false => Ok(()),
        }
    }
}

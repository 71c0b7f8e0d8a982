//! Counts extrapolated to the whole time for which an event was enabled.

use std::fmt;

/// Count that says for which share of its time it was really counted.
///
/// When more events want hardware counters than there are, the kernel lets them take turns. A value
/// with a share below 1 is an estimate: it supposes that the rest of the time was like the
/// share that was counted.
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
    /// Number of events, or nanoseconds for the clock events.
    pub value: u64,
    /// Share of the enabled time for which the event was counted: above 0, and 1 for an exact count.
    /// It is 1 as well where the read format lacks the times.
    pub share: f64,
}

impl Scaled {
    /// Extrapolates `value` from the nanoseconds for which the event ran to those for which it was
    /// enabled; `None` if it was enabled and never ran.
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

    /// Returns true if the event was not counted all the time, so that the value is an estimate.
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

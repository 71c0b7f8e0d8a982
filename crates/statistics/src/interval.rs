//! [`Interval`]: a confidence interval.

/// Confidence interval of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

impl Interval {
    /// Returns `middle ± half_width`.
    pub fn around(middle: f64, half_width: f64) -> Interval {
        Interval {
            low: middle - half_width,
            high: middle + half_width,
        }
    }

    /// Returns true if it contains a value, bounds included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Returns true if it lies within another one, bounds excluded.
    pub fn is_inside(&self, outer: Interval) -> bool {
        outer.low < self.low && self.high < outer.high
    }

    /// Applies an increasing function to both bounds.
    pub fn map(&self, increasing: impl Fn(f64) -> f64) -> Interval {
        Interval {
            low: increasing(self.low),
            high: increasing(self.high),
        }
    }
}

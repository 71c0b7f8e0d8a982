//! [`Interval`]: a confidence interval.

/// Range in which a value lies, at a stated confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Returns the interval of this half width around a value.
    pub fn around(middle: f64, half_width: f64) -> Interval {
        Interval {
            low: middle - half_width,
            high: middle + half_width,
        }
    }

    /// Returns true if a value lies in it, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Returns true if it lies within another, ends excluded.
    pub fn is_inside(&self, outer: Interval) -> bool {
        outer.low < self.low && self.high < outer.high
    }

    /// Returns the interval with both ends sent through an increasing function.
    pub fn map(&self, increasing: impl Fn(f64) -> f64) -> Interval {
        Interval {
            low: increasing(self.low),
            high: increasing(self.high),
        }
    }
}

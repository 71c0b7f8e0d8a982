//! [`TTest`]: Welch's test and the paired test, on untransformed values.

use crate::distribution::{quantile, upper_tail};
use crate::error::MeasurementError;
use crate::interval::Interval;
use crate::measured::{differences, finite};
use crate::summary::{mean, variance};

/// Result of a t test of equal means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TTest {
    /// Mean of new minus base, in the values' unit.
    pub difference: f64,
    /// Standard error of the difference.
    pub standard_error: f64,
    /// Degrees of freedom; fractional for Welch's test.
    pub degrees_of_freedom: f64,
    /// Test statistic: difference / standard error.
    pub t: f64,
    /// Two-sided p-value.
    pub p: f64,
}

impl TTest {
    fn new(difference: f64, standard_error: f64, degrees_of_freedom: f64) -> TTest {
        let t = match difference == 0.0 {
            // Avoids 0 / 0 without spread.
            true => 0.0,
            false => difference / standard_error,
        };
        TTest {
            difference,
            standard_error,
            degrees_of_freedom,
            t,
            p: (2.0 * upper_tail(t.abs(), degrees_of_freedom)).min(1.0),
        }
    }

    /// Returns the difference's confidence interval, at a confidence such as 0.95.
    pub fn confidence_interval(&self, confidence: f64) -> Interval {
        let t = quantile(0.5 + confidence / 2.0, self.degrees_of_freedom);
        Interval::around(self.difference, t * self.standard_error)
    }
}

/// Compares the means of independent sides with possibly different spreads (Welch 1947).
///
/// # Errors
/// [`MeasurementError::TooFewRuns`] for fewer than two values on a side,
/// [`MeasurementError::NotFinite`].
pub fn welch(base: &[f64], new: &[f64]) -> Result<TTest, MeasurementError> {
    finite(base)?;
    finite(new)?;
    let share = |values: &[f64]| match variance(values) {
        Some(variance) => Ok(variance / values.len() as f64),
        None => Err(MeasurementError::TooFewRuns { runs: values.len() }),
    };
    let (a, b) = (share(base)?, share(new)?);
    let squares = a * a / (base.len() as f64 - 1.0) + b * b / (new.len() as f64 - 1.0);
    let degrees = match squares > 0.0 {
        true => (a + b).powi(2) / squares,
        false => (base.len() + new.len()) as f64 - 2.0,
    };
    Ok(TTest::new(mean(new) - mean(base), (a + b).sqrt(), degrees))
}

/// Compares pairs of runs, such as alternating ones.
///
/// # Errors
/// [`MeasurementError::NotInPairs`] for sides of different length,
/// [`MeasurementError::TooFewRuns`] for fewer than two pairs, [`MeasurementError::NotFinite`].
pub fn paired(base: &[f64], new: &[f64]) -> Result<TTest, MeasurementError> {
    finite(base)?;
    finite(new)?;
    let differences = differences(base, new)?;
    let n = differences.len();
    let variance = variance(&differences).ok_or(MeasurementError::TooFewRuns { runs: n })?;
    let error = (variance / n as f64).sqrt();
    Ok(TTest::new(mean(&differences), error, n as f64 - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Additional hours of sleep with two drugs, the same ten patients (Student 1908; `sleep` of
    /// R).
    const FIRST: [f64; 10] = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
    const SECOND: [f64; 10] = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];

    fn near(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() < 1e-4 * expected.abs(),
            "{found} {expected}"
        );
    }

    #[test]
    fn welch_is_that_of_the_manual_of_r() {
        // R, ?t.test: t = -1.8608, df = 17.776, p-value = 0.07939, interval -3.3654832 to
        // 0.2054832, with the opposite sign.
        let test = welch(&FIRST, &SECOND).unwrap();
        near(test.t, 1.8608);
        near(test.degrees_of_freedom, 17.776);
        near(test.p, 0.07939);
        let interval = test.confidence_interval(0.95);
        near(interval.low, -0.205_483_2);
        near(interval.high, 3.365_483_2);
    }

    #[test]
    fn pairs_see_more_as_in_the_manual_of_r() {
        // R: t = -4.0621, df = 9, p-value = 0.002833.
        let test = paired(&FIRST, &SECOND).unwrap();
        near(test.t, 4.0621);
        near(test.p, 0.002833);
        assert_eq!(test.degrees_of_freedom, 9.0);
    }

    #[test]
    fn sides_without_spread_differ_surely_or_not_at_all() {
        let same = welch(&[2.0, 2.0], &[2.0, 2.0]).unwrap();
        assert_eq!((same.t, same.p), (0.0, 1.0));
        let other = paired(&[2.0, 2.0], &[3.0, 3.0]).unwrap();
        assert_eq!((other.t, other.p), (f64::INFINITY, 0.0));
    }

    #[test]
    fn what_cannot_be_tested_is_an_error() {
        let few = MeasurementError::TooFewRuns { runs: 1 };
        assert_eq!(welch(&[1.0], &[1.0, 2.0]), Err(few));
        let odd = MeasurementError::NotInPairs { base: 2, new: 3 };
        assert_eq!(paired(&[1.0, 2.0], &[1.0, 2.0, 3.0]), Err(odd));
        assert!(welch(&[1.0, f64::NAN], &[1.0, 2.0]).is_err());
    }
}

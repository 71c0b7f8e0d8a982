//! [`RunSummary`]: a quantity in several runs.

use crate::distribution::quantile;
use crate::interval::Interval;

/// Summary of a quantity in several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunSummary {
    /// Number of runs with a value.
    pub runs: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median; the mean of two middle values.
    pub median: f64,
    /// Standard deviation of one run, estimated with n - 1; `None` for a single run.
    pub standard_deviation: Option<f64>,
    /// Standard error of the mean: standard deviation / √n, which `perf stat` prints after `+-`.
    /// `None` for a single run.
    pub standard_error: Option<f64>,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

impl RunSummary {
    /// Summarizes values; `None` without values, or if one is not finite.
    pub fn of(values: &[f64]) -> Option<RunSummary> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let sorted = sorted(values);
        let deviation = variance(values).map(f64::sqrt);
        Some(RunSummary {
            runs: values.len(),
            mean: mean(values),
            median: percentile(&sorted, 0.5),
            standard_deviation: deviation,
            standard_error: deviation.map(|deviation| deviation / (values.len() as f64).sqrt()),
            min: sorted[0],
            max: sorted[sorted.len() - 1],
        })
    }

    /// Returns the mean's confidence interval by Student's t, for roughly normal values; `None` for
    /// a single run.
    pub fn confidence_interval(&self, confidence: f64) -> Option<Interval> {
        let t = quantile(0.5 + confidence / 2.0, self.runs as f64 - 1.0);
        let half = t * self.standard_error?;
        (!half.is_nan()).then(|| Interval::around(self.mean, half))
    }

    /// Returns the standard error relative to the mean; `None` for a single run or mean zero.
    pub fn relative_error(&self) -> Option<f64> {
        (self.mean != 0.0).then_some(self.standard_error? / self.mean.abs())
    }
}

/// Returns the indexes of outliers: more than three interquartile ranges beyond the quartiles
/// (Tukey, *Exploratory Data Analysis*, 1977, "far out"). Needs five values.
///
/// Mark outliers, but do not drop them: slow runs also affect users.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    const MINIMUM: usize = 5;
    const FENCE: f64 = 3.0;
    if values.len() < MINIMUM || values.iter().any(|value| !value.is_finite()) {
        return Vec::new();
    }
    let sorted = sorted(values);
    let (first, third) = (percentile(&sorted, 0.25), percentile(&sorted, 0.75));
    let reach = FENCE * (third - first);
    // If half of the runs are equal, all others would be outliers.
    if reach == 0.0 {
        return Vec::new();
    }
    (values.iter().enumerate())
        .filter(|(_, value)| **value < first - reach || **value > third + reach)
        .map(|(index, _)| index)
        .collect()
}

/// Returns the arithmetic mean; NaN without values.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the variance, estimated with n - 1; `None` below two values.
pub(crate) fn variance(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    // Corrects the mean's rounding error (Chan, Golub and LeVeque 1983).
    let rest: f64 = values.iter().map(|value| value - mean).sum();
    Some(((squares - rest * rest / n) / (n - 1.0)).max(0.0))
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// Returns a linearly interpolated quantile of sorted values (type 7 of Hyndman and Fan 1996, as in
/// R and NumPy).
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let at = share * (sorted.len() - 1) as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * (at - below as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_nist() {
        // NIST StRD, univariate summary statistics, NumAcc1: certified mean 10000002, standard
        // deviation 1.
        let found = RunSummary::of(&[10_000_001.0, 10_000_003.0, 10_000_002.0]).unwrap();
        assert_eq!((found.mean, found.median), (10_000_002.0, 10_000_002.0));
        assert_eq!(found.standard_deviation, Some(1.0));
        assert_eq!((found.min, found.max), (10_000_001.0, 10_000_003.0));
        // NumAcc2, 1001 values: certified mean 1.2, standard deviation 0.1.
        let mut values = vec![1.2];
        values.extend((0..1000).map(|i| if i % 2 == 0 { 1.1 } else { 1.3 }));
        let found = RunSummary::of(&values).unwrap();
        assert!((found.mean - 1.2).abs() < 1e-13);
        assert!((found.standard_deviation.unwrap() - 0.1).abs() < 1e-13);
    }

    #[test]
    fn the_interval_is_that_of_students_sleep_data() {
        // R: t.test(sleep$extra[1:10])$conf.int, by scipy.stats.t.interval (scipy 1.17.1).
        let values = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let found = RunSummary::of(&values).unwrap();
        assert!((found.standard_deviation.unwrap() - 1.789_009_7).abs() < 1e-6);
        let interval = found.confidence_interval(0.95).unwrap();
        assert!(
            (interval.low + 0.5297804135262318).abs() < 1e-6,
            "{interval:?}"
        );
        assert!(
            (interval.high - 2.0297804135262316).abs() < 1e-6,
            "{interval:?}"
        );
    }

    #[test]
    fn one_run_has_no_spread_and_none_has_nothing() {
        let one = RunSummary::of(&[3.0]).unwrap();
        assert_eq!((one.mean, one.median, one.runs), (3.0, 3.0, 1));
        assert_eq!((one.standard_deviation, one.standard_error), (None, None));
        assert_eq!(one.confidence_interval(0.95), None);
        assert_eq!(RunSummary::of(&[]), None);
        assert_eq!(RunSummary::of(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn what_is_far_out_is_marked() {
        assert_eq!(outliers(&[10.0, 11.0, 10.5, 10.2, 10.8, 90.0]), [5]);
        assert_eq!(outliers(&[10.0, 11.0, 10.5, 10.2, 10.8, 12.0]), [0; 0]);
        assert_eq!(outliers(&[1.0, 1.0, 1.0, 1.0, 2.0]), [0; 0]);
        assert_eq!(outliers(&[1.0, 100.0]), [0; 0]);
    }
}

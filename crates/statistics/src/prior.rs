//! [`Prior`]: noise between runs, known in advance.

use crate::error::MeasurementError;
use crate::gamma::{inverse_trigamma, trigamma};
use crate::measured::{Design, Measured, Spread};
use crate::summary::{mean, variance};

/// Prior noise between runs, from a calibration, an assumption, or many quantities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    /// Variance of logarithms between runs, without sampling: (0.02)² for 2 %.
    pub run_to_run_variance: f64,
    /// Weight of the prior in degrees of freedom; 0 for none.
    pub degrees_of_freedom: f64,
    /// Part of the variance shared by a run's quantities, such as a slow phase of the machine. It
    /// was observed once per run.
    pub common_variance: f64,
}

/// Minimum noise: half a percent.
const MIN_DEVIATION: f64 = 0.005;

/// Minimum and maximum weight of an estimated prior.
const WEIGHTS: (f64, f64) = (1.0, 100.0);

/// Quantities for the variance. With four of three runs each, 14 % of comparisons of equal programs
/// had findings.
const MIN_HOTTEST: usize = 20;

impl Prior {
    /// No prior: each quantity only uses its own runs.
    pub const NONE: Prior = Prior {
        run_to_run_variance: 0.0,
        degrees_of_freedom: 0.0,
        common_variance: 0.0,
    };

    /// Noise of 5 % with the weight of nine runs, assumed for one run per side. Findings are only
    /// suspicions.
    pub const ASSUMED: Prior = Prior {
        run_to_run_variance: 0.05 * 0.05,
        degrees_of_freedom: 8.0,
        common_variance: 0.0,
    };

    /// Creates a prior from a standard deviation (0.02 for 2 %) of `runs` runs.
    pub fn calibrated(deviation: f64, runs: usize) -> Prior {
        Prior {
            run_to_run_variance: deviation.max(MIN_DEVIATION).powi(2),
            degrees_of_freedom: runs.saturating_sub(1) as f64,
            common_variance: 0.0,
        }
    }

    /// Estimates the noise from many quantities of the same runs, such as functions: each has few
    /// runs, but their noise is similar (Smyth 2004, section 6). `None` without replicates.
    ///
    /// The variance is the mean over the third with least sampling noise; outliers only count as
    /// far as chance explains. The weight reflects how much the quantities' noise differs: a wild
    /// quantity makes all depend more on their own runs.
    ///
    /// # Errors
    /// [`MeasurementError`], as in [`compare`](crate::compare).
    pub fn from_family(
        family: &[Measured<'_>],
        design: Design,
    ) -> Result<Option<Prior>, MeasurementError> {
        let mut spreads = Vec::with_capacity(family.len());
        for measured in family {
            let spread = Spread::of(measured, design)?;
            if spread.degrees_of_freedom > 0.0 {
                spreads.push(spread);
            }
        }
        if spreads.is_empty() {
            return Ok(None);
        }
        spreads.sort_by(|a, b| a.known_variance.total_cmp(&b.known_variance));
        let few = spreads.len().div_ceil(3).max(MIN_HOTTEST);
        let hottest = &spreads[..few.min(spreads.len())];
        let run_to_run = without_outliers(hottest).max(MIN_DEVIATION.powi(2));
        let weights = spreads.iter().filter(|spread| spread.variance > 0.0);
        let logs: Vec<f64> = weights
            .clone()
            .map(|spread| (spread.variance / (spread.known_variance + run_to_run)).ln())
            .collect();
        let own: Vec<f64> = weights
            .map(|spread| trigamma(spread.degrees_of_freedom / 2.0))
            .collect();
        let excess = variance(&logs).map(|seen| seen - mean(&own));
        let weight = excess.and_then(inverse_trigamma).map(|half| 2.0 * half);
        // A prior weighs at most half as much as its data.
        let seen: f64 = spreads.iter().map(|spread| spread.degrees_of_freedom).sum();
        let weight = weight.unwrap_or(WEIGHTS.1).min(seen / 2.0);
        Ok(Some(Prior {
            run_to_run_variance: run_to_run,
            degrees_of_freedom: weight.clamp(WEIGHTS.0, WEIGHTS.1),
            common_variance: common_variance(hottest, run_to_run).min(run_to_run),
        }))
    }
}

/// Quantities for outlier detection.
const SEVERAL: usize = 5;

/// Standard normal 99 % quantile.
const ONE_OF_A_HUNDRED: f64 = 2.326;

/// Returns the mean variance beyond sampling. An outlier, such as a function slowed down by other
/// programs, counts as the others' 99 % quantile.
fn without_outliers(spreads: &[Spread]) -> f64 {
    let mut beyond: Vec<f64> = (spreads.iter())
        .map(|spread| spread.variance - spread.known_variance)
        .collect();
    if beyond.len() < SEVERAL {
        return mean(&beyond);
    }
    // Phipson et al. 2016, section 2.3: winsorizes the upper tenth first.
    let mut winsorized = beyond.clone();
    winsorized.sort_by(f64::total_cmp);
    let kept = winsorized.len() - winsorized.len().div_ceil(10);
    let most = winsorized[kept - 1];
    winsorized[kept..].fill(most);
    let typical = mean(&winsorized).max(MIN_DEVIATION.powi(2));
    for (beyond, spread) in beyond.iter_mut().zip(spreads) {
        let largest =
            (typical + spread.known_variance) * chi_square_mean(spread.degrees_of_freedom);
        *beyond = beyond.min(largest - spread.known_variance);
    }
    mean(&beyond)
}

/// Returns the 99 % quantile of a mean of squared standard normal deviates (Wilson and Hilferty
/// 1931).
fn chi_square_mean(degrees_of_freedom: f64) -> f64 {
    let part = 2.0 / (9.0 * degrees_of_freedom);
    (1.0 - part + ONE_OF_A_HUNDRED * part.sqrt()).powi(3)
}

/// Returns the variance of the quantities' weighted mean deviation, minus the part from independent
/// noise.
fn common_variance(spreads: &[Spread], run_to_run: f64) -> f64 {
    let weights: Vec<f64> = (spreads.iter())
        .map(|spread| 1.0 / (spread.known_variance + run_to_run))
        .collect();
    let whole: f64 = weights.iter().sum();
    let Some(first) = spreads.first() else {
        return 0.0;
    };
    let mean_of_run = |run: usize| {
        let deviations = (spreads.iter().zip(&weights))
            .filter_map(|(spread, weight)| Some(spread.deviations.get(run)? * weight));
        deviations.sum::<f64>() / whole
    };
    let mut squares: Vec<f64> = (0..first.deviations.len())
        .map(|run| mean_of_run(run).powi(2))
        .collect();
    // Swapped sides reorder the runs.
    squares.sort_by(f64::total_cmp);
    let squares: f64 = squares.iter().sum();
    (squares / first.degrees_of_freedom - 1.0 / whole).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_of_a_hundred_is_that_of_the_printed_tables() {
        // NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.4: upper critical values at
        // 0.01.
        for (degrees, expected) in [(4.0, 13.277), (8.0, 20.090), (18.0, 34.805)] {
            let found = degrees * chi_square_mean(degrees);
            assert!((found / expected - 1.0).abs() < 0.01, "{degrees}: {found}");
        }
    }

    #[test]
    fn one_wild_quantity_does_not_make_the_others_noisy() {
        let steady = [1.00, 1.02, 0.98, 1.01, 0.99];
        let wild = [1.0, 9.0, 2.0, 30.0, 0.5];
        let prior = |with_wild: bool| {
            let mut family = vec![Measured::exact(&steady, &steady); 9];
            if with_wild {
                family.push(Measured::exact(&wild, &wild));
            }
            Prior::from_family(&family, Design::Independent)
        };
        let [without, with] = [false, true].map(|wild| prior(wild).unwrap().unwrap());
        let [without_it, with_it] = [without, with].map(|prior| prior.run_to_run_variance.sqrt());
        assert!((0.014..0.017).contains(&without_it), "{without:?}");
        assert!(with_it < 1.2 * without_it, "{with:?}");
        assert!(with.degrees_of_freedom < 4.0, "{with:?}");
    }
}

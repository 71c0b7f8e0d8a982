//! [`Prior`]: what is known of the noise between runs before a quantity is looked at.

use crate::error::CompareError;
use crate::gamma::{inverse_trigamma, trigamma};
use crate::measured::{Design, Measured, Spread};
use crate::summary::{mean, variance};

/// Noise between runs as it is known beforehand: from a calibration, an assumption, or many quantities together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    /// Variance between runs of the logarithm of a value, sampling not included: (0.02)² for 2 %.
    pub run_to_run_variance: f64,
    /// Weight of this knowledge, in degrees of freedom; 0 for none.
    pub degrees_of_freedom: f64,
    /// Part of the variance that all quantities of a run have in common, such as a slow moment of the machine. However
    /// many quantities there are, it was seen as often as there are runs.
    pub common_variance: f64,
}

/// Smallest noise between runs that is believed: half a percent.
const LEAST_DEVIATION: f64 = 0.005;

/// Smallest and largest weight that a family of quantities may get.
const WEIGHTS: (f64, f64) = (1.0, 100.0);

/// Number of quantities from which the variance is taken, at least: with four of three runs each it was off so far
/// that 14 % of comparisons of equal programs named something.
const FEWEST_HOTTEST: usize = 20;

impl Prior {
    /// Nothing is known: each quantity speaks for itself.
    pub const NONE: Prior = Prior {
        run_to_run_variance: 0.0,
        degrees_of_freedom: 0.0,
        common_variance: 0.0,
    };

    /// Noise of 5 % with the weight of nine runs: the assumption for one run on each side. What it finds is no more
    /// than a suspicion.
    pub const ASSUMED: Prior = Prior {
        run_to_run_variance: 0.05 * 0.05,
        degrees_of_freedom: 8.0,
        common_variance: 0.0,
    };

    /// Takes a standard deviation between runs, 0.02 for 2 %, that was seen in `runs` runs of one program.
    pub fn calibrated(deviation: f64, runs: usize) -> Prior {
        Prior {
            run_to_run_variance: deviation.max(LEAST_DEVIATION).powi(2),
            degrees_of_freedom: runs.saturating_sub(1) as f64,
            common_variance: 0.0,
        }
    }

    /// Learns the noise from many quantities of the same runs, such as the functions of a program: each has few runs,
    /// and their noise is alike (Smyth 2004, section 6). `None` where no quantity has replicates.
    ///
    /// The variance is that of the third with the least sampling noise. The weight is chosen so that the quantities
    /// differ in noise by as much as they are seen to.
    ///
    /// # Errors
    /// Errors of [`compare`](crate::compare) for each of them.
    pub fn from_family(
        family: &[Measured<'_>],
        design: Design,
    ) -> Result<Option<Prior>, CompareError> {
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
        let few = spreads.len().div_ceil(3).max(FEWEST_HOTTEST);
        let hottest = &spreads[..few.min(spreads.len())];
        let beyond: Vec<f64> = (hottest.iter())
            .map(|spread| spread.variance - spread.known_variance)
            .collect();
        let run_to_run = mean(&beyond).max(LEAST_DEVIATION.powi(2));
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
        // What was learned is worth no more than what it was learned from.
        let seen: f64 = spreads.iter().map(|spread| spread.degrees_of_freedom).sum();
        let weight = weight.unwrap_or(WEIGHTS.1).min(seen / 2.0);
        Ok(Some(Prior {
            run_to_run_variance: run_to_run,
            degrees_of_freedom: weight.clamp(WEIGHTS.0, WEIGHTS.1),
            common_variance: common_variance(hottest, run_to_run).min(run_to_run),
        }))
    }
}

/// Returns the variance of what all quantities of a run have in common: that of the weighted mean of what they deviate by,
/// less what independent noise would leave in such a mean.
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
    let squares: f64 = (0..first.deviations.len())
        .map(|run| mean_of_run(run).powi(2))
        .sum();
    (squares / first.degrees_of_freedom - 1.0 / whole).max(0.0)
}

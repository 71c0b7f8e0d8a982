//! [`Measured`]: values of one quantity on two sides, and how much single runs differ.

use crate::error::CompareError;
use crate::summary::{mean, variance};

/// Values of one quantity on two sides. None is negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured<'a> {
    /// Values of the runs of the base.
    pub base: &'a [f64],
    /// Values of the runs of the new side.
    pub new: &'a [f64],
    /// Smallest step between two values, in their unit: 1 for a count, the mean weight of a sample for what is
    /// summed up from samples; 0 for values without steps, which must all be positive.
    pub resolution: f64,
    /// Variance of the logarithm in one run that sampling alone explains: 1 over the effective number of samples of
    /// a run; 0 for what is counted.
    pub sampling_variance: f64,
}

impl<'a> Measured<'a> {
    /// Takes positive values without steps and without sampling.
    pub fn exact(base: &'a [f64], new: &'a [f64]) -> Measured<'a> {
        Measured {
            base,
            new,
            resolution: 0.0,
            sampling_variance: 0.0,
        }
    }

    /// Takes values that come in steps of `resolution`, such as counts in steps of 1.
    pub fn in_steps(base: &'a [f64], new: &'a [f64], resolution: f64) -> Measured<'a> {
        Measured {
            resolution,
            ..Measured::exact(base, new)
        }
    }
}

/// Way in which the runs were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Design {
    /// The sides were run independently.
    Independent,
    /// The n-th runs of both sides were made next to each other, in turns.
    Paired,
}

/// Difference of the sides on the scale of logarithms, and the spread of single runs.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    pub(crate) log_ratio: f64,
    /// Variance of one run, as seen; 0 without degrees of freedom.
    pub(crate) variance: f64,
    /// Degrees of freedom of the variance.
    pub(crate) degrees_of_freedom: f64,
    /// Variance of one run that sampling and rounding alone explain.
    pub(crate) known_variance: f64,
    /// Deviation of each run from the mean of its side, or of each pair from the mean of all, on the scale of one run.
    pub(crate) deviations: Vec<f64>,
}

impl Spread {
    pub(crate) fn of(measured: &Measured<'_>, design: Design) -> Result<Spread, CompareError> {
        let base = logarithms(measured.base, measured.resolution)?;
        let new = logarithms(measured.new, measured.resolution)?;
        if base.is_empty() || new.is_empty() {
            return Err(CompareError::TooFewRuns { runs: 0 });
        }
        let rounding = rounding_variance(&base, &new, measured.resolution);
        let (found, degrees, deviations) = match design {
            Design::Paired => {
                let differences = differences(&base, &new)?;
                // The difference of a pair has the variance of two runs.
                let of_one = variance(&differences).unwrap_or(0.0) / 2.0;
                let deviations = from_mean(&differences).map(|far| far / 2.0_f64.sqrt());
                (of_one, base.len() as f64 - 1.0, deviations.collect())
            }
            Design::Independent => {
                let (found, degrees) = pooled(&base, &new);
                let deviations = from_mean(&base).chain(from_mean(&new));
                (found, degrees, deviations.collect())
            }
        };
        Ok(Spread {
            log_ratio: mean(&new) - mean(&base),
            variance: found,
            degrees_of_freedom: degrees,
            known_variance: measured.sampling_variance.max(rounding),
            deviations,
        })
    }
}

/// Returns the variance that rounding to steps of r leaves in logarithms: a value is off by r²/12 on average.
pub(crate) fn rounding_variance(base: &[f64], new: &[f64], resolution: f64) -> f64 {
    let of_one = |log: &f64| (resolution / log.exp()).powi(2) / 12.0;
    // The sides are summed up apart, so that swapping them changes no digit.
    let sum = |side: &[f64]| side.iter().map(of_one).sum::<f64>();
    (sum(base) + sum(new)) / (base.len() + new.len()) as f64
}

/// Returns by how much each value is above the mean of all.
pub(crate) fn from_mean(values: &[f64]) -> impl Iterator<Item = f64> {
    let mean = mean(values);
    values.iter().map(move |value| value - mean)
}

/// Returns the variance within two sides, and its degrees of freedom.
fn pooled(base: &[f64], new: &[f64]) -> (f64, f64) {
    let squares = |side: &[f64]| variance(side).unwrap_or(0.0) * (side.len() as f64 - 1.0);
    let degrees = (base.len() + new.len()) as f64 - 2.0;
    match degrees > 0.0 {
        true => ((squares(base) + squares(new)) / degrees, degrees),
        false => (0.0, 0.0),
    }
}

/// Returns the logarithms of values, each plus half the resolution so that a count of zero has one.
pub(crate) fn logarithms(values: &[f64], resolution: f64) -> Result<Vec<f64>, CompareError> {
    finite(values)?;
    (values.iter())
        .map(|value| match value + resolution / 2.0 {
            positive if positive > 0.0 && *value >= 0.0 => Ok(positive.ln()),
            _ => Err(CompareError::NotPositive { value: *value }),
        })
        .collect()
}

/// Returns the new minus the base value of each pair.
pub(crate) fn differences(base: &[f64], new: &[f64]) -> Result<Vec<f64>, CompareError> {
    match base.len() == new.len() {
        true => Ok(base.iter().zip(new).map(|(base, new)| new - base).collect()),
        false => Err(CompareError::NotInPairs {
            base: base.len(),
            new: new.len(),
        }),
    }
}

/// Refuses values that are infinite or no numbers.
pub(crate) fn finite(values: &[f64]) -> Result<(), CompareError> {
    match values.iter().find(|value| !value.is_finite()) {
        Some(value) => Err(CompareError::NotFinite { value: *value }),
        None => Ok(()),
    }
}

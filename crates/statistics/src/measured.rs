//! [`Measured`]: values of a quantity on two sides, and their spread.

use crate::error::MeasurementError;
use crate::summary::{mean, variance};

/// Non-negative values of a quantity on two sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured<'a> {
    /// Values of the base, by run.
    pub base: &'a [f64],
    /// Values of the new side, by run.
    pub new: &'a [f64],
    /// Smallest step between values: 1 for counts, the mean sample weight for sums of samples. 0
    /// for continuous values, which must be positive.
    pub resolution: f64,
    /// Variance of a run's logarithm from sampling: 1 / effective samples; 0 for counts.
    pub sampling_variance: f64,
}

impl<'a> Measured<'a> {
    /// Creates positive, continuous values without sampling.
    pub fn exact(base: &'a [f64], new: &'a [f64]) -> Measured<'a> {
        Measured {
            base,
            new,
            resolution: 0.0,
            sampling_variance: 0.0,
        }
    }

    /// Creates values in steps of `resolution`, such as 1 for counts.
    pub fn in_steps(base: &'a [f64], new: &'a [f64], resolution: f64) -> Measured<'a> {
        Measured {
            resolution,
            ..Measured::exact(base, new)
        }
    }
}

/// Design of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Design {
    /// Independent runs of both sides.
    Independent,
    /// Alternating runs: the n-th runs of both sides are a pair.
    Paired,
}

/// Difference of the sides as logarithms.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    pub(crate) log_ratio: f64,
    /// Variance of one run; 0 without degrees of freedom.
    pub(crate) variance: f64,
    pub(crate) degrees_of_freedom: f64,
    /// Variance of one run from sampling and rounding.
    pub(crate) known_variance: f64,
    /// Deviation of each run from its side's mean, or of each pair from the pairs' mean, on the
    /// scale of one run.
    pub(crate) deviations: Vec<f64>,
}

impl Spread {
    pub(crate) fn of(measured: &Measured<'_>, design: Design) -> Result<Spread, MeasurementError> {
        let base = logarithms(measured.base, measured.resolution)?;
        let new = logarithms(measured.new, measured.resolution)?;
        if base.is_empty() || new.is_empty() {
            return Err(MeasurementError::TooFewRuns { runs: 0 });
        }
        let rounding = rounding_variance(&base, &new, measured.resolution);
        let (found, degrees, deviations) = match design {
            Design::Paired => {
                let differences = differences(&base, &new)?;
                // A pair's difference has the variance of two runs.
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

/// Returns the mean variance of logarithms from rounding: r²/12 for a value in steps of r.
pub(crate) fn rounding_variance(base: &[f64], new: &[f64], resolution: f64) -> f64 {
    let of_one = |log: &f64| (resolution / log.exp()).powi(2) / 12.0;
    // Swapped sides give identical results.
    let sum = |side: &[f64]| side.iter().map(of_one).sum::<f64>();
    (sum(base) + sum(new)) / (base.len() + new.len()) as f64
}

pub(crate) fn from_mean(values: &[f64]) -> impl Iterator<Item = f64> {
    let mean = mean(values);
    values.iter().map(move |value| value - mean)
}

/// Returns the pooled variance, and its degrees of freedom.
fn pooled(base: &[f64], new: &[f64]) -> (f64, f64) {
    let squares = |side: &[f64]| variance(side).unwrap_or(0.0) * (side.len() as f64 - 1.0);
    let degrees = (base.len() + new.len()) as f64 - 2.0;
    match degrees > 0.0 {
        true => ((squares(base) + squares(new)) / degrees, degrees),
        false => (0.0, 0.0),
    }
}

/// Adds half the resolution, so that zero has a logarithm.
pub(crate) fn logarithms(values: &[f64], resolution: f64) -> Result<Vec<f64>, MeasurementError> {
    finite(values)?;
    (values.iter())
        .map(|value| match value + resolution / 2.0 {
            positive if positive > 0.0 && *value >= 0.0 => Ok(positive.ln()),
            _ => Err(MeasurementError::NotPositive { value: *value }),
        })
        .collect()
}

pub(crate) fn differences(base: &[f64], new: &[f64]) -> Result<Vec<f64>, MeasurementError> {
    match base.len() == new.len() {
        true => Ok(base.iter().zip(new).map(|(base, new)| new - base).collect()),
        false => Err(MeasurementError::NotInPairs {
            base: base.len(),
            new: new.len(),
        }),
    }
}

pub(crate) fn finite(values: &[f64]) -> Result<(), MeasurementError> {
    match values.iter().find(|value| !value.is_finite()) {
        Some(value) => Err(MeasurementError::NotFinite { value: *value }),
        None => Ok(()),
    }
}

//! [`MeasurementError`].

/// Error of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MeasurementError {
    /// Too few runs to estimate the noise, and no prior.
    #[error(
        "{runs} runs are too few to measure the noise between runs; give each side at least two"
    )]
    TooFewRuns {
        /// Number of runs.
        runs: usize,
    },
    /// Paired sides have different numbers of runs.
    #[error("{base} runs of one side and {new} of the other do not form pairs")]
    NotInPairs {
        /// Runs of the base.
        base: usize,
        /// Runs of the new side.
        new: usize,
    },
    /// A value is infinite or NaN.
    #[error("{value} cannot be compared")]
    NotFinite {
        /// Measured value of a run.
        value: f64,
    },
    /// A value is negative, or zero without a resolution.
    #[error("{value} has no logarithm; only positive values can be compared by their ratio")]
    NotPositive {
        /// Measured value of a run.
        value: f64,
    },
}

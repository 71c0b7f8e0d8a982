//! [`CompareError`].

/// Error of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// Too few runs to estimate the noise, and no prior.
    #[error(
        "too few runs ({runs}) to know how much runs differ by themselves; give each side two at least"
    )]
    TooFewRuns {
        /// Number of runs.
        runs: usize,
    },
    /// Paired sides have different numbers of runs.
    #[error("{base} runs of one side and {new} of the other are no pairs")]
    NotInPairs {
        /// Runs of the base.
        base: usize,
        /// Runs of the new side.
        new: usize,
    },
    /// A value is infinite or NaN.
    #[error("{value} is no value that can be compared")]
    NotFinite {
        /// The value.
        value: f64,
    },
    /// A value is negative, or zero without a resolution.
    #[error("{value} has no logarithm; only positive values can be compared by their ratio")]
    NotPositive {
        /// The value.
        value: f64,
    },
}

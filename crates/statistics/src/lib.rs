//! Statistics of repeated runs: summaries, confidence intervals, comparisons of two sides.
//!
//! All functions are pure: no clock, no chance, no files. Equal data give equal verdicts on every
//! machine.
//!
//! | module | contents |
//! |---|---|
//! | [`summary`] | [`RunSummary`]: mean, median, deviation, standard error, range; outliers |
//! | [`interval`] | [`Interval`]: a confidence interval |
//! | [`t_test`] | [`TTest`]: Welch's test and the paired test |
//! | [`comparison`] | [`compare`]: a quantity on two sides, as a ratio, against a threshold |
//! | [`measured`] | [`Measured`]: values of both sides; [`Design`] |
//! | [`prior`] | [`Prior`]: noise known in advance, or estimated from many quantities |
//! | [`verdict`] | [`ChangeVerdict`]: result of a comparison among many |
//! | [`adjust`] | [`Correction`] for multiple tests |
//! | [`dealing`] | permutation test |
//! | [`heterogeneity`] | [`CommonChange`]: common change of many quantities |
//! | [`error`] | [`MeasurementError`] |
//! | [`random`] | reproducible random numbers |
//! | `gamma` | trigamma function and its inverse |
//!
//! # Choice of the test
//! `rprof stat A ::: B`, `diff` and `gate` ask the same question: does B take more than A, by at
//! least a factor 1 + x, beyond the noise between runs? [`compare`] answers it on logarithms,
//! because times and counts are positive and their noise is relative. For alternating runs,
//! [`Design::Paired`] compares pairs, which removes drift.
//!
//! # Examples
//! ```
//! use rprof_statistics::{ChangeVerdict, Design, Measured, Prior, compare, judge};
//!
//! let old = [812.0, 807.0, 815.0, 809.0, 811.0];
//! let new = [764.0, 761.0, 770.0, 759.0, 766.0];
//! let wall = compare(&Measured::exact(&old, &new), Design::Paired, Prior::NONE, 0.0)?;
//! assert!((wall.ratio() - 0.942).abs() < 0.001);
//! assert_eq!(judge(&[wall], 0.05), [ChangeVerdict::Less]);
//! # Ok::<(), rprof_statistics::MeasurementError>(())
//! ```

pub mod adjust;
pub mod comparison;
pub mod dealing;
mod distribution;
pub mod error;
mod gamma;
pub mod heterogeneity;
pub mod interval;
pub mod measured;
pub mod prior;
pub mod random;
pub mod summary;
pub mod t_test;
pub mod verdict;

pub use adjust::Correction;
pub use comparison::{Comparison, compare, compare_cautiously};
pub use dealing::{adjusted_by_dealing, ways_to_deal};
pub use error::MeasurementError;
pub use heterogeneity::CommonChange;
pub use interval::Interval;
pub use measured::{Design, Measured};
pub use prior::Prior;
pub use summary::RunSummary;
pub use t_test::{TTest, paired, welch};
pub use verdict::{CONFIDENCE, ChangeVerdict, judge, judge_by};

//! Statistics of repeated runs: summaries, confidence intervals, and the comparison of two sides.
//!
//! Everything here is a pure function of numbers: no clock, no chance, no files. The same data give the same
//! verdict on every machine.
//!
//! | module | holds |
//! |---|---|
//! | [`summary`] | [`Summary`]: mean, median, standard deviation, standard error, smallest, largest; outliers |
//! | [`interval`] | [`Interval`]: a confidence interval |
//! | [`t_test`] | [`TTest`]: Welch's test and the paired test |
//! | [`comparison`] | [`compare`]: one quantity on two sides, as a ratio, with a threshold in the hypothesis |
//! | [`measured`] | [`Measured`]: values of both sides; [`Design`] |
//! | [`prior`] | [`Prior`]: what is known of the noise before a quantity is looked at, or learned from many |
//! | [`verdict`] | [`Verdict`]: what a comparison says, many quantities being looked at |
//! | [`adjust`] | [`Correction`] of p-values for many tests: Benjamini-Hochberg, Benjamini-Yekutieli, Holm |
//! | [`dealing`] | p-values of all ways in which runs could have been dealt into sides |
//! | [`heterogeneity`] | [`CommonChange`]: one change that many quantities have in common |
//! | [`error`] | [`CompareError`] |
//! | [`random`] | numbers by chance, the same each time |
//! | `gamma` | trigamma and its inverse |
//!
//! # Which test is for what
//! `rprof stat A ::: B`, `diff` and `gate` ask the same question: does B take more than A, by at least a factor
//! 1 + x, and is that more than runs of the same program differ by? [`compare`] answers it on logarithms, since
//! times and counts are positive and their noise is in percent. Runs that were made in turns are compared pair by
//! pair ([`Design::Paired`]), which takes out what drifts.
//!
//! # Examples
//! ```
//! use rprof_statistics::{Design, Measured, Prior, Verdict, compare, judge};
//!
//! let old = [812.0, 807.0, 815.0, 809.0, 811.0];
//! let new = [764.0, 761.0, 770.0, 759.0, 766.0];
//! let wall = compare(&Measured::exact(&old, &new), Design::Paired, Prior::NONE, 0.0)?;
//! assert!((wall.ratio() - 0.942).abs() < 0.001);
//! assert_eq!(judge(&[wall], 0.05), [Verdict::Less]);
//! # Ok::<(), rprof_statistics::CompareError>(())
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
pub use error::CompareError;
pub use heterogeneity::CommonChange;
pub use interval::Interval;
pub use measured::{Design, Measured};
pub use prior::Prior;
pub use summary::Summary;
pub use t_test::{TTest, paired, welch};
pub use verdict::{CONFIDENCE, Verdict, judge, judge_by};

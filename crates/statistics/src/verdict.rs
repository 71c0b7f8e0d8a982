//! [`ChangeVerdict`]: result of a comparison among many quantities.

use crate::adjust::Correction;
use crate::comparison::Comparison;
use crate::interval::Interval;

/// Confidence of the displayed interval. No verdict contradicts it.
pub const CONFIDENCE: f64 = 0.95;

/// Result for one of several quantities.
///
/// | interval | within the threshold | reaches past it | beyond it |
/// |---|---|---|---|
/// | contains "no change" | `Unchanged` | `Inconclusive` | |
/// | excludes it | `BelowThreshold` | `MayExceed` | `More`, `Less` |
///
/// After correction for the number of quantities, insignificant `More` and `Less` become
/// `MayExceed`, and insignificant `MayExceed` becomes `Inconclusive`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeVerdict {
    /// Increase by at least the threshold.
    More,
    /// Decrease by at least the threshold.
    Less,
    /// No visible change; any is smaller than the threshold.
    Unchanged,
    /// Change by less than the threshold.
    BelowThreshold,
    /// Change, possibly beyond the threshold.
    MayExceed,
    /// No visible change, but possibly one beyond the threshold.
    Inconclusive,
}

/// Judges quantities together. At most the share `q` of [`More`](ChangeVerdict::More) and
/// [`Less`](ChangeVerdict::Less) is false on average. Without differences, the probability of any
/// is at most `q` (usually 0.05).
pub fn judge(comparisons: &[Comparison], q: f64) -> Vec<ChangeVerdict> {
    judge_by(comparisons, q, Correction::default())
}

/// Judges like [`judge`], with another correction and its guarantee.
pub fn judge_by(comparisons: &[Comparison], q: f64, correction: Correction) -> Vec<ChangeVerdict> {
    let adjusted = |p: fn(&Comparison) -> f64| -> Vec<f64> {
        correction.adjust(&comparisons.iter().map(p).collect::<Vec<f64>>())
    };
    let beyond = adjusted(Comparison::p);
    let any = adjusted(Comparison::p_of_any_change);
    // One tail of the interval, unless `q` is larger.
    let end = q.max(1.0 - CONFIDENCE) / 2.0;
    (comparisons.iter().zip(beyond.into_iter().zip(any)))
        .map(|(comparison, (beyond, any))| {
            let is_more = comparison.p_more < comparison.p_less;
            match beyond <= q && comparison.p_more.min(comparison.p_less) <= end {
                true if is_more => ChangeVerdict::More,
                true => ChangeVerdict::Less,
                false => not_beyond(comparison, any),
            }
        })
        .collect()
}

/// Judges a comparison without finding. `any` is the adjusted p-value of "no change".
fn not_beyond(comparison: &Comparison, any: f64) -> ChangeVerdict {
    let interval = comparison.log_interval(CONFIDENCE);
    let margin = Interval::around(0.0, comparison.threshold.ln_1p());
    match comparison.threshold > 0.0 && interval.is_inside(margin) {
        true if interval.contains(0.0) => ChangeVerdict::Unchanged,
        true => ChangeVerdict::BelowThreshold,
        false if any <= 1.0 - CONFIDENCE => ChangeVerdict::MayExceed,
        false => ChangeVerdict::Inconclusive,
    }
}

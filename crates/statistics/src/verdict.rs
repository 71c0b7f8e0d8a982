//! [`Verdict`]: what a comparison says when many quantities are looked at together.

use crate::adjust::Correction;
use crate::comparison::Comparison;
use crate::interval::Interval;

/// Confidence of the interval that decides on equality: both of its ends are tested at 5 % (Schuirmann 1987).
const EQUIVALENCE: f64 = 0.90;

/// Result for one quantity among those that were compared together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The new side takes more, by at least the threshold.
    More,
    /// The new side takes less, by at least the threshold.
    Less,
    /// Any difference is smaller than the threshold.
    Unchanged,
    /// There is a difference, seen to be smaller than the threshold; by chance it may have been larger.
    BelowThreshold,
    /// The runs differ too much among themselves to tell, also of a difference that is seen to reach the threshold; without a
    /// threshold, no difference was seen.
    Inconclusive,
}

/// Judges quantities that were compared together, so that of what is called [`More`](Verdict::More) or
/// [`Less`](Verdict::Less) at most the share `q` is false, and where nothing differs the chance of calling anything
/// so is at most `q` (0.05 is usual).
pub fn judge(comparisons: &[Comparison], q: f64) -> Vec<Verdict> {
    judge_by(comparisons, q, Correction::default())
}

/// Judges quantities as [`judge`], with the promise of another correction for their number.
pub fn judge_by(comparisons: &[Comparison], q: f64, correction: Correction) -> Vec<Verdict> {
    let p_values: Vec<f64> = comparisons.iter().map(Comparison::p).collect();
    let adjusted = correction.adjust(&p_values);
    (comparisons.iter().zip(adjusted))
        .map(
            |(comparison, p)| match comparison.p_more < comparison.p_less {
                true if p <= q => Verdict::More,
                false if p <= q => Verdict::Less,
                _ => small(comparison),
            },
        )
        .collect()
}

/// Judges a comparison that shows no change beyond the threshold.
fn small(comparison: &Comparison) -> Verdict {
    let interval = comparison.log_interval(EQUIVALENCE);
    let margin = Interval::around(0.0, comparison.threshold.ln_1p());
    if comparison.threshold > 0.0 && interval.is_inside(margin) {
        return Verdict::Unchanged;
    }
    let is_below = margin.contains(comparison.log_ratio);
    match comparison.threshold > 0.0 && is_below && !interval.contains(0.0) {
        true => Verdict::BelowThreshold,
        false => Verdict::Inconclusive,
    }
}

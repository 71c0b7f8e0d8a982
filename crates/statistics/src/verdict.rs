//! [`Verdict`]: what a comparison says when many quantities are looked at together.

use crate::adjust::Correction;
use crate::comparison::Comparison;
use crate::interval::Interval;

/// Confidence of the interval that is shown beside a verdict, and that decides between all verdicts but [`Verdict::More`] and
/// [`Verdict::Less`]: no verdict contradicts the interval.
pub const CONFIDENCE: f64 = 0.95;

/// Result for one quantity among those that were compared together.
///
/// | interval | within the threshold | reaches past it | beyond it |
/// |---|---|---|---|
/// | contains "no change" | `Unchanged` | `Inconclusive` | |
/// | excludes it | `BelowThreshold` | `MayExceed` | `More`, `Less` |
///
/// What stands further right has to hold for the number of quantities as well: else it is what stands to the left of it, and
/// `Inconclusive` if it reaches past the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The new side takes more, by at least the threshold.
    More,
    /// The new side takes less, by at least the threshold.
    Less,
    /// No difference is seen, and any is smaller than the threshold.
    Unchanged,
    /// There is a difference, and it is smaller than the threshold.
    BelowThreshold,
    /// There is a difference, and whether it reaches the threshold is not sure.
    MayExceed,
    /// Whether there is a difference is not sure, and it may reach the threshold.
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
    let adjusted = |p: fn(&Comparison) -> f64| -> Vec<f64> {
        correction.adjust(&comparisons.iter().map(p).collect::<Vec<f64>>())
    };
    let beyond = adjusted(Comparison::p);
    let any = adjusted(Comparison::p_of_any_change);
    // One end of the interval, unless more is accepted than it allows for.
    let end = q.max(1.0 - CONFIDENCE) / 2.0;
    (comparisons.iter().zip(beyond.into_iter().zip(any)))
        .map(|(comparison, (beyond, any))| {
            let is_more = comparison.p_more < comparison.p_less;
            match beyond <= q && comparison.p_more.min(comparison.p_less) <= end {
                true if is_more => Verdict::More,
                true => Verdict::Less,
                false => not_beyond(comparison, any),
            }
        })
        .collect()
}

/// Judges a comparison that shows no change beyond the threshold. `any` is the p-value of "no change", adjusted.
fn not_beyond(comparison: &Comparison, any: f64) -> Verdict {
    let interval = comparison.log_interval(CONFIDENCE);
    let margin = Interval::around(0.0, comparison.threshold.ln_1p());
    match comparison.threshold > 0.0 && interval.is_inside(margin) {
        true if interval.contains(0.0) => Verdict::Unchanged,
        true => Verdict::BelowThreshold,
        false if any <= 1.0 - CONFIDENCE => Verdict::MayExceed,
        false => Verdict::Inconclusive,
    }
}

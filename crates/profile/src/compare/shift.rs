//! Cost shift: what moved between functions. Uniform change: what all functions have in common.

use rprof_statistics::{CommonChange, Comparison};

use super::callers::Calls;
use super::sides::Sides;
use super::{Change, ProfileDiff, Verdict};

/// P-value from which on functions are taken to have changed by one factor.
const AGREE: f64 = 0.05;

/// Functions that are needed to speak of all.
const SEVERAL: usize = 3;

/// Marks functions whose change stands against an opposite one under the same caller, while the caller's own total did
/// not change with them (Meta's FBDetect, SOSP 2024, section 5.4, "cost-shift").
pub(super) fn mark_moved(sides: &Sides<'_>, diff: &mut ProfileDiff) {
    let is_changed = |change: &Change| {
        matches!(
            change.verdict,
            Verdict::Regressed | Verdict::Improved | Verdict::Suspected
        )
    };
    let changed: Vec<usize> = (0..diff.functions.len())
        .filter(|row| is_changed(&diff.functions[*row].own))
        .collect();
    if changed.len() < 2 {
        return;
    }
    let mut is_wanted = vec![false; diff.functions.len()];
    changed.iter().for_each(|row| is_wanted[*row] = true);
    let calls = Calls::of(sides, &[0, 1], &is_wanted);
    let caller = |row: usize| {
        calls
            .heaviest_caller(row as u32)
            .map(|caller| caller as usize)
    };
    let rise = |row: usize| diff.functions[row].own.difference();
    let mut moved: Vec<(usize, usize)> = Vec::new();
    for row in &changed {
        // The one above it is looked at: a call that was inlined goes to the caller itself.
        for above in [caller(*row), Some(*row)].into_iter().flatten() {
            let is_below = |other: &&usize| **other == above || caller(**other) == Some(above);
            let against: Vec<usize> = (changed.iter().filter(is_below))
                .filter(|other| **other != *row && rise(**other) * rise(*row) < 0.0)
                .copied()
                .collect();
            let taken: f64 = against.iter().map(|other| rise(*other).abs()).sum();
            let is_balanced = taken >= rise(*row).abs() / 2.0;
            let total = &diff.functions[above].total;
            if is_balanced && stayed(total, rise(*row)) {
                let most = against.into_iter().max_by(|a, b| {
                    (rise(*a).abs().total_cmp(&rise(*b).abs())).then_with(|| b.cmp(a))
                });
                moved.extend(most.map(|other| (*row, other)));
                break;
            }
        }
    }
    for (row, other) in moved {
        let function = &mut diff.functions[row];
        function.own.verdict = Verdict::Moved;
        function.counterpart = Some(other);
        if is_changed(&function.total) {
            function.total.verdict = Verdict::Moved;
        }
    }
}

/// Returns whether a total did not change along with a part of it that changed by `rise`.
fn stayed(total: &Change, rise: f64) -> bool {
    let is_small = total.difference().abs() < rise.abs() / 2.0;
    is_small && total.interval.is_none_or(|ratio| ratio.contains(1.0))
}

/// Marks functions that changed if all changed by one factor, and returns whether they did.
pub(super) fn mark_uniform(diff: &mut ProfileDiff, compared: &[(usize, Comparison)]) -> bool {
    let is_changed = matches!(
        diff.whole.verdict,
        Verdict::Regressed | Verdict::Improved | Verdict::Suspected
    );
    let comparisons: Vec<Comparison> = compared.iter().map(|(_, c)| *c).collect();
    let Some(common) = CommonChange::of(&comparisons) else {
        return false;
    };
    if !is_changed || comparisons.len() < SEVERAL || common.p <= AGREE {
        return false;
    }
    let Some(whole) = diff.whole.relative().map(f64::ln_1p) else {
        return false;
    };
    // Where one function is nearly all of the program, the others must have changed as well.
    let hottest = compared.iter().map(|(row, _)| &diff.functions[*row].own);
    let hottest = hottest.max_by(|a, b| (a.old + a.new).total_cmp(&(b.old + b.new)));
    let rest = hottest.map_or(0.0, |hottest| {
        let [old, new] = [diff.whole.old - hottest.old, diff.whole.new - hottest.new];
        if old > 0.0 && new > 0.0 {
            (new / old).ln()
        } else {
            0.0
        }
    });
    let is_shared = common.log_ratio * whole > 0.0 && rest * whole > 0.0;
    if !is_shared || rest.abs() < whole.abs() / 2.0 {
        return false;
    }
    for function in &mut diff.functions {
        for change in [&mut function.own, &mut function.total] {
            if change.verdict.is_marked() {
                change.verdict = Verdict::WithAll;
            }
        }
        function.counterpart = None;
    }
    true
}

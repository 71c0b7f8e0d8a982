//! Attribution: finds the changed callee behind a caller's change.
//!
//! One cause changes the totals of all callers, so each points to the next changed function below.
//! A caller with a much larger change remains a finding: it calls a shared function more often.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::sides::Sides;
use super::{FunctionDiff, ProfileDiff, Verdict};

/// Share of a total's change that functions below must explain.
const LIMIT: f64 = 0.75;

/// Maximum ratio of logarithmic changes of caller and callee, if explained.
const STANDS_OUT: f64 = 1.5;

pub(super) fn attribute(sides: &Sides<'_>, diff: &mut ProfileDiff) {
    attribute_of(sides, diff, Verdict::is_change);
    attribute_of(sides, diff, |verdict| verdict == Verdict::Moved);
}

fn attribute_of(sides: &Sides<'_>, diff: &mut ProfileDiff, is_it: fn(Verdict) -> bool) {
    let has_own = |row: &FunctionDiff| is_it(row.own.verdict);
    let is_changed: Vec<bool> = (diff.functions.iter())
        .map(|row| has_own(row) || is_it(row.total.verdict))
        .collect();
    let mut callers: Vec<usize> = (0..diff.functions.len())
        .filter(|row| is_changed[*row] && !has_own(&diff.functions[*row]))
        .collect();
    if callers.is_empty() {
        return;
    }
    let below = Below::of(sides, &is_changed);
    // Largest change first: in a call cycle, this is the outer function.
    callers.sort_by(|a, b| {
        let change = |row: &usize| diff.functions[*row].total.difference().abs();
        change(b).total_cmp(&change(a)).then_with(|| a.cmp(b))
    });
    let mut explained: FxHashMap<usize, usize> = FxHashMap::default();
    for row in callers {
        let leads_back = |to: usize| {
            std::iter::successors(Some(to), |at| explained.get(at).copied()).any(|at| at == row)
        };
        let total = &diff.functions[row].total;
        let cause = below.explanation(row, total.difference()).filter(|cause| {
            let cause = &diff.functions[*cause];
            let cause = match has_own(cause) {
                true => &cause.own,
                false => &cause.total,
            };
            total.factor() <= STANDS_OUT * cause.factor()
        });
        if let Some(cause) = cause.filter(|cause| !leads_back(*cause)) {
            explained.insert(row, cause);
        }
    }
    for (row, cause) in explained {
        diff.functions[row].explained_by = Some(cause);
    }
}

#[derive(Default)]
struct Below {
    by_row: FxHashMap<u32, BTreeMap<u32, [f64; 2]>>,
}

impl Below {
    fn of(sides: &Sides<'_>, is_changed: &[bool]) -> Below {
        let mut below = Below::default();
        let mut seen: FxHashSet<u32> = FxHashSet::default();
        for (side, runs) in sides.runs.iter().enumerate() {
            for run in runs {
                let scale = 1.0 / (run.work * runs.len() as f64);
                for entry in run.entries() {
                    let weight = run.weight(entry) as f64 * scale;
                    let mut above = None;
                    seen.clear();
                    // Recursion counts once.
                    for row in run.stack(entry) {
                        if !is_changed[row as usize] || !seen.insert(row) {
                            continue;
                        }
                        if let Some(above) = above.replace(row) {
                            let rows = below.by_row.entry(above).or_default();
                            rows.entry(row).or_default()[side] += weight;
                        }
                    }
                }
            }
        }
        below
    }

    /// Returns the function below that explains most of a row's change, if one does.
    fn explanation(&self, row: usize, change: f64) -> Option<usize> {
        let rows = self.by_row.get(&(row as u32))?;
        let along = |[old, new]: &[f64; 2]| (new - old) * change.signum();
        let sum: f64 = rows.values().map(along).sum();
        let most = (rows.iter()).max_by(|a, b| {
            let order = along(a.1).total_cmp(&along(b.1));
            order.then_with(|| b.0.cmp(a.0))
        });
        let (most, _) = most.filter(|(_, amounts)| along(amounts) > 0.0)?;
        (sum >= LIMIT * change.abs()).then_some(*most as usize)
    }
}

//! Guesses renames among one-sided functions, for display only.

use super::callers::Calls;
use super::sides::Sides;
use super::{FunctionDiff, GuessedRename, MIN_SAMPLES, Presence};

/// Maximum number of examined functions per side, heaviest first.
const LIMIT: usize = 50;

/// Maximum ratio of old and new weight.
const ALIKE: f64 = 1.3;

/// Pairs one-sided functions by caller, callees and weight. Skips ambiguous and rare ones.
pub(super) fn guess(sides: &Sides<'_>, functions: &[FunctionDiff]) -> Vec<GuessedRename> {
    let heaviest = |presence: Presence| {
        let is_one = |row: &usize| {
            let function = &functions[*row];
            let samples = function.total.samples.iter().sum::<f64>();
            function.presence == presence && function.name.is_some() && samples >= MIN_SAMPLES
        };
        let mut rows: Vec<usize> = (0..functions.len()).filter(is_one).collect();
        let weight = |row: &usize| functions[*row].total.old + functions[*row].total.new;
        rows.sort_by(|a, b| weight(b).total_cmp(&weight(a)).then_with(|| a.cmp(b)));
        rows.truncate(LIMIT);
        rows
    };
    let [old, new] = [Presence::OnlyOld, Presence::OnlyNew].map(heaviest);
    if old.is_empty() || new.is_empty() {
        return Vec::new();
    }
    let mut is_wanted = vec![false; functions.len()];
    old.iter()
        .chain(&new)
        .for_each(|row| is_wanted[*row] = true);
    let calls = [0, 1].map(|side| Calls::of(sides, &[side], &is_wanted));
    let is_both = |row: &u32| functions[*row as usize].presence == Presence::Both;
    let fits = |from: usize, to: usize| {
        let caller = calls[0].heaviest_caller(from as u32);
        let callees = |side: usize, row: usize| -> Vec<u32> {
            let callees = calls[side].callees(row as u32).into_iter();
            callees.filter(is_both).collect()
        };
        let (before, after) = (callees(0, from), callees(1, to));
        let common = before.iter().filter(|row| after.contains(row)).count();
        caller.is_some_and(|caller| is_both(&caller))
            && caller == calls[1].heaviest_caller(to as u32)
            && 2 * common >= before.len().max(after.len())
            && are_alike(functions[from].total.old, functions[to].total.new)
            && functions[from].object == functions[to].object
    };
    let mut renames = Vec::new();
    for from in &old {
        let mut found = new.iter().filter(|to| fits(*from, **to));
        if let (Some(to), None) = (found.next(), found.next())
            && old.iter().filter(|other| fits(**other, *to)).count() == 1
        {
            renames.push(GuessedRename {
                old: *from,
                new: *to,
            });
        }
    }
    renames
}

fn are_alike(a: f64, b: f64) -> bool {
    a > 0.0 && b > 0.0 && a / b <= ALIKE && b / a <= ALIKE
}

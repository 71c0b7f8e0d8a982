//! Enclosing functions of new or removed functions, which exist on both sides.

use rustc_hash::{FxHashMap, FxHashSet};

use super::FunctionDiff;
use super::sides::Sides;

/// Share of a function's weight that its enclosing function must contain.
const LIMIT: f64 = 0.75;

#[derive(Debug, Default)]
pub(super) struct Enclosing {
    by_row: FxHashMap<u32, Above>,
}

#[derive(Debug, Default)]
struct Above {
    whole: f64,
    within: FxHashMap<u32, f64>,
}

impl Enclosing {
    /// Sums the weight of rows inside others. Recursion counts once.
    pub(super) fn of(sides: &Sides<'_>, rows: impl Iterator<Item = usize>) -> Enclosing {
        let wanted: FxHashSet<u32> = rows.map(|row| row as u32).collect();
        let mut enclosing = Enclosing::default();
        if wanted.is_empty() {
            return enclosing;
        }
        let mut above: Vec<u32> = Vec::new();
        for runs in &sides.runs {
            for run in runs {
                let scale = 1.0 / (run.work * runs.len() as f64);
                for entry in run.entries() {
                    let weight = run.weight(entry) as f64 * scale;
                    above.clear();
                    for row in run.stack(entry) {
                        if above.contains(&row) {
                            continue;
                        }
                        if wanted.contains(&row) {
                            let of_row = enclosing.by_row.entry(row).or_default();
                            of_row.whole += weight;
                            for caller in &above {
                                *of_row.within.entry(*caller).or_default() += weight;
                            }
                        }
                        above.push(row);
                    }
                }
            }
        }
        enclosing
    }

    pub(super) fn nearest(&self, row: usize, functions: &[FunctionDiff]) -> Option<usize> {
        let above = self.by_row.get(&(row as u32))?;
        let size = |row: usize| functions[row].total.old + functions[row].total.new;
        (above.within.iter())
            .filter(|(_, weight)| **weight >= LIMIT * above.whole)
            .map(|(caller, _)| *caller as usize)
            .filter(|caller| !functions[*caller].is_of_one_side())
            .min_by(|a, b| size(*a).total_cmp(&size(*b)).then_with(|| a.cmp(b)))
    }
}

//! Change of a total that is new work, told from calls that other functions made before.
//!
//! A caller's total says how much is below it, not that more is done: where a wrapper has another name, or work is handed to
//! another thread, totals change by all that is called there, though no function takes more than before. So the change of a
//! total counts only as far as the functions below have changed their self time in the whole program.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::sides::Sides;
use super::{Change, FunctionDiff, Noise, Verdict};

/// Standard deviations by which a sum of few samples may differ by chance.
const DEVIATIONS: f64 = 2.0;

/// Amounts below some functions, by the function that spent them.
pub(super) struct SpentBelow {
    by_row: FxHashMap<u32, BTreeMap<u32, [f64; 2]>>,
    /// Variance of an amount by side, as a multiple of it: chance, of samples of one weight.
    chance: [f64; 2],
    /// Variance of an amount by side, as a multiple of its square: what runs differ by.
    noise: [f64; 2],
}

/// Part of a total's change that is change of self in the functions below, in the direction of the total's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Growth {
    /// Smallest part that is in agreement with the noise.
    pub(super) sure: f64,
    /// Part that the amounts show.
    pub(super) shown: f64,
    /// Largest part that is in agreement with the noise.
    pub(super) possible: f64,
}

impl SpentBelow {
    /// Sums up self amounts below the wanted rows, these themselves included.
    pub(super) fn of(sides: &Sides<'_>, is_wanted: &[bool], noise: Noise) -> SpentBelow {
        let mut by_row: FxHashMap<u32, BTreeMap<u32, [f64; 2]>> = FxHashMap::default();
        let mut above: Vec<u32> = Vec::new();
        for (side, runs) in sides.runs.iter().enumerate() {
            for run in runs {
                let scale = 1.0 / (run.work * runs.len() as f64);
                for entry in run.entries() {
                    above.clear();
                    let mut leaf = None;
                    for row in run.stack(entry) {
                        leaf = Some(row);
                        if is_wanted[row as usize] && !above.contains(&row) {
                            above.push(row);
                        }
                    }
                    let Some(leaf) = leaf else { continue };
                    let weight = run.weight(entry) as f64 * scale;
                    for row in &above {
                        by_row.entry(*row).or_default().entry(leaf).or_default()[side] += weight;
                    }
                }
            }
        }
        let per_run = |variance: f64| [0, 1].map(|side| variance / sides.runs[side].len() as f64);
        SpentBelow {
            by_row,
            chance: per_run(sides.resolution),
            noise: per_run(noise.deviation().powi(2)),
        }
    }

    /// Returns how much of the change of a row's total is change of self below it.
    pub(super) fn growth(&self, row: usize, functions: &[FunctionDiff]) -> Growth {
        let direction = functions[row].total.difference().signum();
        let mut growth = Growth {
            sure: 0.0,
            shown: 0.0,
            possible: 0.0,
        };
        // Functions of too few samples to be judged say something together.
        let (mut below, mut own) = (0.0, [0.0; 2]);
        for (leaf, [old, new]) in self.by_row.get(&(row as u32)).into_iter().flatten() {
            let change = &functions[*leaf as usize].own;
            let moved = (new - old) * direction;
            match change.verdict {
                Verdict::Moved => {}
                Verdict::TooSmall => {
                    below += moved;
                    own = [own[0] + change.old, own[1] + change.new];
                }
                _ => {
                    growth.shown += within(change.difference() * direction, moved);
                    let [least, most] = ends(change, direction);
                    growth.sure += within(least, moved);
                    growth.possible += within(most, moved);
                }
            }
        }
        let change = (own[1] - own[0]) * direction;
        let variance =
            |side: usize| own[side] * self.chance[side] + own[side].powi(2) * self.noise[side];
        let margin = DEVIATIONS * (variance(0) + variance(1)).sqrt();
        growth.sure += within(change - margin, below);
        growth.shown += within(change, below);
        growth.possible += within(change + margin, below);
        growth
    }
}

/// Returns the part of a change that may lie where amounts changed by `moved`: between nothing and all of that.
fn within(change: f64, moved: f64) -> f64 {
    change.clamp(moved.min(0.0), moved.max(0.0))
}

/// Returns the ends of the interval of an amount's change in a direction.
fn ends(change: &Change, direction: f64) -> [f64; 2] {
    match change.interval {
        Some(ratio) if direction > 0.0 => [ratio.low, ratio.high].map(|r| (r - 1.0) * change.old),
        Some(ratio) => [ratio.high, ratio.low].map(|r| (1.0 / r - 1.0) * change.new),
        None => [change.difference() * direction; 2],
    }
}

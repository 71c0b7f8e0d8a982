//! Separates new work in a total from calls that had another caller before.
//!
//! If a wrapper is renamed, or work moves to another thread, totals change although no function
//! takes more. So a total's change counts only as far as the functions below it changed their self
//! time.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::sides::Sides;
use super::{Change, FunctionDiff, Noise, Verdict};

/// Standard deviations of chance in a sum of few samples.
const DEVIATIONS: f64 = 2.0;

pub(super) struct SpentBelow {
    by_row: FxHashMap<u32, BTreeMap<u32, [f64; 2]>>,
    /// Sampling variance per side, as a multiple of the amount.
    chance: [f64; 2],
    /// Variance between runs per side, as a multiple of the squared amount.
    noise: [f64; 2],
}

/// Part of a total's change explained by self amounts below, in its direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Growth {
    /// Lower bound, given the noise.
    pub(super) sure: f64,
    pub(super) shown: f64,
    /// Upper bound, given the noise.
    pub(super) possible: f64,
}

impl SpentBelow {
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

    pub(super) fn growth(&self, row: usize, functions: &[FunctionDiff]) -> Growth {
        let direction = functions[row].total.difference().signum();
        let mut growth = Growth {
            sure: 0.0,
            shown: 0.0,
            possible: 0.0,
        };
        // Functions with too few samples are evaluated together.
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

fn within(change: f64, moved: f64) -> f64 {
    change.clamp(moved.min(0.0), moved.max(0.0))
}

fn ends(change: &Change, direction: f64) -> [f64; 2] {
    match change.interval {
        Some(ratio) if direction > 0.0 => [ratio.low, ratio.high].map(|r| (r - 1.0) * change.old),
        Some(ratio) => [ratio.high, ratio.low].map(|r| (1.0 / r - 1.0) * change.new),
        None => [change.difference() * direction; 2],
    }
}

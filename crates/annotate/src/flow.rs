//! Jumps within a function: lanes for their arrows, and loops.

use rustc_hash::FxHashSet;

use crate::amount::Amount;
use crate::annotation::{Instruction, Loop};
use crate::disassembly::Flow;

/// Maximum number of lanes. Arrows that need more are omitted.
pub const MAX_LANES: usize = 6;

const MAX_LOOPS: usize = 1_000;

/// Maximum number of jumps with an arrow. Generated functions have thousands.
const MAX_ARROWS: usize = 2_000;

/// Arrow from all jumps with the same target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// Index of the target instruction.
    pub target: usize,
    /// Indices of the jumps, ascending.
    pub sources: Vec<usize>,
    /// Lane; 0 is next to the instructions.
    pub lane: usize,
}

impl Arrow {
    /// Returns the indices of its first and last instruction.
    pub fn span(&self) -> (usize, usize) {
        let first = self
            .sources
            .first()
            .map_or(self.target, |s| *s.min(&self.target));
        let last = self
            .sources
            .last()
            .map_or(self.target, |s| *s.max(&self.target));
        (first, last)
    }
}

/// Iterates over jumps as pairs of indices. The instructions must be sorted by address.
fn jumps(instructions: &[Instruction]) -> impl Iterator<Item = (usize, usize)> + '_ {
    let sources = instructions.iter().enumerate();
    sources.filter_map(|(source, instruction)| {
        let target = instruction.target?;
        let is_jump = matches!(instruction.flow, Flow::Jump | Flow::Branch);
        let found = instructions.binary_search_by_key(&target, |to| to.address);
        is_jump.then_some(())?;
        Some((source, found.ok()?))
    })
}

/// Computes the arrows. The shortest are in the lanes next to the instructions.
pub fn arrows(instructions: &[Instruction]) -> Vec<Arrow> {
    let mut arrows: Vec<Arrow> = Vec::new();
    let mut all: Vec<(usize, usize)> = jumps(instructions).map(|(from, to)| (to, from)).collect();
    all.sort_unstable();
    for (target, source) in all {
        match arrows.last_mut() {
            Some(last) if last.target == target => last.sources.push(source),
            _ => arrows.push(Arrow {
                target,
                sources: vec![source],
                lane: 0,
            }),
        }
    }
    arrows.sort_by_key(|arrow| {
        let (first, last) = arrow.span();
        (last - first, first)
    });
    arrows.truncate(MAX_ARROWS);
    let mut lanes: Vec<Vec<(usize, usize)>> = Vec::new();
    arrows.retain_mut(|arrow| {
        let span = arrow.span();
        let is_free = |taken: &Vec<(usize, usize)>| {
            taken
                .iter()
                .all(|other| other.1 < span.0 || span.1 < other.0)
        };
        let lane = lanes.iter().position(is_free).unwrap_or(lanes.len());
        if lane == MAX_LANES {
            return false;
        }
        if lane == lanes.len() {
            lanes.push(Vec::new());
        }
        lanes[lane].push(span);
        arrow.lane = lane;
        true
    });
    arrows
}

/// Returns the loops with samples, hottest first. An exception: the smallest loop with most of the
/// hottest loop's samples comes first.
pub fn loops(instructions: &[Instruction]) -> Vec<Loop> {
    // Prefix sums: the samples of a loop are a difference.
    let mut sums = vec![(0u64, 0u64)];
    for instruction in instructions {
        let (weight, samples) = sums.last().copied().unwrap_or_default();
        let amount = &instruction.amount;
        let own = (
            weight.saturating_add(amount.own),
            samples + amount.own_samples,
        );
        sums.push(own);
    }
    let mut loops: Vec<Loop> = jumps(instructions)
        .filter(|(source, target)| target <= source)
        .map(|(source, target)| {
            let (own, own_samples) = (
                sums[source + 1].0 - sums[target].0,
                sums[source + 1].1 - sums[target].1,
            );
            Loop {
                start: instructions[target].address,
                end: instructions[source].address,
                instructions: source + 1 - target,
                amount: Amount {
                    own,
                    own_samples,
                    ..Amount::default()
                },
            }
        })
        .filter(|found| found.amount.own > 0)
        .collect();
    loops.sort_by_key(|found| (u64::MAX - found.amount.own, found.instructions));
    // Backward jumps to one target form one loop, the longest.
    let mut starts = FxHashSet::default();
    loops.retain(|found| starts.insert(found.start));
    loops.truncate(MAX_LOOPS);
    if let Some(most) = loops.first().map(|first| first.amount.own) {
        let nearly = |found: &Loop| found.amount.own as f64 >= NEARLY_ALL * most as f64;
        let inner = (loops.iter().enumerate().filter(|(_, found)| nearly(found)))
            .min_by_key(|(_, found)| found.instructions);
        if let Some((at, _)) = inner {
            let inner = loops.remove(at);
            loops.insert(0, inner);
        }
    }
    loops
}

/// Minimum share of the hottest loop's samples to be listed first.
const NEARLY_ALL: f64 = 0.8;

#[cfg(test)]
mod tests {
    use super::*;

    fn code(weights: &[u64], jumps: &[(usize, u64)]) -> Vec<Instruction> {
        let instruction = |(at, own): (usize, &u64)| {
            let jump = jumps.iter().find(|(from, _)| *from == at);
            Instruction {
                address: at as u64,
                amount: Amount::of(*own, *own, true),
                flow: jump.map_or(Flow::Next, |_| Flow::Branch),
                target: jump.map(|(_, to)| *to),
                ..Instruction::default()
            }
        };
        weights.iter().enumerate().map(instruction).collect()
    }

    #[test]
    fn short_arrows_are_innermost_and_jumps_to_one_place_share_one() {
        let code = code(&[0; 10], &[(1, 8), (3, 5), (4, 8), (9, 0), (6, 77)]);
        let arrows = arrows(&code);
        let shown: Vec<_> = arrows
            .iter()
            .map(|a| (a.target, &*a.sources, a.lane))
            .collect();
        assert_eq!(
            shown,
            [(5, &[3][..], 0), (8, &[1, 4][..], 1), (0, &[9][..], 2)]
        );
    }

    #[test]
    fn the_inner_loop_with_nearly_all_samples_comes_first() {
        let weights = [1, 0, 40, 40, 40, 0, 5, 0];
        let found = loops(&code(&weights, &[(4, 2), (7, 0)]));
        let shown: Vec<_> = found
            .iter()
            .map(|l| (l.start, l.end, l.amount.own))
            .collect();
        assert_eq!(shown, [(2, 4, 120), (0, 7, 126)]);
        let cold = loops(&code(&[9, 0, 0], &[(2, 1)]));
        assert!(cold.is_empty());
    }

    #[test]
    fn lanes_have_an_end() {
        let jumps: Vec<(usize, u64)> = (0..20).map(|n| (n, 39 - n as u64)).collect();
        let arrows = arrows(&code(&[0; 40], &jumps));
        assert_eq!(arrows.len(), MAX_LANES);
    }
}

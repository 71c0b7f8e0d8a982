//! Stacks of both sides, as rows.

use std::collections::hash_map::Entry;

use rustc_hash::{FxHashMap, FxHashSet};

use super::StackDiff;
use super::matching::renamed;
use super::sides::Sides;
use crate::intern::{Lists, Values};

pub(super) fn stacks(sides: &Sides<'_>) -> (Vec<StackDiff>, Vec<String>) {
    let mut names: Values<String> = Values::default();
    let mut lists: Lists<u32> = Lists::default();
    let mut stacks: Vec<StackDiff> = Vec::new();
    let mut list = Vec::new();
    for (side, runs) in sides.runs.iter().enumerate() {
        for run in runs {
            let comms: Vec<u32> = (run.profile.comms.iter())
                .map(|comm| names.intern(comm.clone()))
                .collect();
            let scale = 1.0 / (run.work * runs.len() as f64);
            for entry in run.entries() {
                let comm = comms[run.profile.thread(entry.thread).comm as usize];
                list.clear();
                list.push(comm);
                list.extend(run.stack(entry));
                let (number, is_new) = lists.intern(&list);
                if is_new {
                    stacks.push(StackDiff {
                        comm,
                        rows: list[1..].into(),
                        weights: [0; 2],
                        amounts: [0.0; 2],
                    });
                }
                let stack = &mut stacks[number as usize];
                let weight = run.weight(entry);
                stack.weights[side] = stack.weights[side].saturating_add(weight);
                stack.amounts[side] += weight as f64 * scale;
            }
        }
    }
    let names = names.into_vec();
    (with_renamed_threads(stacks, &names), names)
}

/// Renames old threads after new ones with common stacks: `./app-old` becomes `./app-new`.
fn with_renamed_threads(stacks: Vec<StackDiff>, names: &[String]) -> Vec<StackDiff> {
    let mut held: FxHashMap<&str, [FxHashSet<&[u32]>; 2]> = FxHashMap::default();
    for stack in &stacks {
        let sides = held.entry(&names[stack.comm as usize]).or_default();
        for (side, weight) in sides.iter_mut().zip(stack.weights) {
            if weight > 0 {
                side.insert(&stack.rows);
            }
        }
    }
    let renamed = renamed(&held);
    if renamed.is_empty() {
        return stacks;
    }
    let number = |name: &str| names.iter().position(|known| known == name);
    let renamed: FxHashMap<u32, u32> = (renamed.into_iter())
        .filter_map(|(old, new)| Some((number(old)? as u32, number(new)? as u32)))
        .collect();
    let mut of_key: FxHashMap<(u32, Box<[u32]>), usize> = FxHashMap::default();
    let mut found: Vec<StackDiff> = Vec::with_capacity(stacks.len());
    for mut stack in stacks {
        stack.comm = renamed.get(&stack.comm).copied().unwrap_or(stack.comm);
        match of_key.entry((stack.comm, stack.rows.clone())) {
            Entry::Vacant(new) => {
                new.insert(found.len());
                found.push(stack);
            }
            Entry::Occupied(known) => {
                let known = &mut found[*known.get()];
                for side in [0, 1] {
                    known.weights[side] = known.weights[side].saturating_add(stack.weights[side]);
                    known.amounts[side] += stack.amounts[side];
                }
            }
        }
    }
    found
}

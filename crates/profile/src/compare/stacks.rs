//! Stacks of both sides, as rows.

use super::StackDiff;
use super::sides::Sides;
use crate::intern::{Lists, Values};

/// Sums up stacks of equal rows under equal thread names, in no order. The names come with them.
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
    (stacks, names.into_vec())
}

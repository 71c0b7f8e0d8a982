//! Counts stacks of functions that are named after their path.

use crate::support::{Folded, check};

/// Complete stacks with the right callers, with wrong ones, and truncated ones.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) right: u64,
    pub(super) wrong: u64,
    pub(super) short: u64,
}

impl Counts {
    /// Checks that most are complete. Some come before anybody could look at a new place.
    pub(super) fn mostly_right(&self) -> Result<(), String> {
        check(self.right > self.short * 10, || format!("{self:?}"))
    }
}

/// Counts stacks with a function `LEAF_PATH`. `expected` returns all functions below `main` for a
/// path.
pub(super) fn count(
    stacks: &Folded,
    leaf: &str,
    is_own: impl Fn(&str) -> bool,
    expected: impl Fn(&str) -> Vec<String>,
) -> Counts {
    let mut counts = Counts::default();
    for (stack, samples) in stacks {
        let frames: Vec<&str> = stack.split(';').collect();
        let Some(path) = frames.iter().find_map(|name| name.strip_prefix(leaf)) else {
            continue;
        };
        let own = frames.iter().copied().filter(|name| is_own(name));
        match frames.contains(&"main") || frames.contains(&"run") {
            false => counts.short += samples,
            true if own.eq(expected(path)) => counts.right += samples,
            true => counts.wrong += samples,
        }
    }
    counts
}

//! The stacks of both sides as a tree.

use rprof_profile::compare::ProfileDiff;
use rustc_hash::FxHashMap;

use super::folded::{comms, frames};
use crate::threads::ThreadMerging;

/// Calls of one function by the same callers, on both sides.
#[derive(Debug)]
pub(super) struct Node {
    /// Index of its name in [`Tree::names`].
    pub(super) name: u32,
    /// Children, in the order of their names.
    pub(super) children: Vec<usize>,
    /// Amounts with all that it called, old and new.
    pub(super) amounts: [f64; 2],
    /// Old amount of stacks that end here or below at nodes which the new side does not have.
    pub(super) elided: f64,
}

/// The tree, its root first.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) names: Vec<String>,
    pub(super) nodes: Vec<Node>,
}

impl Tree {
    pub(super) fn of(diff: &ProfileDiff) -> Tree {
        let mut names: Vec<String> = Vec::new();
        let mut numbers: FxHashMap<String, u32> = FxHashMap::default();
        let mut number = |name: String| {
            *numbers.entry(name).or_insert_with_key(|name| {
                names.push(name.clone());
                names.len() as u32 - 1
            })
        };
        let functions: Vec<u32> = frames(diff).into_iter().map(&mut number).collect();
        let threads = ThreadMerging::default().merge(&comms(diff));
        let has_threads = threads.iter().any(|name| !name.is_empty());
        let threads: Vec<u32> = threads.into_iter().map(&mut number).collect();
        let mut nodes = vec![Node::of(u32::MAX)];
        let mut found: FxHashMap<(usize, u32), usize> = FxHashMap::default();
        let mut leaves = Vec::with_capacity(diff.stacks.len());
        for stack in &diff.stacks {
            let thread = has_threads.then(|| threads[stack.comm as usize]);
            let rows = stack.rows.iter().map(|row| functions[*row as usize]);
            let mut at = 0;
            nodes[at].add(stack.amounts);
            for name in thread.into_iter().chain(rows) {
                let before = nodes.len();
                let next = *found.entry((at, name)).or_insert_with(|| {
                    nodes.push(Node::of(name));
                    before
                });
                if nodes.len() > before {
                    nodes[at].children.push(next);
                }
                at = next;
                nodes[at].add(stack.amounts);
            }
            leaves.push((at, stack.amounts[0]));
        }
        let mut tree = Tree { names, nodes };
        tree.elide(&leaves);
        tree.sort();
        tree
    }

    /// Adds to the nodes above each stack that only the old side has what it took.
    fn elide(&mut self, leaves: &[(usize, f64)]) {
        for (leaf, old) in leaves {
            if self.nodes[*leaf].amounts[1] == 0.0 {
                self.nodes[*leaf].elided += old;
            }
        }
        // A node stands behind the one that it hangs on.
        for at in (0..self.nodes.len()).rev() {
            let below: f64 = (self.nodes[at].children.iter())
                .map(|child| self.nodes[*child].elided)
                .sum();
            self.nodes[at].elided += below;
        }
    }

    fn sort(&mut self) {
        for at in 0..self.nodes.len() {
            let mut children = std::mem::take(&mut self.nodes[at].children);
            children.sort_by_key(|child| &self.names[self.nodes[*child].name as usize]);
            self.nodes[at].children = children;
        }
    }
}

impl Node {
    fn of(name: u32) -> Node {
        Node {
            name,
            children: Vec::new(),
            amounts: [0.0; 2],
            elided: 0.0,
        }
    }

    fn add(&mut self, amounts: [f64; 2]) {
        self.amounts[0] += amounts[0];
        self.amounts[1] += amounts[1];
    }
}

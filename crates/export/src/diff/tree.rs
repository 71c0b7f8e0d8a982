//! The stacks of both sides as a tree.

use rprof_profile::compare::ProfileDiff;
use rustc_hash::FxHashMap;

use super::folded::{comms, names as names_of_functions};
use crate::threads::ThreadMerging;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: u32,
    pub(super) children: Vec<usize>,
    /// Inclusive amounts, old and new.
    pub(super) amounts: [f64; 2],
    /// Old amount of stacks that end here or below at nodes without a new amount.
    pub(super) elided: f64,
}

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
        let functions: Vec<u32> = names_of_functions(diff).map(&mut number).collect();
        let merging = match diff.is_by_request {
            true => ThreadMerging::NONE,
            false => ThreadMerging::default(),
        };
        let threads = merging.merge(&comms(diff));
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

    /// Adds the old amount of each stack that the new side lacks to all nodes of its path.
    fn elide(&mut self, leaves: &[(usize, f64)]) {
        for (leaf, old) in leaves {
            if self.nodes[*leaf].amounts[1] == 0.0 {
                self.nodes[*leaf].elided += old;
            }
        }
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

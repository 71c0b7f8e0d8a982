//! Tries of functions, which trees of calls grow from.

use std::cmp::Ordering;

use rustc_hash::FxHashMap;

use crate::frame::FunctionId;

/// Chains of calls with their beginnings shared. Nodes have the numbers in which they came, each behind its parent.
#[derive(Debug, Default)]
pub(crate) struct Trie {
    functions: Vec<FunctionId>,
    parents: Vec<u32>,
    children: FxHashMap<(u32, FunctionId), u32>,
}

/// Parent of the outermost nodes, which is no node.
pub(crate) const NO_NODE: u32 = u32::MAX;

/// Nodes of a trie in preorder: each before those below it.
#[derive(Debug, Default)]
pub(crate) struct Preorder {
    /// Number of the node in the trie, by place.
    pub(crate) nodes: Vec<u32>,
    /// Place of the parent, [`NO_NODE`] for the outermost, by place.
    pub(crate) parents: Vec<u32>,
    /// Place behind the last node below, by place.
    pub(crate) ends: Vec<u32>,
}

impl Trie {
    /// Number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.functions.len()
    }

    /// Function of a node.
    pub(crate) fn function(&self, node: u32) -> FunctionId {
        self.functions[node as usize]
    }

    /// Returns the node of a function below another, which is made if it is new; below [`NO_NODE`] it is outermost.
    pub(crate) fn child(&mut self, parent: u32, function: FunctionId) -> u32 {
        let (functions, parents) = (&mut self.functions, &mut self.parents);
        *(self.children.entry((parent, function))).or_insert_with(|| {
            functions.push(function);
            parents.push(parent);
            (functions.len() - 1) as u32
        })
    }

    /// Puts the nodes in preorder, siblings in the order given. No recursion, as stacks may be deep.
    pub(crate) fn preorder(&self, order: impl Fn(u32, u32) -> Ordering) -> Preorder {
        // Children of all nodes one behind the other; those of NO_NODE come last.
        let count = self.len();
        let slot = |parent: u32| (parent as usize).min(count);
        let mut starts = vec![0usize; count + 2];
        for parent in &self.parents {
            starts[slot(*parent) + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let mut children = vec![0u32; count];
        for (node, parent) in (0u32..).zip(&self.parents) {
            let at = &mut next[slot(*parent)];
            children[*at] = node;
            *at += 1;
        }
        for parent in 0..=count {
            children[starts[parent]..starts[parent + 1]].sort_unstable_by(|a, b| order(*a, *b));
        }
        let below = |parent: usize| children[starts[parent]..starts[parent + 1]].iter().rev();
        let mut made = Preorder {
            nodes: Vec::with_capacity(count),
            parents: Vec::with_capacity(count),
            ends: (1..=count as u32).collect(),
        };
        let mut pile: Vec<(u32, u32)> = below(count).map(|node| (*node, NO_NODE)).collect();
        while let Some((node, parent)) = pile.pop() {
            let place = made.nodes.len() as u32;
            made.nodes.push(node);
            made.parents.push(parent);
            pile.extend(below(node as usize).map(|child| (*child, place)));
        }
        for place in (0..count).rev() {
            let (parent, end) = (made.parents[place] as usize, made.ends[place]);
            if let Some(of_parent) = made.ends.get_mut(parent) {
                *of_parent = end.max(*of_parent);
            }
        }
        made
    }
}

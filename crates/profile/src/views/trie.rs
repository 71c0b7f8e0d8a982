//! [`Trie`]: prefix tree of call paths.

use std::cmp::Ordering;
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Prefix tree of call paths. Nodes are numbered in insertion order, after their parents.
///
/// `C` identifies a call: a function, or more.
///
/// # Examples
/// ```
/// use rprof_profile::views::trie::{NO_NODE, Trie};
///
/// let mut trie = Trie::default();
/// let main = trie.child(NO_NODE, "main");
/// let [sort, read] = ["sort", "read"].map(|name| trie.child(main, name));
/// assert_eq!(trie.child(main, "sort"), sort);
/// let order = trie.preorder(|a, b| trie.call(a).cmp(trie.call(b)));
/// assert_eq!(order.nodes, [main, read, sort]);
/// assert_eq!(order.parents, [NO_NODE, 0, 0]);
/// ```
#[derive(Clone, Debug)]
pub struct Trie<C> {
    calls: Vec<C>,
    parents: Vec<u32>,
    children: FxHashMap<(u32, C), u32>,
}

/// Parent of roots; not a node.
pub const NO_NODE: u32 = u32::MAX;

/// Nodes in preorder. Fields are indexed by position in that order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preorder {
    /// Node number in insertion order, as in the [`Trie`].
    pub nodes: Vec<u32>,
    /// Position of the parent; [`NO_NODE`] for roots.
    pub parents: Vec<u32>,
    /// Position after the last descendant.
    pub ends: Vec<u32>,
}

impl<C> Default for Trie<C> {
    fn default() -> Trie<C> {
        Trie {
            calls: Vec::new(),
            parents: Vec::new(),
            children: FxHashMap::default(),
        }
    }
}

impl<C: Copy + Eq + Hash> Trie<C> {
    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns true if there is no node.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns the call of a node.
    ///
    /// # Panics
    /// If the node does not exist.
    pub fn call(&self, node: u32) -> C {
        self.calls[node as usize]
    }

    /// Iterates over all nodes, parents first: number, parent ([`NO_NODE`] for roots), call.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = (u32, u32, C)> + '_ {
        let nodes = self.parents.iter().zip(&self.calls).enumerate();
        nodes.map(|(at, (parent, call))| (at as u32, *parent, *call))
    }

    /// Returns a node's child for a call, created if necessary. [`NO_NODE`] is the parent of roots.
    pub fn child(&mut self, parent: u32, call: C) -> u32 {
        let (calls, parents) = (&mut self.calls, &mut self.parents);
        *(self.children.entry((parent, call))).or_insert_with(|| {
            calls.push(call);
            parents.push(parent);
            (calls.len() - 1) as u32
        })
    }

    /// Computes totals from self weights. Missing weights are 0.
    pub fn totals(&self, own: &[u64]) -> Vec<u64> {
        let mut totals = own.to_vec();
        totals.resize(self.len(), 0);
        for (node, parent) in self.parents.iter().enumerate().rev() {
            let total = totals[node];
            if let Some(above) = totals.get_mut(*parent as usize) {
                *above = above.saturating_add(total);
            }
        }
        totals
    }

    /// Sorts nodes in preorder, siblings by `order`. Not recursive, because stacks may be deep.
    pub fn preorder(&self, order: impl Fn(u32, u32) -> Ordering) -> Preorder {
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

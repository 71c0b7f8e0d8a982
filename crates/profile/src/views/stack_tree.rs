//! [`StackTree`]: all stacks as one call tree with replaceable weights.

use crate::frame::FunctionId;
use crate::model::Profile;
use crate::samples::AggregatedStack;
use crate::stacks::StackId;
use crate::views::call_tree::by_name;
use crate::views::top::WeighBy;
use crate::views::trie::NO_NODE;

/// Call tree of all stacks, root first, in preorder and columns: 32 bytes per node.
///
/// A subtree ranges from its node to the node's [end](Self::end), so a drawing skips narrow ones in
/// one step. Siblings are sorted by name.
///
/// # Examples
/// ```
/// use rprof_profile::views::stack_tree::StackTree;
/// use rprof_profile::{ProfileBuilder, WeighBy, WeightUnit};
///
/// let mut builder = ProfileBuilder::new();
/// let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
/// let object = builder.intern_object("/usr/bin/sort");
/// let [main, sort] = ["main", "sort"].map(|name| builder.intern_function(Ok(name), object));
/// let thread = builder.intern_thread_name("sort");
/// let stack = builder.intern_stack(&[main, sort]);
/// builder.add_samples(event, thread, stack, 1, 7);
/// let profile = builder.finish();
///
/// let mut tree = StackTree::of(&profile, &profile.aggregated);
/// tree.set_weights(&profile.aggregated, WeighBy::Period);
/// let below_main: Vec<u32> = tree.children(Some(0)).collect();
/// assert_eq!((tree.function(0), tree.total(0), tree.own(0)), (main, 7, 0));
/// assert_eq!((tree.function(below_main[0]), tree.own(below_main[0])), (sort, 7));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackTree {
    functions: Vec<FunctionId>,
    parents: Vec<u32>,
    ends: Vec<u32>,
    depths: Vec<u32>,
    own: Vec<u64>,
    total: Vec<u64>,
    /// Leaf node of each entry; `NO_NODE` for empty stacks.
    leaves: Vec<u32>,
    whole: u64,
}

impl StackTree {
    /// Builds the tree of stacks, with weights 0.
    pub fn of(profile: &Profile, entries: &[AggregatedStack]) -> StackTree {
        let ranks = ranks(profile);
        let paths: Vec<Path<'_>> = (entries.iter())
            .map(|entry| Path::of(profile, entry.stack))
            .collect();
        let mut tree = StackTree {
            leaves: vec![NO_NODE; entries.len()],
            ..StackTree::default()
        };
        let mut open: Vec<u32> = Vec::new();
        let mut last_outer: &[u32] = &[];
        for entry in in_order(&paths, |frame| {
            ranks[profile.function_of_frame(frame).0 as usize]
        }) {
            let path = paths[entry as usize];
            let known = match std::ptr::eq(path.outer, last_outer) {
                true => path.outer.len(),
                false => 0,
            };
            let function = |depth| profile.function_of_frame(path.frame(depth));
            let same = (known..open.len().min(path.len()))
                .take_while(|depth| tree.functions[open[*depth] as usize] == function(*depth));
            let common = known + same.count();
            tree.close(&mut open, common);
            for depth in common..path.len() {
                tree.parents.push(open.last().copied().unwrap_or(NO_NODE));
                open.push(tree.functions.len() as u32);
                tree.functions.push(function(depth));
                tree.depths.push(depth as u32);
                tree.ends.push(0);
            }
            tree.leaves[entry as usize] = open.last().copied().unwrap_or(NO_NODE);
            last_outer = path.outer;
        }
        tree.close(&mut open, 0);
        tree.functions.shrink_to_fit();
        for column in [&mut tree.parents, &mut tree.ends, &mut tree.depths] {
            column.shrink_to_fit();
        }
        tree.own = vec![0; tree.len()];
        tree.total = vec![0; tree.len()];
        tree
    }

    fn close(&mut self, open: &mut Vec<u32>, kept: usize) {
        let end = self.functions.len() as u32;
        for node in open.drain(kept..) {
            self.ends[node as usize] = end;
        }
    }

    /// Sets the weights. `entries` must be the constructor's in the same order, with any weights.
    pub fn set_weights(&mut self, entries: &[AggregatedStack], by: WeighBy) {
        self.own.fill(0);
        self.whole = 0;
        for (entry, leaf) in entries.iter().zip(&self.leaves) {
            let weight = by.of(entry);
            self.whole = self.whole.saturating_add(weight);
            if let Some(own) = self.own.get_mut(*leaf as usize) {
                *own = own.saturating_add(weight);
            }
        }
        self.total.copy_from_slice(&self.own);
        for at in (0..self.total.len()).rev() {
            let total = self.total[at];
            if let Some(of_parent) = self.total.get_mut(self.parents[at] as usize) {
                *of_parent = of_parent.saturating_add(total);
            }
        }
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Returns true if there is no node.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Returns the sum of all weights.
    pub fn whole(&self) -> u64 {
        self.whole
    }

    /// Returns the function of a node.
    ///
    /// # Panics
    /// If the node does not exist, as in all methods.
    pub fn function(&self, node: u32) -> FunctionId {
        self.functions[node as usize]
    }

    /// Returns the parent of a node; `None` for a root.
    pub fn parent(&self, node: u32) -> Option<u32> {
        Some(self.parents[node as usize]).filter(|parent| *parent != NO_NODE)
    }

    /// Returns the index after a node's last descendant.
    pub fn end(&self, node: u32) -> u32 {
        self.ends[node as usize]
    }

    /// Returns the number of ancestors of a node.
    pub fn depth(&self, node: u32) -> u32 {
        self.depths[node as usize]
    }

    /// Returns the weight of samples that end at a node.
    pub fn own(&self, node: u32) -> u64 {
        self.own[node as usize]
    }

    /// Returns the weight of samples through a node.
    pub fn total(&self, node: u32) -> u64 {
        self.total[node as usize]
    }

    /// Iterates over a node's children (`None`: roots), by name.
    pub fn children(&self, node: Option<u32>) -> impl Iterator<Item = u32> + '_ {
        let (first, end) = match node {
            Some(node) => (node + 1, self.end(node)),
            None => (0, self.len() as u32),
        };
        let next = move |at: &u32| Some(self.end(*at)).filter(|next| *next < end);
        std::iter::successors((first < end).then_some(first), next)
    }
}

#[derive(Clone, Copy, Debug)]
struct Path<'p> {
    /// Callers. Equal ones share this slice.
    outer: &'p [u32],
    inner: &'p [u32],
}

impl<'p> Path<'p> {
    fn of(profile: &'p Profile, stack: StackId) -> Path<'p> {
        let (outer, inner) = profile.stacks.lists(stack);
        Path {
            outer: profile.stacks.list(outer),
            inner: profile.stacks.list(inner),
        }
    }

    fn len(self) -> usize {
        self.outer.len() + self.inner.len()
    }

    fn frame(self, depth: usize) -> u32 {
        match depth.checked_sub(self.outer.len()) {
            None => self.outer[depth],
            Some(depth) => self.inner[depth],
        }
    }
}

fn ranks(profile: &Profile) -> Vec<u32> {
    let mut order: Vec<u32> = (0..profile.functions.len() as u32).collect();
    order.sort_unstable_by(|a, b| by_name(profile, FunctionId(*a), FunctionId(*b)));
    let mut ranks = vec![0u32; order.len()];
    for (rank, function) in (0..).zip(&order) {
        ranks[*function as usize] = rank;
    }
    ranks
}

/// Sorts paths by the ranks of their frames. Returns their indexes.
///
/// Sorts by level, so each shared prefix is examined once, however deep.
fn in_order(paths: &[Path<'_>], rank: impl Fn(u32) -> u32) -> Vec<u32> {
    let rank_at = |path: u32, depth: usize| {
        let path = paths[path as usize];
        (depth < path.len()).then(|| rank(path.frame(depth)))
    };
    let mut order: Vec<u32> = (0..paths.len() as u32).collect();
    let mut ranked: Vec<(Option<u32>, u32)> = Vec::new();
    let mut groups = vec![(0, order.len(), 0)];
    while let Some((first, end, mut depth)) = groups.pop() {
        let group = &mut order[first..end];
        let [one, others @ ..] = &*group else {
            continue;
        };
        let outer = paths[*one as usize].outer;
        let has_outer = |path: &u32| std::ptr::eq(paths[*path as usize].outer, outer);
        if depth < outer.len() && others.iter().all(has_outer) {
            depth = outer.len();
        }
        let mut at = rank_at(*one, depth);
        while at.is_some() && others.iter().all(|path| rank_at(*path, depth) == at) {
            depth += 1;
            at = rank_at(*one, depth);
        }
        ranked.clear();
        ranked.extend(group.iter().map(|path| (rank_at(*path, depth), *path)));
        ranked.sort_unstable();
        for (place, (_, path)) in group.iter_mut().zip(&ranked) {
            *place = *path;
        }
        let mut start = first;
        for equal in ranked.chunk_by(|(a, _), (b, _)| a == b) {
            if equal.len() > 1 && equal[0].0.is_some() {
                groups.push((start, start + equal.len(), depth + 1));
            }
            start += equal.len();
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Keys, ProfileBuilder, TopFunctions, WeightUnit};
    use proptest::prelude::*;

    fn profile(stacks: &[(Vec<u8>, u64)]) -> Profile {
        let mut builder = ProfileBuilder::new();
        let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
        let object = builder.intern_object("o");
        let thread = builder.intern_thread_name("t");
        for (stack, weight) in stacks {
            let name = |number: &u8| format!("f{number}");
            let frames: Vec<_> = (stack.iter())
                .map(|number| builder.intern_function(Ok(&name(number)), object))
                .collect();
            let stack = builder.intern_stack(&frames);
            builder.add_samples(event, thread, stack, 1, *weight);
        }
        builder.finish()
    }

    fn weighed(profile: &Profile) -> StackTree {
        let mut tree = StackTree::of(profile, &profile.aggregated);
        tree.set_weights(&profile.aggregated, WeighBy::Period);
        tree
    }

    #[test]
    fn siblings_are_in_the_order_of_names_and_subtrees_lie_together() {
        let profile = profile(&[
            (vec![0, 2, 3], 5),
            (vec![0, 1], 2),
            (vec![4], 3),
            (vec![0, 2], 1),
            (vec![], 9),
        ]);
        let tree = weighed(&profile);
        let text = |at: u32| {
            let name = profile.function(tree.function(at)).name.clone().unwrap();
            format!(
                "{}{name}:{}/{}",
                ".".repeat(tree.depth(at) as usize),
                tree.own(at),
                tree.total(at)
            )
        };
        let lines: Vec<String> = (0..tree.len() as u32).map(text).collect();
        assert_eq!(
            lines,
            ["f0:0/8", ".f1:2/2", ".f2:1/6", "..f3:5/5", "f4:3/3"]
        );
        let ends: Vec<u32> = (0..5).map(|at| tree.end(at)).collect();
        assert_eq!(ends, [4, 2, 4, 4, 5]);
        assert_eq!(tree.whole(), 20);
        assert_eq!(tree.parent(3), Some(2));
        assert_eq!(tree.children(None).collect::<Vec<_>>(), [0, 4]);
    }

    proptest! {
        #[test]
        fn nodes_are_the_sorted_beginnings_of_stacks(stacks in prop::collection::vec((prop::collection::vec(0u8..4, 0..9), 1u64..9), 1..40)) {
            let profile = profile(&stacks);
            let tree = weighed(&profile);
            let mut totals: std::collections::BTreeMap<Vec<u8>, u64> = Default::default();
            for (stack, weight) in &stacks {
                for length in 1..=stack.len() {
                    *totals.entry(stack[..length].to_vec()).or_default() += weight;
                }
            }
            let digit = |at: u32| profile.function(tree.function(at)).name.as_deref().unwrap().as_bytes()[1] - b'0';
            let path = |at: u32| {
                let mut path: Vec<u8> = std::iter::successors(Some(at), |at| tree.parent(*at)).map(digit).collect();
                path.reverse();
                path
            };
            let nodes: Vec<(Vec<u8>, u64)> = (0..tree.len() as u32).map(|at| (path(at), tree.total(at))).collect();
            prop_assert_eq!(nodes, totals.into_iter().collect::<Vec<_>>());
            for at in 0..tree.len() as u32 {
                let end = (at + 1..tree.len() as u32).find(|next| tree.depth(*next) <= tree.depth(at));
                prop_assert_eq!(tree.end(at), end.unwrap_or(tree.len() as u32));
                prop_assert_eq!(tree.depth(at) as usize, path(at).len() - 1);
            }
        }

        #[test]
        fn weights_are_those_of_the_table(stacks in prop::collection::vec((prop::collection::vec(0u8..5, 1..7), 1u64..9), 1..30)) {
            let profile = profile(&stacks);
            let tree = weighed(&profile);
            for at in 0..tree.len() as u32 {
                let below: u64 = tree.children(Some(at)).map(|child| tree.total(child)).sum();
                prop_assert_eq!(below + tree.own(at), tree.total(at));
                prop_assert!(tree.children(Some(at)).all(|child| tree.parent(child) == Some(at)));
            }
            let top = TopFunctions::of(&profile, 0, WeighBy::Period, Keys::FUNCTIONS);
            for row in top.rows {
                let of = |at: &u32| Some(tree.function(*at)) == row.key.function;
                let own: u64 = (0..tree.len() as u32).filter(of).map(|at| tree.own(at)).sum();
                prop_assert_eq!(own, row.self_weight);
            }
        }
    }
}

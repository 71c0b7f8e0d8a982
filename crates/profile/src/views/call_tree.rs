//! [`CallTree`]: callers or callees of a row's functions.

use std::cmp::Ordering;

use rustc_hash::FxHashMap;

use crate::frame::FunctionId;
use crate::model::Profile;
use crate::views::top::{Keys, RowKey, WeighBy, key};
use crate::views::trie::{NO_NODE, Trie};

/// Direction of a call tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Leaf functions with their callers below. The tree weighs as much as its row's self.
    Callers,
    /// Outermost activations with their callees below. The tree weighs as much as its row's total.
    Callees,
}

/// Node of a call tree: a call path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallNode {
    /// Last function of the path.
    pub function: FunctionId,
    /// Weight of the samples with this path.
    pub weight: u64,
    /// Weight of the stacks that end here.
    pub own: u64,
    /// Distance from the row's function, from 1.
    pub depth: u32,
    /// Index after the last descendant.
    pub end: usize,
}

/// Callers or callees of a row's functions, in preorder; siblings heaviest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallTree {
    /// Nodes, without one for the row.
    pub nodes: Vec<CallNode>,
}

impl CallTree {
    /// Builds the trees of an event's rows, in the same order.
    ///
    /// # Examples
    /// ```
    /// use rprof_profile::views::call_tree::{CallTree, Growth};
    /// use rprof_profile::{Keys, ProfileBuilder, TopFunctions, WeighBy, WeightUnit};
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
    /// let mut top = TopFunctions::of(&profile, 0, WeighBy::Period, Keys::FUNCTIONS);
    /// top.sort(false);
    /// let keys = [top.rows[0].key];
    /// let trees = CallTree::of(&profile, 0, WeighBy::Period, Keys::FUNCTIONS, &keys, Growth::Callers);
    /// assert_eq!((trees[0].nodes[0].function, trees[0].nodes[0].weight), (main, 7));
    /// ```
    pub fn of(
        profile: &Profile,
        event: usize,
        weight: WeighBy,
        keys: Keys,
        rows: &[RowKey],
        growth: Growth,
    ) -> Vec<CallTree> {
        let numbers: FxHashMap<RowKey, usize> = rows
            .iter()
            .enumerate()
            .map(|(number, row)| (*row, number))
            .collect();
        let mut tries: Vec<Growing> = rows.iter().map(|_| Growing::default()).collect();
        let mut counted = vec![0usize; rows.len()];
        let entries = profile
            .aggregated
            .iter()
            .filter(|entry| entry.event == event);
        for (number, entry) in (1..).zip(entries) {
            let weight = weight.of(entry);
            let row = |function| numbers.get(&key(profile, entry, function, keys)).copied();
            let stack: Vec<FunctionId> = profile.stack(entry.stack).collect();
            match growth {
                Growth::Callers => {
                    if let Some((leaf, callers)) = stack.split_last()
                        && let Some(row) = row(*leaf)
                    {
                        tries[row].insert(callers.iter().rev(), weight);
                    }
                }
                Growth::Callees => {
                    for (at, function) in stack.iter().enumerate() {
                        if let Some(row) = row(*function)
                            && std::mem::replace(&mut counted[row], number) != number
                        {
                            tries[row].insert(stack[at + 1..].iter(), weight);
                        }
                    }
                }
            }
        }
        tries
            .into_iter()
            .map(|trie| trie.into_tree(profile))
            .collect()
    }

    /// Iterates over a node's children (`None`: top-level nodes), by index.
    pub fn children(&self, node: Option<usize>) -> impl Iterator<Item = usize> + '_ {
        let (first, end) = match node {
            Some(node) => (node + 1, self.nodes[node].end),
            None => (0, self.nodes.len()),
        };
        let next = move |at: &usize| Some(self.nodes[*at].end).filter(|next| *next < end);
        std::iter::successors((first < end).then_some(first), next)
    }
}

#[derive(Default)]
struct Growing {
    trie: Trie<FunctionId>,
    weights: Vec<(u64, u64)>,
}

impl Growing {
    fn insert<'f>(&mut self, path: impl Iterator<Item = &'f FunctionId>, weight: u64) {
        let mut at = NO_NODE;
        for function in path {
            at = self.trie.child(at, *function);
            self.weights.resize(self.trie.len(), (0, 0));
            let (sum, _) = &mut self.weights[at as usize];
            *sum = sum.saturating_add(weight);
        }
        if let Some((_, own)) = self.weights.get_mut(at as usize) {
            *own = own.saturating_add(weight);
        }
    }

    fn into_tree(self, profile: &Profile) -> CallTree {
        let weight = |node: u32| self.weights[node as usize].0;
        let order = self.trie.preorder(|a, b| {
            let by_weight = weight(b).cmp(&weight(a));
            by_weight.then_with(|| by_name(profile, self.trie.call(a), self.trie.call(b)))
        });
        let mut nodes: Vec<CallNode> = Vec::with_capacity(order.nodes.len());
        for ((node, parent), end) in order.nodes.iter().zip(&order.parents).zip(&order.ends) {
            let (weight, own) = self.weights[*node as usize];
            nodes.push(CallNode {
                function: self.trie.call(*node),
                weight,
                own,
                depth: nodes.get(*parent as usize).map_or(0, |parent| parent.depth) + 1,
                end: *end as usize,
            });
        }
        CallTree { nodes }
    }
}

pub(crate) fn by_name(profile: &Profile, a: FunctionId, b: FunctionId) -> Ordering {
    let name = |id: FunctionId| {
        let function = profile.function(id);
        (
            function.name.as_deref().ok(),
            &*profile.object(function.object).name,
        )
    };
    name(a).cmp(&name(b)).then(a.cmp(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProfileBuilder, TopFunctions, WeightUnit};
    use proptest::prelude::*;

    fn profile(stacks: &[(Vec<u8>, u64)]) -> Profile {
        let mut builder = ProfileBuilder::new();
        let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
        let object = builder.intern_object("o");
        let thread = builder.intern_thread_name("t");
        for (stack, weight) in stacks {
            let frames: Vec<_> = (stack.iter())
                .map(|name| builder.intern_function(Ok(&format!("f{name}")), object))
                .collect();
            let stack = builder.intern_stack(&frames);
            builder.add_samples(event, thread, stack, 1, *weight);
        }
        builder.finish()
    }

    fn trees(profile: &Profile, growth: Growth) -> Vec<(crate::TopRow, CallTree)> {
        let top = TopFunctions::of(profile, 0, WeighBy::Period, Keys::FUNCTIONS);
        let rows: Vec<RowKey> = top.rows.iter().map(|row| row.key).collect();
        let trees = CallTree::of(profile, 0, WeighBy::Period, Keys::FUNCTIONS, &rows, growth);
        top.rows.into_iter().zip(trees).collect()
    }

    fn text(profile: &Profile, tree: &CallTree) -> String {
        let line = |node: &CallNode| {
            let name = profile
                .function(node.function)
                .name
                .as_deref()
                .unwrap_or("?");
            format!("{}{name}:{}", ".".repeat(node.depth as usize), node.weight)
        };
        tree.nodes.iter().map(line).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn callers_and_callees_are_summed_up() {
        let stacks = [
            (vec![0, 1, 3], 5),
            (vec![0, 2, 3], 2),
            (vec![0, 2, 3, 3], 4),
            (vec![0, 2], 1),
        ];
        let profile = profile(&stacks);
        let of = |name: &str, growth| {
            let all = trees(&profile, growth);
            let is_it = |row: &crate::TopRow| {
                row.key
                    .function
                    .is_some_and(|id| profile.function(id).name.as_deref() == Ok(name))
            };
            let (_, tree) = all.into_iter().find(|(row, _)| is_it(row)).unwrap();
            text(&profile, &tree)
        };
        assert_eq!(
            of("f3", Growth::Callers),
            ".f1:5 ..f0:5 .f3:4 ..f2:4 ...f0:4 .f2:2 ..f0:2"
        );
        assert_eq!(
            of("f0", Growth::Callees),
            ".f2:7 ..f3:6 ...f3:4 .f1:5 ..f3:5"
        );
        assert_eq!(of("f3", Growth::Callees), ".f3:4");
        assert_eq!(of("f0", Growth::Callers), "");
    }

    proptest! {
        /// Children and self make up a node. Top-level nodes weigh at most the row's self or total.
        #[test]
        fn weights_add_up(stacks in prop::collection::vec((prop::collection::vec(0u8..5, 1..6), 1u64..9), 1..20)) {
            let profile = profile(&stacks);
            for growth in [Growth::Callers, Growth::Callees] {
                for (row, tree) in trees(&profile, growth) {
                    let sum = |node| tree.children(node).map(|at| tree.nodes[at].weight).sum::<u64>();
                    let all = match growth {
                        Growth::Callers => row.self_weight,
                        Growth::Callees => row.total_weight,
                    };
                    prop_assert!(sum(None) <= all);
                    for (at, node) in tree.nodes.iter().enumerate() {
                        prop_assert_eq!(sum(Some(at)) + node.own, node.weight);
                        prop_assert!(tree.children(Some(at)).all(|child| tree.nodes[child].depth == node.depth + 1));
                        let weights: Vec<u64> = tree.children(Some(at)).map(|c| tree.nodes[c].weight).collect();
                        prop_assert!(weights.is_sorted_by(|a, b| a >= b));
                    }
                }
            }
        }
    }
}

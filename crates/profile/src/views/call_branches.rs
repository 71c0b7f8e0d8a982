//! [`CallBranches`]: lazy tree of callers or callees.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::frame::FunctionId;
use crate::model::Profile;
use crate::samples::AggregatedStack;
use crate::views::call_tree::Growth;
use crate::views::top::WeighBy;

/// Tree of a function's callers or callees. [`children`](Self::children) creates nodes on demand.
///
/// A complete caller tree has a node for nearly each frame of each stack, because stacks share
/// their roots but not their leaves. This tree lists the stacks that contain the function, each at
/// the outermost activation. A node is a range of that list, partitioned in place for its children.
/// Memory: 16 bytes per stack, plus the nodes.
#[derive(Clone, Debug, Default)]
pub struct CallBranches {
    nodes: Vec<Branch>,
    places: Vec<Place>,
    first: Option<Range<u32>>,
    growth: Option<Growth>,
    whole: u64,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    entry: u32,
    /// Index of the tree's first frame in this stack.
    frame: u32,
    weight: u64,
}

#[derive(Clone, Debug)]
struct Branch {
    function: FunctionId,
    parent: Option<u32>,
    depth: u32,
    own: u64,
    total: u64,
    places: Range<u32>,
    children: Option<Range<u32>>,
}

impl CallBranches {
    /// Creates the tree of a function. Its top-level nodes are direct callers or callees.
    pub fn of_function(
        profile: &Profile,
        entries: &[AggregatedStack],
        by: WeighBy,
        function: FunctionId,
        growth: Growth,
    ) -> CallBranches {
        let outermost = |entry: &AggregatedStack| {
            let at = profile.stack(entry.stack).position(|id| id == function)?;
            Some(at as u32)
        };
        CallBranches::of_places(entries, by, growth, outermost)
    }

    /// Creates the tree of all stacks. Its top-level nodes are the leaf (callers) or root functions
    /// (callees). In a caller tree, a leaf function has its self weight.
    pub fn of_all(
        profile: &Profile,
        entries: &[AggregatedStack],
        by: WeighBy,
        growth: Growth,
    ) -> CallBranches {
        let beyond = |entry: &AggregatedStack| match growth {
            Growth::Callers => Some(profile.depth(entry.stack) as u32),
            Growth::Callees => Some(u32::MAX),
        };
        CallBranches::of_places(entries, by, growth, beyond)
    }

    fn of_places(
        entries: &[AggregatedStack],
        by: WeighBy,
        growth: Growth,
        frame: impl Fn(&AggregatedStack) -> Option<u32>,
    ) -> CallBranches {
        let weighty = (0u32..).zip(entries).filter(|(_, entry)| by.of(entry) > 0);
        let places: Vec<Place> = weighty
            .filter_map(|(index, entry)| {
                Some(Place {
                    entry: index,
                    frame: frame(entry)?,
                    weight: by.of(entry),
                })
            })
            .collect();
        CallBranches {
            whole: (places.iter()).fold(0, |sum, place| sum.saturating_add(place.weight)),
            places,
            growth: Some(growth),
            ..CallBranches::default()
        }
    }

    /// Returns the total weight of the tree's stacks.
    pub fn whole(&self) -> u64 {
        self.whole
    }

    /// Returns the number of nodes created so far.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns true without nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the function of a node.
    ///
    /// # Panics
    /// If the node does not exist, as in all methods.
    pub fn function(&self, node: u32) -> FunctionId {
        self.nodes[node as usize].function
    }

    /// Returns the parent of a node; `None` for top-level nodes.
    pub fn parent(&self, node: u32) -> Option<u32> {
        self.nodes[node as usize].parent
    }

    /// Returns the number of ancestors of a node.
    pub fn depth(&self, node: u32) -> u32 {
        self.nodes[node as usize].depth
    }

    /// Returns the weight of stacks that end at a node.
    pub fn own(&self, node: u32) -> u64 {
        self.nodes[node as usize].own
    }

    /// Returns the weight of stacks through a node.
    pub fn total(&self, node: u32) -> u64 {
        self.nodes[node as usize].total
    }

    /// Returns a node's children (`None`: top-level nodes) if [created](Self::children).
    pub fn made(&self, node: Option<u32>) -> Option<Range<u32>> {
        match node {
            None => self.first.clone(),
            Some(node) => self.nodes[node as usize].children.clone(),
        }
    }

    /// Returns a node's children (`None`: top-level nodes), heaviest first. Creates them in time
    /// linear in the stacks through the node.
    ///
    /// `profile` and `entries` must be the constructor's.
    pub fn children(
        &mut self,
        profile: &Profile,
        entries: &[AggregatedStack],
        node: Option<u32>,
    ) -> Range<u32> {
        if let Some(made) = self.made(node) {
            return made;
        }
        let (range, depth) = match node {
            None => (0..self.places.len() as u32, 0),
            Some(node) => {
                let node = &self.nodes[node as usize];
                (node.places.clone(), node.depth + 1)
            }
        };
        let steps = depth + 1;
        let growth = self.growth.unwrap_or(Growth::Callees);
        let next = |place: &Place| {
            let frame = match growth {
                Growth::Callers => place.frame.checked_sub(steps)?,
                Growth::Callees => place.frame.wrapping_add(steps),
            };
            let entry = entries.get(place.entry as usize)?;
            profile.function_at(entry.stack, frame as usize)
        };
        let first = self.nodes.len() as u32;
        let mut groups: Vec<(FunctionId, u64, u32)> = Vec::new();
        let mut numbers: FxHashMap<FunctionId, u32> = FxHashMap::default();
        let mut of_place: Vec<Option<u32>> = Vec::with_capacity(range.len());
        let places = &mut self.places[range.start as usize..range.end as usize];
        let mut ends_here = 0u64;
        for place in places.iter() {
            let Some(function) = next(place) else {
                ends_here = ends_here.saturating_add(place.weight);
                of_place.push(None);
                continue;
            };
            let number = *numbers.entry(function).or_insert_with(|| {
                groups.push((function, 0, 0));
                (groups.len() - 1) as u32
            });
            let (_, weight, count) = &mut groups[number as usize];
            *weight = weight.saturating_add(place.weight);
            *count += 1;
            of_place.push(Some(number));
        }
        let mut order: Vec<u32> = (0..groups.len() as u32).collect();
        let key = |number: &u32| groups[*number as usize];
        order.sort_unstable_by(|a, b| {
            let by_weight = key(b).1.cmp(&key(a).1);
            by_weight.then_with(|| crate::views::call_tree::by_name(profile, key(a).0, key(b).0))
        });
        let mut starts = vec![0u32; groups.len() + 1];
        let mut at = 0;
        for number in &order {
            starts[*number as usize] = at;
            let (function, total, count) = groups[*number as usize];
            self.nodes.push(Branch {
                function,
                parent: node,
                depth,
                own: 0,
                total,
                places: range.start + at..range.start + at + count,
                children: None,
            });
            at += count;
        }
        if let Some(last) = starts.last_mut() {
            *last = at;
        }
        let old: Vec<Place> = places.to_vec();
        for (place, group) in old.into_iter().zip(of_place) {
            let slot = group.map_or(groups.len(), |group| group as usize);
            places[starts[slot] as usize] = place;
            starts[slot] += 1;
        }
        let made = first..self.nodes.len() as u32;
        match node {
            None => self.first = Some(made.clone()),
            Some(node) => {
                let node = &mut self.nodes[node as usize];
                node.own = ends_here;
                node.children = Some(made.clone());
            }
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProfileBuilder, WeightUnit};

    fn profile(stacks: &[(&[u8], u64)]) -> Profile {
        let mut builder = ProfileBuilder::new();
        let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
        let object = builder.intern_object("o");
        let thread = builder.intern_thread_name("t");
        for number in 0..6 {
            builder.intern_function(Ok(&format!("f{number}")), object);
        }
        for (stack, weight) in stacks {
            let frames: Vec<_> = (stack.iter())
                .map(|number| FunctionId(u32::from(*number)))
                .collect();
            let stack = builder.intern_stack(&frames);
            builder.add_samples(event, thread, stack, 1, *weight);
        }
        builder.finish()
    }

    fn text(profile: &Profile, mut tree: CallBranches) -> String {
        let entries = &profile.aggregated;
        let mut pile: Vec<u32> = tree.children(profile, entries, None).rev().collect();
        let mut words = Vec::new();
        while let Some(node) = pile.pop() {
            let below = tree.children(profile, entries, Some(node));
            words.push(format!(
                "{}f{}:{}",
                ".".repeat(tree.depth(node) as usize),
                tree.function(node).0,
                tree.total(node)
            ));
            let sum: u64 = below.clone().map(|child| tree.total(child)).sum();
            assert_eq!(sum + tree.own(node), tree.total(node));
            pile.extend(below.rev());
        }
        words.join(" ")
    }

    #[test]
    fn callers_and_callees_count_recursion_once() {
        let profile = profile(&[
            (&[0, 1, 3], 5),
            (&[0, 2, 3], 2),
            (&[0, 2, 3, 3], 4),
            (&[0, 2], 1),
        ]);
        let of = |function, growth| {
            let function = FunctionId(function);
            let entries = &profile.aggregated;
            CallBranches::of_function(&profile, entries, WeighBy::Period, function, growth)
        };
        assert_eq!(of(3, Growth::Callers).whole(), 11);
        let callers = text(&profile, of(3, Growth::Callers));
        assert_eq!(callers, "f2:6 .f0:6 f1:5 .f0:5");
        assert_eq!(text(&profile, of(3, Growth::Callees)), "f3:4");
        let callees = text(&profile, of(0, Growth::Callees));
        assert_eq!(callees, "f2:7 .f3:6 ..f3:4 f1:5 .f3:5");
        assert_eq!(text(&profile, of(0, Growth::Callers)), "");
        assert_eq!(of(5, Growth::Callers).whole(), 0);
    }

    #[test]
    fn all_stacks_grow_from_either_end() {
        let profile = profile(&[(&[0, 1], 5), (&[0, 2, 1], 2), (&[4], 1), (&[], 1)]);
        let of =
            |growth| CallBranches::of_all(&profile, &profile.aggregated, WeighBy::Period, growth);
        assert_eq!(
            text(&profile, of(Growth::Callers)),
            "f1:7 .f0:5 .f2:2 ..f0:2 f4:1"
        );
        assert_eq!(
            text(&profile, of(Growth::Callees)),
            "f0:7 .f1:5 .f2:2 ..f1:2 f4:1"
        );
    }
}

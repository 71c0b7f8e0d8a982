//! [`WorkerStacks`]: one worker's stacks, mapped from locations to functions.

use rustc_hash::FxHashMap;

use rprof_profile::StackEnds;
use rprof_profile::intern::Lists;

use crate::assemble::inputs::AssembleInputs;
use crate::assemble::roots::tally;
use crate::groups::{SampleGroup, Weights, WokenBy};
use crate::sample_pass::aggregate_table::Aggregate;
use crate::sample_pass::results::WorkerResult;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct GroupKey {
    /// Id of the group without its stack: see `SampleGroups`.
    pub(super) context: u32,
    /// Ids of frame lists: callers, root first, and leaf frames.
    pub(super) outer: u32,
    pub(super) inner: u32,
}

#[derive(Default)]
pub(super) struct WorkerStacks {
    /// Interned lists of frame ids, root first.
    pub(super) lists: Lists<u32>,
    pub(super) groups: FxHashMap<GroupKey, Weights>,
    pub(super) ends: StackEnds,
    /// Totals by event index.
    pub(super) events: Vec<Weights>,
    /// Number of samples by location id.
    pub(super) at: Vec<u64>,
    /// Key by the worker's key number; `None` if the filter rejects it.
    pub(super) keys: Vec<Option<GroupKey>>,
}

impl WorkerStacks {
    pub(super) fn of(part: &WorkerResult, inputs: &AssembleInputs<'_>) -> WorkerStacks {
        let mut stacks = WorkerStacks {
            at: vec![0; inputs.symbols.symbolized.len()],
            events: vec![Weights::default(); inputs.is_of_memory.len()],
            ..WorkerStacks::default()
        };
        let callers = part.resolved.stacks.callers();
        let outer = stacks.intern_callers(part, inputs);
        let focused = focused_callers(part, inputs);
        let mut leaf_lists = LeafLists {
            of_leaf: vec![None; part.locations.len()],
            with_waker: FxHashMap::default(),
            empty: stacks.lists.intern(&[]).0,
        };
        let mut list = Vec::new();
        let mut called = vec![0u64; callers.len()];
        if inputs.one_by_one {
            stacks.keys.resize(part.resolved.counts.len(), None);
        }
        for Aggregate {
            key: counted,
            id,
            amount,
        } in part.resolved.counts.iter()
        {
            let group = part.resolved.contexts.get(counted.context);
            let stack = LocatedStack {
                leaf: counted.leaf().map(|own| part.locations[own as usize]),
                callers: callers.get(counted.list),
                locations: &part.locations,
            };
            let waker = inputs.waker(group.woken);
            let is_focused = focused.get(counted.list as usize).copied();
            if !stack.is_wanted(group, waker, is_focused.unwrap_or(true), inputs) {
                continue;
            }
            let has_frames = stack.leaf.is_some() || !stack.callers.is_empty();
            if inputs.has_callchains && has_frames {
                // A sample of memory stands for all allocations or page faults of its stack.
                let stands_for = match inputs.is_of_memory[group.event as usize] {
                    true => amount.weight,
                    false => amount.samples,
                };
                tally(
                    &mut stacks.ends,
                    stack.root_first(),
                    group.end,
                    stands_for,
                    inputs,
                );
            }
            called[counted.list as usize] += amount.samples;
            if let Some(leaf) = stack.leaf {
                stacks.at[leaf as usize] += amount.samples;
            }
            stacks.events[group.event as usize].add(amount);
            let waker = waker.map(|(waker, _)| waker);
            let inner = leaf_lists.get(counted.leaf(), waker, || {
                list.clear();
                list.extend(stack.leaf.into_iter().flat_map(|leaf| inputs.frames(leaf)));
                list.extend(waker);
                stacks.lists.intern(&list).0
            });
            let key = GroupKey {
                context: counted.context,
                outer: outer[counted.list as usize],
                inner,
            };
            stacks.groups.entry(key).or_default().add(amount);
            if let Some(of_sample) = stacks.keys.get_mut(*id as usize) {
                *of_sample = Some(key);
            }
        }
        for (callers_id, samples) in (0..).zip(called) {
            for own in callers.get(callers_id) {
                stacks.at[part.locations[*own as usize] as usize] += samples;
            }
        }
        stacks
    }

    /// Interns the frames of each caller list. Keeps their order.
    fn intern_callers(&mut self, part: &WorkerResult, inputs: &AssembleInputs<'_>) -> Vec<u32> {
        let callers = part.resolved.stacks.callers();
        let mut list = Vec::new();
        let outer = (0..callers.len() as u32).map(|callers_id| {
            list.clear();
            let locations = callers.get(callers_id).iter().rev();
            let locations = locations.map(|own| part.locations[*own as usize]);
            list.extend(locations.flat_map(|location| inputs.frames(location)));
            self.lists.intern(&list).0
        });
        outer.collect()
    }
}

/// Returns, by caller list, whether it contains a focused function; empty without a focus.
fn focused_callers(part: &WorkerResult, inputs: &AssembleInputs<'_>) -> Vec<bool> {
    if !inputs.filter.has_focus() {
        return Vec::new();
    }
    let callers = part.resolved.stacks.callers();
    let lists = (0..callers.len() as u32).map(|id| callers.get(id).iter());
    lists
        .map(|mut list| list.any(|own| inputs.filter.is_focused(part.locations[*own as usize])))
        .collect()
}

struct LocatedStack<'a> {
    leaf: Option<u32>,
    /// Worker-local location ids, innermost first.
    callers: &'a [u32],
    /// Global location id by worker-local id.
    locations: &'a [u32],
}

impl LocatedStack<'_> {
    fn callers(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.callers.iter().map(|own| self.locations[*own as usize])
    }

    fn root_first(&self) -> impl Iterator<Item = u32> {
        self.callers().rev().chain(self.leaf)
    }

    /// Returns true if the filter accepts the stack, or the reason or waker of its wait.
    /// `callers_focused` is also true without a focus.
    fn is_wanted(
        &self,
        group: &SampleGroup,
        waker: Option<(u32, &str)>,
        callers_focused: bool,
        inputs: &AssembleInputs<'_>,
    ) -> bool {
        let filter = &inputs.filter;
        let from_leaf = || self.leaf.into_iter().chain(self.callers());
        let reason = inputs.reason(group.event, from_leaf);
        // A runnable thread waited for a CPU: its stack does not show the reason.
        let reason = reason.as_deref().map(|reason| match (group.woken, waker) {
            (WokenBy::Awake, Some((_, name))) => name,
            _ => reason,
        });
        let is_accepted = filter.accepts_leaf(self.leaf, || self.root_first())
            || reason.is_some_and(|reason| filter.accepts_reason(reason));
        is_accepted
            && (callers_focused
                || self.leaf.is_some_and(|leaf| filter.is_focused(leaf))
                || reason.is_some_and(|reason| filter.is_focused_reason(reason))
                || waker.is_some_and(|(_, name)| filter.is_focused_reason(name)))
    }
}

/// Frame lists at the leaf, filled on first use.
struct LeafLists {
    /// By worker-local location id.
    of_leaf: Vec<Option<u32>>,
    /// By worker-local location id and the waker's frame.
    with_waker: FxHashMap<(Option<u32>, u32), u32>,
    empty: u32,
}

impl LeafLists {
    fn get(&mut self, leaf: Option<u32>, waker: Option<u32>, intern: impl FnOnce() -> u32) -> u32 {
        match (leaf, waker) {
            (leaf, Some(waker)) => *(self.with_waker.entry((leaf, waker))).or_insert_with(intern),
            (Some(leaf), None) => *self.of_leaf[leaf as usize].get_or_insert_with(intern),
            (None, None) => self.empty,
        }
    }
}

//! [`WorkerStacks`]: one worker's stacks, mapped from locations to functions.

use rustc_hash::FxHashMap;

use rprof_profile::StackTally;
use rprof_profile::intern::Lists;

use crate::assemble::inputs::AssembleInputs;
use crate::assemble::roots::tally;
use crate::groups::{Weights, WokenBy};
use crate::sample_pass::aggregate_table::Aggregate;
use crate::sample_pass::results::WorkerResult;

/// Aggregate key after symbolization.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct GroupKey {
    /// Id of the group without its stack: see `SampleGroups`.
    pub(super) context: u32,
    /// Ids of frame lists: the callers, root first, and the frames at the leaf.
    pub(super) outer: u32,
    pub(super) inner: u32,
}

#[derive(Default)]
pub(super) struct WorkerStacks {
    /// Interned lists of frame ids, root first.
    pub(super) lists: Lists<u32>,
    pub(super) groups: FxHashMap<GroupKey, Weights>,
    pub(super) ends: StackTally,
    /// Totals by event index.
    pub(super) events: Vec<Weights>,
    /// Number of samples that contain a location, by location id.
    pub(super) at: Vec<u64>,
    /// Key by the worker's key number, for single samples; `None` if the filter rejects it.
    pub(super) keys: Vec<Option<GroupKey>>,
}

impl WorkerStacks {
    pub(super) fn of(part: &WorkerResult, known: &AssembleInputs<'_>) -> WorkerStacks {
        let symbols = known.symbols;
        let mut share = WorkerStacks {
            at: vec![0; symbols.symbolized.len()],
            events: vec![Weights::default(); known.events],
            ..WorkerStacks::default()
        };
        let mut list = Vec::new();
        let callers = part.resolved.stacks.callers();
        let location = |own: u32| part.locations[own as usize];
        let outer: Vec<u32> = (0..callers.len() as u32)
            .map(|callers_id| {
                list.clear();
                let locations = callers.get(callers_id).iter().rev();
                let frames = locations.flat_map(|own| known.frames(location(*own)));
                list.extend(frames);
                share.lists.intern(&list).0
            })
            .collect();
        let nothing = share.lists.intern(&[]).0;
        let focused: Vec<bool> = match known.filter.has_focus() {
            false => Vec::new(),
            true => (0..callers.len() as u32)
                .map(|id| {
                    let mut all = callers.get(id).iter();
                    all.any(|own| known.filter.is_focused(location(*own)))
                })
                .collect(),
        };
        // Frame lists, filled on first use.
        let mut inner: Vec<Option<u32>> = vec![None; part.locations.len()];
        let mut with_waker: FxHashMap<(Option<u32>, u32), u32> = FxHashMap::default();
        let mut called = vec![0u64; callers.len()];
        if known.one_by_one {
            share.keys.resize(part.resolved.counts.len(), None);
        }
        for Aggregate {
            key: counted,
            id,
            amount,
        } in part.resolved.counts.iter()
        {
            let group = part.resolved.contexts.get(counted.context);
            let leaf = counted.leaf().map(location);
            let reason = known.reason(group.event, || {
                leaf.into_iter()
                    .chain(callers.get(counted.list).iter().map(|own| location(*own)))
            });
            let waker = known.waker(group.woken);
            // A runnable thread waited for a CPU: its stack does not tell the reason.
            let reason = reason.as_deref().map(|reason| match (group.woken, waker) {
                (WokenBy::Awake, Some((_, name))) => name,
                _ => reason,
            });
            let from_root = || {
                let callers = callers.get(counted.list).iter().map(|own| location(*own));
                callers.rev().chain(leaf)
            };
            if !known.filter.accepts_leaf(leaf, from_root)
                && !reason.is_some_and(|reason| known.filter.accepts_reason(reason))
            {
                continue;
            }
            if known.filter.has_focus()
                && !focused[counted.list as usize]
                && !leaf.is_some_and(|leaf| known.filter.is_focused(leaf))
                && !reason.is_some_and(|reason| known.filter.is_focused_reason(reason))
                && !waker.is_some_and(|(_, name)| known.filter.is_focused_reason(name))
            {
                continue;
            }
            let has_frames = leaf.is_some() || !callers.get(counted.list).is_empty();
            if known.has_callchains && has_frames {
                tally(
                    &mut share.ends,
                    from_root(),
                    group.end,
                    amount.samples,
                    known,
                );
            }
            called[counted.list as usize] += amount.samples;
            if let Some(leaf) = leaf {
                share.at[leaf as usize] += amount.samples;
            }
            share.events[group.event as usize].add(amount);
            let inner = match (counted.leaf(), waker) {
                (own, Some((waker, _))) => *with_waker.entry((own, waker)).or_insert_with(|| {
                    list.clear();
                    list.extend(own.into_iter().flat_map(|own| known.frames(location(own))));
                    list.push(waker);
                    share.lists.intern(&list).0
                }),
                (None, None) => nothing,
                (Some(own), None) => *inner[own as usize].get_or_insert_with(|| {
                    list.clear();
                    list.extend(known.frames(location(own)));
                    share.lists.intern(&list).0
                }),
            };
            let key = GroupKey {
                context: counted.context,
                outer: outer[counted.list as usize],
                inner,
            };
            share.groups.entry(key).or_default().add(amount);
            if let Some(known) = share.keys.get_mut(*id as usize) {
                *known = Some(key);
            }
        }
        for (callers_id, samples) in (0..).zip(called) {
            for own in callers.get(callers_id) {
                share.at[location(*own) as usize] += samples;
            }
        }
        share
    }
}

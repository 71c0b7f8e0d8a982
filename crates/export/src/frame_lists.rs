//! [`FrameLists`]: lists of frames in an order that follows from names and addresses.

use rprof_profile::{FrameListId, Profile, StackId};
use rustc_hash::FxHashMap;

use crate::locations::Locations;

/// Lists of frames that stacks are made of, each once, sorted by the ranks of their frames.
pub(crate) struct FrameLists {
    /// Ranks of the frames of each list, root first.
    sorted: Vec<Box<[u32]>>,
    places: FxHashMap<FrameListId, u32>,
}

/// A stack by the places of its two lists: callers, and the frames at its leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ListedStack {
    pub(crate) outer: u32,
    pub(crate) inner: u32,
}

impl FrameLists {
    /// Sorts the lists of all stacks that have samples.
    pub(crate) fn new(profile: &Profile, locations: &Locations<'_>) -> FrameLists {
        let mut places: FxHashMap<FrameListId, u32> = FxHashMap::default();
        for entry in &profile.aggregated {
            let (outer, inner) = profile.lists(entry.stack);
            places.insert(outer, 0);
            places.insert(inner, 0);
        }
        let ranks = |list: FrameListId| profile.list(list).map(|frame| locations.rank(frame));
        let mut all: Vec<(Box<[u32]>, FrameListId)> = places
            .keys()
            .map(|list| (ranks(*list).collect(), *list))
            .collect();
        all.sort_unstable();
        let mut sorted: Vec<Box<[u32]>> = Vec::new();
        for (ranks, list) in all {
            // Frames that show the same are one frame here, and so lists may be.
            if sorted.last() != Some(&ranks) {
                sorted.push(ranks);
            }
            places.insert(list, sorted.len() as u32 - 1);
        }
        FrameLists { sorted, places }
    }

    /// Returns a stack that has samples by the places of its lists.
    pub(crate) fn stack(&self, profile: &Profile, stack: StackId) -> ListedStack {
        let (outer, inner) = profile.lists(stack);
        let place = |list| self.places.get(&list).copied().unwrap_or(0);
        ListedStack {
            outer: place(outer),
            inner: place(inner),
        }
    }

    /// Returns the number of lists.
    pub(crate) fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Returns the ranks of the frames of a list, root first.
    pub(crate) fn list(&self, place: u32) -> &[u32] {
        &self.sorted[place as usize]
    }
}

//! [`FrameLists`]: frame lists, sorted by names and addresses.

use rprof_profile::{FrameListId, Profile, StackId};

use crate::frame_ranks::FrameRanks;

/// Marks a list that no stack with samples uses.
const NONE: u32 = u32::MAX;

/// Deduplicated frame lists of the stacks, sorted by the ranks of their frames.
pub(crate) struct FrameLists {
    /// Ranks of the frames of all lists, root first.
    ranks: Vec<u32>,
    /// Begin and end of each list in `ranks`, in sort order.
    sorted: Vec<(usize, usize)>,
    /// Position of each list in `sorted`, by list id.
    places: Vec<u32>,
}

/// Stack as the positions of its two lists: the callers, and the frames at its leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ListedStack {
    pub(crate) outer: u32,
    pub(crate) inner: u32,
}

struct Unsorted {
    /// First two ranks of the list. They decide most comparisons.
    head: u64,
    range: (usize, usize),
    id: FrameListId,
}

impl FrameLists {
    pub(crate) fn new(profile: &Profile, frames: &FrameRanks<'_>) -> FrameLists {
        let (mut ranks, mut places, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for entry in &profile.aggregated {
            let (outer, inner) = profile.lists(entry.stack);
            for id in [outer, inner] {
                let at = id.0 as usize;
                if places.len() <= at {
                    places.resize(at + 1, NONE);
                }
                if places[at] != NONE {
                    continue;
                }
                places[at] = 0;
                let begin = ranks.len();
                ranks.extend(profile.list(id).map(|frame| frames.rank(frame)));
                let mut first = ranks[begin..].iter();
                // A list precedes its extensions.
                let mut next = || first.next().map_or(0, |rank| u64::from(*rank) + 1);
                all.push(Unsorted {
                    head: next() << 32 | next(),
                    range: (begin, ranks.len()),
                    id,
                });
            }
        }
        let list = |(begin, end): (usize, usize)| &ranks[begin..end];
        all.sort_unstable_by(|a, b| {
            let rest = || list(a.range).cmp(list(b.range));
            a.head.cmp(&b.head).then_with(rest)
        });
        let mut sorted: Vec<(usize, usize)> = Vec::with_capacity(all.len());
        for one in &all {
            // Frames that look the same share a rank.
            let last = sorted.last().map(|last| list(*last));
            if last != Some(list(one.range)) {
                sorted.push(one.range);
            }
            places[one.id.0 as usize] = sorted.len() as u32 - 1;
        }
        FrameLists {
            ranks,
            sorted,
            places,
        }
    }

    pub(crate) fn stack(&self, profile: &Profile, stack: StackId) -> ListedStack {
        let (outer, inner) = profile.lists(stack);
        let place = |list: FrameListId| self.places.get(list.0 as usize).copied().unwrap_or(0);
        ListedStack {
            outer: place(outer),
            inner: place(inner),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Returns the ranks of a list, root first.
    pub(crate) fn list(&self, place: u32) -> &[u32] {
        let (begin, end) = self.sorted[place as usize];
        &self.ranks[begin..end]
    }
}

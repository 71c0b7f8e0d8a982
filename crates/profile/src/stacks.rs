//! Stacks of frames with shared callers.

use crate::frame::FrameId;
use crate::intern::Lists;

/// Id of a stack: see [`Profile::stack`](crate::Profile::stack). Equal stacks may have two ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(pub u32);

/// Id of a frame list. A stack consists of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameListId(pub u32);

/// Stacks of two lists each: callers, which stacks share, and leaf frames.
#[derive(Debug, Default)]
pub(crate) struct FrameStacks {
    lists: Lists<u32>,
    stacks: Vec<(FrameListId, FrameListId)>,
}

impl FrameStacks {
    pub(crate) fn with_lists(lists: Lists<u32>) -> FrameStacks {
        FrameStacks {
            lists,
            stacks: Vec::new(),
        }
    }

    pub(crate) fn intern_list(&mut self, frames: &[u32]) -> FrameListId {
        FrameListId(self.lists.intern(frames).0)
    }

    pub(crate) fn push(&mut self, outer: FrameListId, inner: FrameListId) -> StackId {
        self.stacks.push((outer, inner));
        StackId(self.stacks.len() as u32 - 1)
    }

    pub(crate) fn lists(&self, id: StackId) -> (FrameListId, FrameListId) {
        self.stacks[id.0 as usize]
    }

    pub(crate) fn list_count(&self) -> usize {
        self.lists.len()
    }

    pub(crate) fn frame_count(&self) -> usize {
        self.lists.item_count()
    }

    pub(crate) fn list(&self, id: FrameListId) -> &[u32] {
        self.lists.get(id.0)
    }

    pub(crate) fn with_frames_where(&self, is_wanted: impl Fn(u32) -> bool) -> FrameStacks {
        let mut lists = Lists::default();
        let mut frames = Vec::new();
        let new_ids: Vec<FrameListId> = (0..self.lists.len() as u32)
            .map(|id| {
                frames.clear();
                frames.extend(self.lists.get(id).iter().filter(|frame| is_wanted(**frame)));
                FrameListId(lists.intern(&frames).0)
            })
            .collect();
        let new_id = |list: FrameListId| new_ids[list.0 as usize];
        let stacks = self.stacks.iter();
        FrameStacks {
            stacks: stacks
                .map(|(outer, inner)| (new_id(*outer), new_id(*inner)))
                .collect(),
            lists,
        }
    }

    /// Replaces the frames of each stack, root first. Stack ids stay valid.
    pub(crate) fn rebuild(&mut self, mut frames: impl FnMut(&[u32], &mut Vec<u32>)) {
        let old = std::mem::take(self);
        let (mut all, mut new) = (Vec::new(), Vec::new());
        for (outer, inner) in &old.stacks {
            all.clear();
            all.extend_from_slice(old.list(*outer));
            all.extend_from_slice(old.list(*inner));
            new.clear();
            frames(&all, &mut new);
            let (callers, leaf) = new.split_at(new.len().saturating_sub(1));
            let lists = (self.intern_list(callers), self.intern_list(leaf));
            self.stacks.push(lists);
        }
    }

    pub(crate) fn get(&self, id: StackId) -> impl DoubleEndedIterator<Item = FrameId> + '_ {
        let (outer, inner) = self.stacks[id.0 as usize];
        let frames = self.lists.get(outer.0).iter();
        frames
            .chain(self.lists.get(inner.0))
            .map(|frame| FrameId(*frame))
    }
}

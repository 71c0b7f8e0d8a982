//! [`ThreadStacks`]: deep stacks from small dumps.
//!
//! The outer frames of a thread change slowly. So the last stack of each thread is
//! remembered, and where a dump ends before the root, the rest is taken from there, if the
//! outermost frame that was unwound is found in it.
//!
//! # When frames are the same
//!
//! A frame agrees with a remembered one if the *stack pointer* and the *return address* both
//! do. Stack pointers are absolute, so recursion cannot be miscounted: two activations of one
//! function at different depths differ in theirs.
//!
//! While an activation lives, everything outside of it stays as it is: none of its callers can
//! return before it does. So if the agreeing frame is still the activation that it was, what is
//! remembered of its callers is true. That it is the same activation cannot be seen from a dump
//! which does not reach its caller: the function may have returned, and been called again
//! from elsewhere at the same depth. Three things stand against that:
//!
//! - Two frames in a row must agree, or as many as [`ThreadStacks::agreeing`] says.
//! - What a later sample shows to be gone is forgotten: frames at depths where that sample had
//!   others, and everything inside of them.
//! - The caller may give a function that reads the process's memory: every remembered return
//!   address must still be in its slot, as far as that function knows.
//!
//! What was joined says so ([`End::Joined`], [`FoundBy::Memory`]), so that it can be counted apart.

use crate::{Cause, End, FoundBy, Frame, FrameKind, Root};
use rustc_hash::FxHashMap;

/// Most frames that are remembered, of all threads together.
const MAX_FRAMES: usize = 1 << 20;

/// The last stack of each thread.
#[derive(Debug)]
pub struct ThreadStacks {
    threads: FxHashMap<u64, Remembered>,
    agreeing: usize,
    max_frames: usize,
    frames: usize,
    now: u64,
}

#[derive(Debug)]
struct Remembered {
    /// Innermost first, the root last.
    frames: Vec<Frame>,
    root: Root,
    used: u64,
}

impl Default for ThreadStacks {
    fn default() -> Self {
        Self::new()
    }
}

impl ThreadStacks {
    /// Remembers nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            threads: FxHashMap::default(),
            agreeing: 2,
            max_frames: MAX_FRAMES,
            frames: 0,
            now: 0,
        }
    }

    /// How many frames in a row must agree for a joint; 2 unless set, 1 at least.
    #[must_use]
    pub fn agreeing(mut self, frames: usize) -> Self {
        self.agreeing = frames.max(1);
        self
    }

    /// How many frames (of 32 bytes) are remembered at most, of all threads together. Beyond
    /// that the threads which were not seen for longest are forgotten. A million unless set.
    #[must_use]
    pub fn max_frames(mut self, frames: usize) -> Self {
        self.max_frames = frames;
        self
    }

    /// Completes a stack that was just unwound, if it ended with the dump, and remembers it if it
    /// is complete. To be called for every sample of a thread, in the order of time.
    ///
    /// `thread` is whatever tells threads apart; `verify` reads a word of the process's memory,
    /// `None` where it cannot or need not: then what is remembered is taken as it is. A stack that
    /// would get longer than `limit` frames stays as it is.
    pub fn complete(
        &mut self,
        thread: u64,
        frames: &mut Vec<Frame>,
        end: End,
        limit: usize,
        verify: impl FnMut(u64) -> Option<u64>,
    ) -> End {
        match end {
            End::Root(root) | End::Joined(root) => {
                self.remember(thread, frames, root);
                end
            }
            End::Truncated(Cause::StackEnded { .. } | Cause::BadMemory { .. }) => {
                let Some((outer, root)) = self.join(thread, frames) else {
                    self.forget_inside(thread, frames);
                    return end;
                };
                if frames.len().saturating_add(outer.len()) > limit || !holds(outer, verify) {
                    return end;
                }
                frames.extend(outer.iter().map(|frame| Frame {
                    by: FoundBy::Memory,
                    ..*frame
                }));
                self.remember(thread, frames, root);
                End::Joined(root)
            }
            End::Truncated(_) => end,
        }
    }

    /// The remembered callers of the last of these frames, and the root they lead to. `None` if
    /// the last frames agree with nothing that is remembered of the thread.
    #[must_use]
    pub fn join(&self, thread: u64, frames: &[Frame]) -> Option<(&[Frame], Root)> {
        let remembered = self.threads.get(&thread)?;
        let last = frames
            .last()
            .filter(|last| last.kind == FrameKind::Caller)?;
        let known = &remembered.frames;
        // A joint is near the root more often than near the leaf.
        let joint = known.iter().rposition(|frame| same(frame, last))?;
        let inner = known.get(..=joint)?;
        let agreeing = inner
            .iter()
            .rev()
            .zip(frames.iter().rev())
            .take(self.agreeing)
            .take_while(|(known, frame)| same(known, frame))
            .count();
        (agreeing >= self.agreeing).then_some((known.get(joint + 1..)?, remembered.root))
    }

    /// Forgets a thread, because it ended or executes another program.
    pub fn forget(&mut self, thread: u64) {
        if let Some(remembered) = self.threads.remove(&thread) {
            self.frames -= remembered.frames.len();
        }
    }

    /// Remembers a complete stack in place of what was.
    pub fn remember(&mut self, thread: u64, frames: &[Frame], root: Root) {
        if frames.len() > self.max_frames {
            self.forget(thread);
            return;
        }
        self.now += 1;
        let now = self.now;
        let remembered = self.threads.entry(thread).or_insert_with(|| Remembered {
            frames: Vec::new(),
            root,
            used: now,
        });
        self.frames -= remembered.frames.len();
        self.frames += frames.len();
        remembered.frames.clear();
        remembered.frames.extend_from_slice(frames);
        remembered.root = root;
        remembered.used = now;
        if self.frames > self.max_frames {
            self.make_room();
        }
    }

    /// Frames that are remembered now.
    #[must_use]
    pub const fn remembered_frames(&self) -> usize {
        self.frames
    }

    /// Forgets what a stack that was not joined shows to be gone: at the depths it reached there
    /// are other frames now.
    fn forget_inside(&mut self, thread: u64, frames: &[Frame]) {
        let (Some(remembered), Some(last)) = (self.threads.get_mut(&thread), frames.last()) else {
            return;
        };
        let joint = remembered
            .frames
            .iter()
            .rposition(|frame| same(frame, last));
        let gone = match joint {
            // The joint itself may live; it agreed too little to be sure.
            Some(joint) => joint,
            None => remembered
                .frames
                .iter()
                .rposition(|frame| frame.sp <= last.sp)
                .map_or(0, |inner| inner + 1),
        };
        remembered.frames.drain(..gone);
        self.frames -= gone;
    }

    /// Forgets threads, those first that were not seen for longest, until half is free.
    fn make_room(&mut self) {
        let mut ages: Vec<(u64, u64)> = self
            .threads
            .iter()
            .map(|(&thread, remembered)| (remembered.used, thread))
            .collect();
        ages.sort_unstable();
        // The last is the one that was just remembered.
        ages.pop();
        for (_, thread) in ages {
            if self.frames <= self.max_frames / 2 {
                break;
            }
            self.forget(thread);
        }
    }
}

fn same(one: &Frame, other: &Frame) -> bool {
    one.sp == other.sp && one.address == other.address && one.kind == other.kind
}

/// Whether the return addresses are still where they were, as far as that is known.
fn holds(frames: &[Frame], mut verify: impl FnMut(u64) -> Option<u64>) -> bool {
    let mut slots = frames.iter().filter(|frame| frame.slot != 0);
    slots.all(|frame| verify(frame.slot).is_none_or(|now| is_return_to(frame, now)))
}

/// Whether a word of the stack is the return address to this frame. The upper bits may be a
/// signature.
pub(crate) const fn is_return_to(frame: &Frame, word: u64) -> bool {
    word << 16 == frame.address << 16
}

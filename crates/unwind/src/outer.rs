//! [`OuterFrames`]: when the process's memory is believed.
//!
//! Where a dump ends before the root and nothing complete is remembered of the thread, its memory
//! has the rest. But it is read after the sample, when the thread may have left what was
//! sampled: then the frames of the dump get callers that came later, and nothing in
//! them shows it. Programs whose true stacks are known do show it, in one stack of a hundred.
//!
//! What lies outside of a large dump is old, and stays for long. So a chain that was read is
//! believed only when it has been found the same again and again:
//!
//! - four reads in a row, apart in time, found the very same activations (stack pointer and return
//!   address) from the root up to the first one outside of the dump: the first of them three
//!   milliseconds before the sample at least, the last one after it, so that they enclose it;
//! - and no read ever found other callers behind the dump's outermost frame, at the same depth.
//!   A frame of which that was seen is doubtful from then on: a function that is called from here
//!   and there at the same depth, whose true caller no read can tell.
//!
//! Samples come in batches, so a thread has often left what the dump ends with when its sample's
//! turn comes, though not what lies further out. What was confirmed [`KNOWN`] times is then taken
//! as it is known ([`OuterFrames::known`]), if the memory still has all of it.

use crate::join::is_return_to;
use crate::{FoundBy, Frame, Root};
use rustc_hash::{FxHashMap, FxHashSet};

/// Reads that must have found a frame before it is believed.
const READS: u32 = 4;

/// Reads after which it is believed without another one.
const KNOWN: u32 = 16;

/// Time from the first of the reads to the sample, in ns.
const BEFORE: u64 = 3_000_000;

/// Time between two reads, in ns; those of samples that come together count as one.
const APART: u64 = 500_000;

/// Most frames that are kept, of all threads together.
const MAX_FRAMES: usize = 1 << 18;

/// Most doubtful frames of a thread. One with more has a stack that is never quiet.
const MAX_DOUBTFUL: usize = 256;

/// What reads of each thread's memory have found so far.
#[derive(Debug, Default)]
pub struct OuterFrames {
    threads: FxHashMap<u64, Seen>,
    frames: usize,
}

#[derive(Debug, Default)]
struct Seen {
    /// The chain that was read last, the root first.
    chain: Vec<Outer>,
    /// What shows that it ends there.
    root: Option<Root>,
    /// Frames whose callers are not always the same.
    doubtful: FxHashSet<Activation>,
}

/// Stack pointer and address.
type Activation = (u64, u64);

#[derive(Debug, Clone, Copy)]
struct Outer {
    frame: Frame,
    /// The time of the first of the reads in a row that found it, and of the last that counts.
    since: u64,
    last: u64,
    reads: u32,
}

impl OuterFrames {
    /// Nothing was read yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in a chain of which the first `from_dump` frames, the innermost, come from the bytes of
    /// a sample taken at `sampled`, and the others, up to `root`, from a read of memory at `now`, in ns of
    /// the same clock. Answers whether they are the sample's.
    ///
    /// To be called in the order of time. A chain without frames of either kind is not believed.
    pub fn confirm(
        &mut self,
        thread: u64,
        (frames, from_dump): (&[Frame], usize),
        root: Root,
        (sampled, now): (u64, u64),
    ) -> bool {
        let (dumped, read) = frames.split_at(from_dump.min(frames.len()));
        let (Some(joint), false) = (dumped.last().map(activation), read.is_empty()) else {
            return false;
        };
        if self.frames > MAX_FRAMES {
            self.threads.clear();
            self.frames = 0;
        }
        let seen = self.threads.entry(thread).or_default();
        self.frames -= seen.chain.len();
        let outer = |(known, frame): &(&Outer, &Frame)| known.is(activation(frame));
        let common = (seen.chain.iter().zip(frames.iter().rev()))
            .take_while(outer)
            .count();
        // The place of the joint, if its callers are what they were.
        if common < read.len() && (seen.chain.iter()).any(|known| known.is(joint)) {
            seen.doubt(joint);
        }
        seen.root = Some(root);
        seen.chain.truncate(common);
        for known in &mut seen.chain {
            if now.saturating_sub(known.last) >= APART {
                known.reads = known.reads.saturating_add(1);
                known.last = now;
            }
        }
        let new = frames.iter().rev().skip(common).map(|frame| Outer {
            frame: Frame {
                by: FoundBy::Memory,
                ..*frame
            },
            since: now,
            last: now,
            reads: 1,
        });
        seen.chain.extend(new);
        self.frames += seen.chain.len();
        // Whatever is outside of a frame was found as often as the frame itself.
        let innermost = &seen.chain[read.len() - 1];
        innermost.reads >= READS
            && sampled.saturating_sub(innermost.since) >= BEFORE
            && !seen.doubtful.contains(&joint)
    }

    /// The callers of the last of these frames, the innermost first, and the root they lead to, where
    /// the memory cannot be read for this sample because the thread has gone on. `read` gives a
    /// word of the memory as it is now: should other callers stand in it, they are in doubt.
    pub fn known(
        &mut self,
        thread: u64,
        frames: &[Frame],
        mut read: impl FnMut(u64) -> Option<u64>,
    ) -> Option<(Vec<Frame>, Root)> {
        let joint = activation(frames.last()?);
        let seen = self.threads.get_mut(&thread)?;
        let place = seen.chain.iter().position(|known| known.is(joint))?;
        if place == 0 || seen.chain[place].reads < KNOWN || seen.doubtful.contains(&joint) {
            return None;
        }
        for Outer { frame, .. } in seen.chain[..place].iter().rev() {
            if frame.slot != 0 && !is_return_to(frame, read(frame.slot)?) {
                seen.doubt(joint);
                return None;
            }
        }
        let callers = seen.chain[..place].iter().rev();
        Some((callers.map(|known| known.frame).collect(), seen.root?))
    }

    /// Forgets a thread, because it ended or executes another program.
    pub fn forget(&mut self, thread: u64) {
        if let Some(seen) = self.threads.remove(&thread) {
            self.frames -= seen.chain.len();
        }
    }
}

impl Seen {
    fn doubt(&mut self, joint: Activation) {
        if self.doubtful.len() >= MAX_DOUBTFUL {
            self.doubtful.clear();
        }
        self.doubtful.insert(joint);
    }
}

impl Outer {
    fn is(&self, other: Activation) -> bool {
        activation(&self.frame) == other
    }
}

fn activation(frame: &Frame) -> Activation {
    (frame.sp, frame.address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FoundBy, FrameKind};

    const MS: u64 = 1_000_000;
    const ROOT: Root = Root::UndefinedReturnAddress;

    /// Frames, the innermost first, told apart by their addresses; a deeper one has a lower
    /// stack pointer.
    fn chain(addresses: &[u64]) -> Vec<Frame> {
        let depth = addresses.len() as u64;
        let frame = |(n, address): (usize, &u64)| Frame {
            address: *address,
            sp: 0x80_0000 - 0x10 * (depth - n as u64),
            slot: 0x80_0000 - 0x10 * (depth - n as u64) - 8,
            kind: FrameKind::Caller,
            by: FoundBy::Cfi,
        };
        addresses.iter().enumerate().map(frame).collect()
    }

    /// Whether each of these is believed, a millisecond apart and read half a one after it was
    /// sampled, with two frames in the dump.
    fn believed(chains: &[&[u64]]) -> Vec<bool> {
        let mut outer = OuterFrames::new();
        let each = chains.iter().zip(0..);
        each.map(|(frames, ms)| confirm(&mut outer, &chain(frames), ms))
            .collect()
    }

    fn confirm(outer: &mut OuterFrames, frames: &[Frame], ms: u64) -> bool {
        let times = (ms * MS, ms * MS + MS / 2);
        outer.confirm(7, (frames, 2), ROOT, times)
    }

    /// The memory as it is while these frames live.
    fn memory(stack: &[Frame]) -> impl Fn(u64) -> Option<u64> {
        |slot| stack.iter().find(|f| f.slot == slot).map(|f| f.address)
    }

    #[test]
    fn is_believed_when_it_stays() {
        let same: &[u64] = &[9, 8, 3, 2, 1];
        let answers = believed(&[same; 7]);
        assert_eq!(answers, [false, false, false, false, true, true, true]);
        // What is inside of it may change.
        let other: &[u64] = &[5, 4, 3, 2, 1];
        let answers = believed(&[same, other, same, other, same]);
        assert_eq!(answers, [false, false, false, false, true]);
        // Its depth may not: the stack pointers differ.
        let deeper: &[u64] = &[5, 4, 3, 3, 2, 1];
        let answers = believed(&[
            same, same, same, same, deeper, deeper, deeper, deeper, deeper,
        ]);
        assert_eq!(answers[4..], [false, false, false, false, true]);
    }

    #[test]
    fn reads_at_once_are_one() {
        let mut outer = OuterFrames::new();
        let stack = chain(&[9, 8, 3, 2, 1]);
        let mut at = |sampled, now| outer.confirm(7, (&stack, 2), ROOT, (sampled, now));
        // A batch of samples a millisecond apart, whose turn comes at the end.
        assert!((0..100).all(|n| !at(n * MS, 100 * MS + n * 1000)));
        // The first read that counts was not long before these.
        assert!(!at(100 * MS, 101 * MS) && !at(101 * MS, 102 * MS) && !at(102 * MS, 103 * MS));
        assert!(at(103 * MS, 104 * MS));
    }

    #[test]
    fn is_never_believed_where_callers_change() {
        let (a, b): (&[u64], &[u64]) = (&[9, 8, 3, 2, 1], &[9, 8, 4, 2, 1]);
        assert_eq!(believed(&[a, b].repeat(20)), [false; 40]);
        // Once seen to change, it stays in doubt, though it is quiet now.
        let mut once = vec![a, b];
        once.extend([a; 20]);
        assert_eq!(believed(&once), [false; 22]);
        // Other frames are not, outside of the one that changed.
        let inside: &[u64] = &[9, 6, 2, 1];
        let answers = believed(&[a, b, inside, inside, inside]);
        assert_eq!(answers, [false, false, false, false, true]);
    }

    #[test]
    fn needs_frames_of_both_kinds() {
        let mut outer = OuterFrames::new();
        let stack = chain(&[3, 2, 1]);
        for ms in 0..20 {
            let times = (ms * MS, ms * MS);
            assert!(!outer.confirm(7, (&stack, 3), ROOT, times));
            assert!(!outer.confirm(7, (&stack, 0), ROOT, times));
            assert!(!outer.confirm(7, (&[], 1), ROOT, times));
        }
    }

    #[test]
    fn forgets_threads_and_keeps_no_more_than_it_should() {
        let stack = chain(&(0..10_000).collect::<Vec<_>>());
        let mut outer = OuterFrames::new();
        for thread in 0..100 {
            outer.confirm(thread, (&stack, 10), ROOT, (0, 0));
            assert!(outer.frames <= MAX_FRAMES + stack.len());
        }
        let before = outer.frames;
        outer.forget(99);
        assert_eq!(outer.frames, before - stack.len());
        assert!(outer.known(99, &stack[..10], |_| None).is_none());
    }

    #[test]
    fn is_known_without_another_read_after_many() {
        let stack = chain(&[9, 8, 3, 2, 1]);
        let mut outer = OuterFrames::new();
        for ms in 0..40 {
            let known = outer.known(7, &stack[..2], memory(&stack));
            match ms {
                0..16 => assert_eq!(known, None),
                _ => {
                    let (callers, root) = known.unwrap();
                    assert_eq!(root, ROOT);
                    assert!(callers.iter().all(|f| f.by == FoundBy::Memory));
                    let addresses: Vec<u64> = callers.iter().map(|f| f.address).collect();
                    assert_eq!(addresses, [3, 2, 1]);
                }
            }
            confirm(&mut outer, &stack, ms);
        }
        // Of another thread, another frame, and of what cannot be read, nothing is.
        let other = chain(&[9, 7, 3, 2, 1]);
        assert_eq!(outer.known(8, &stack[..2], memory(&stack)), None);
        assert_eq!(outer.known(7, &other[..2], memory(&stack)), None);
        assert_eq!(outer.known(7, &stack[..2], |_| None), None);
        assert!(outer.known(7, &stack[..2], memory(&stack)).is_some());
        // Other callers now: never again.
        let now = chain(&[9, 8, 4, 2, 1]);
        assert_eq!(outer.known(7, &stack[..2], memory(&now)), None);
        assert_eq!(outer.known(7, &stack[..2], memory(&stack)), None);
    }
}

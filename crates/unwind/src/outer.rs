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
//! - and no read ever found other callers of the same function at the same place. A function of
//!   which that was seen is doubtful there from then on: it is called from here and there
//!   at the same depth, and no read can tell which caller a sample had.
//!
//! Samples come in batches, so a thread has often left what the dump ends with when its sample's
//! turn comes, though not what lies further out. Then it is asked which callers were last
//! read at the place of the return address ([`OuterFrames::callers_at`]), and whether they still stand
//! there ([`OuterFrames::still`]) for the same function.

use crate::{FoundBy, Frame, Root};
use rustc_hash::{FxHashMap, FxHashSet};

/// Reads that must have found a frame before it is believed.
const READS: u32 = 4;

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
    /// Where callers are not always the same.
    doubtful: FxHashSet<Place>,
}

/// What [`OuterFrames`] knows of a return address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callers {
    /// The frame that was called from there.
    pub called: Frame,
    /// The callers, the innermost first.
    pub frames: Vec<Frame>,
    /// What shows that the last of them is the outermost.
    pub root: Root,
}

/// Stack pointer and address.
type Activation = (u64, u64);

/// Where a return address is, and the function that was called from there.
type Place = (u64, u64);

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
    /// the same clock. `function` is whatever tells the function apart of which the last frame of the dump
    /// is. Answers whether they are the sample's.
    ///
    /// To be called in the order of time. A chain without frames of either kind is not believed.
    pub fn confirm(
        &mut self,
        thread: u64,
        (frames, from_dump): (&[Frame], usize),
        function: u64,
        root: Root,
        (sampled, now): (u64, u64),
    ) -> bool {
        let (dumped, read) = frames.split_at(from_dump.min(frames.len()));
        let (Some(joint), Some(caller)) = (dumped.last().map(activation), read.first()) else {
            return false;
        };
        let place = (caller.slot, function);
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
            seen.doubt(place);
        }
        seen.root = Some(root);
        seen.chain.truncate(common);
        for known in &mut seen.chain {
            known.count(now);
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
        seen.chain[read.len() - 1].encloses(sampled) && !seen.doubtful.contains(&place)
    }

    /// What was read last behind the return address in this slot.
    #[must_use]
    pub fn callers_at(&self, thread: u64, slot: u64) -> Option<Callers> {
        let seen = self.threads.get(&thread)?;
        let place = seen.at(slot)?;
        let frames = seen.chain[..=place].iter().rev();
        Some(Callers {
            called: seen.chain.get(place + 1)?.frame,
            frames: frames.map(|outer| outer.frame).collect(),
            root: seen.root?,
        })
    }

    /// Takes in whether these callers stood in the memory at `now`, for a sample of this function that
    /// was taken at `sampled`. Answers whether they are the sample's.
    pub fn still(
        &mut self,
        thread: u64,
        slot: u64,
        function: u64,
        stand: bool,
        (sampled, now): (u64, u64),
    ) -> bool {
        let Some(seen) = self.threads.get_mut(&thread) else {
            return false;
        };
        if !stand {
            seen.doubt((slot, function));
        }
        let Some(place) = seen.at(slot).filter(|_| stand) else {
            return false;
        };
        for outer in &mut seen.chain[..=place] {
            outer.count(now);
        }
        seen.chain[place].encloses(sampled) && !seen.doubtful.contains(&(slot, function))
    }

    /// Forgets a thread, because it ended or executes another program.
    pub fn forget(&mut self, thread: u64) {
        if let Some(seen) = self.threads.remove(&thread) {
            self.frames -= seen.chain.len();
        }
    }
}

impl Seen {
    /// The caller whose return address is in this slot.
    fn at(&self, slot: u64) -> Option<usize> {
        self.chain.iter().position(|outer| outer.frame.slot == slot)
    }

    fn doubt(&mut self, place: Place) {
        if self.doubtful.len() >= MAX_DOUBTFUL {
            self.doubtful.clear();
        }
        self.doubtful.insert(place);
    }
}

impl Outer {
    fn count(&mut self, now: u64) {
        if now.saturating_sub(self.last) >= APART {
            self.reads = self.reads.saturating_add(1);
            self.last = now;
        }
    }

    fn encloses(&self, sampled: u64) -> bool {
        self.reads >= READS && sampled.saturating_sub(self.since) >= BEFORE
    }

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
        outer.confirm(7, (frames, 2), 5, ROOT, times)
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
        let mut at = |sampled, now| outer.confirm(7, (&stack, 2), 5, ROOT, (sampled, now));
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
            assert!(!outer.confirm(7, (&stack, 3), 5, ROOT, times));
            assert!(!outer.confirm(7, (&stack, 0), 5, ROOT, times));
            assert!(!outer.confirm(7, (&[], 1), 5, ROOT, times));
        }
    }

    #[test]
    fn forgets_threads_and_keeps_no_more_than_it_should() {
        let stack = chain(&(0..10_000).collect::<Vec<_>>());
        let mut outer = OuterFrames::new();
        for thread in 0..100 {
            outer.confirm(thread, (&stack, 10), 5, ROOT, (0, 0));
            assert!(outer.frames <= MAX_FRAMES + stack.len());
        }
        let before = outer.frames;
        outer.forget(99);
        assert_eq!(outer.frames, before - stack.len());
        assert_eq!(outer.callers_at(99, stack[10].slot), None);
    }

    #[test]
    fn callers_are_known_by_their_place() {
        let stack = chain(&[9, 8, 3, 2, 1]);
        let mut outer = OuterFrames::new();
        assert!(!confirm(&mut outer, &stack, 0));
        let slot = stack[2].slot;
        let callers = outer.callers_at(7, slot).unwrap();
        assert_eq!((callers.called.address, callers.root), (8, ROOT));
        assert!(callers.frames.iter().all(|f| f.by == FoundBy::Memory));
        let addresses: Vec<u64> = callers.frames.iter().map(|f| f.address).collect();
        assert_eq!(addresses, [3, 2, 1]);
        // Of another thread and another place nothing is.
        assert_eq!(outer.callers_at(8, slot), None);
        assert_eq!(outer.callers_at(7, slot + 8), None);
        // They are believed after as many reads.
        let mut at = |ms| outer.still(7, slot, 5, true, (ms * MS, ms * MS + MS / 2));
        assert_eq!(
            [1, 2, 3, 4, 5].map(&mut at),
            [false, false, false, true, true]
        );
        // For this function never again, once others stood there.
        let times = (9 * MS, 9 * MS);
        assert!(!outer.still(7, slot, 5, false, times));
        assert!(!outer.still(7, slot, 5, true, times));
        assert!(outer.still(7, slot, 6, true, times));
        assert!(!outer.still(8, slot, 6, true, times));
    }
}

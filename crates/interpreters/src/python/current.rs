//! The current Python frame of each native frame of the interpreter. [`PythonImage`]: where the image
//! has the interpreter, and what was learned about it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Mutex;

use rustc_hash::FxHashMap;

use super::codes::{TYPE, is_pointer};
use super::layout::{CODE_BYTES, FRAME_BYTES, FrameKind, Layout, TAGS};
use super::slots::{Learned, Location, Site, value, words};
use crate::{MemoryRead, ProcessMemory, Stack};

/// Maximum number of pointers read to learn a location.
const MAX_POINTERS: usize = 96;

/// Bytes around a native frame that belong to the native stack.
const NATIVE: u64 = 64 << 10;

/// Maximum number of callers followed to learn a location.
const MAX_CALLERS: usize = 16;

/// Locations of the interpreter's variables in its compiled code, as learned from samples.
#[derive(Debug, Default)]
pub(super) struct LearnedFrames {
    /// `_PyCFrame` in the native frame.
    cframe: Learned,
    /// Pointer to the current Python frame.
    frame: Learned,
    /// The same, learned from looks: `frame` often has the caller's frame, which leads to the native
    /// frame as well.
    seen: Learned,
    /// Frame in the native frame before the outermost Python frame.
    pub(super) entry: Learned,
    /// Pointer to the next instruction.
    pub(super) next: Learned,
    /// Pointer to the first instruction of the current function, which 3.11 keeps.
    pub(super) first: Learned,
    /// Number of observations of `next` and `first` that were skipped.
    pub(super) skipped: u32,
}

/// An image with the interpreter.
#[derive(Debug)]
pub(super) struct PythonImage {
    pub(super) layout: Layout,
    pub(super) minor: u8,
    pub(super) eval: u64,
    /// Stated addresses (SVMA) of the interpreter's function and its parts.
    pub(super) evals: Vec<Range<u64>>,
    pub(super) code_type: u64,
    pub(super) frame_type: u64,
    pub(super) version: Option<u64>,
    /// `_PyRuntime`, which begins with [the offsets](super::debug_offsets).
    pub(super) runtime: Option<u64>,
    /// Code that sets up a frame, if the compiler has split off the rest.
    pub(super) set_up: Option<Range<u64>>,
    pub(super) learned: Mutex<LearnedFrames>,
}

impl PythonImage {
    pub(super) fn is_eval(&self, svma: u64) -> bool {
        self.evals.iter().any(|range| range.contains(&svma))
    }
}

impl LearnedFrames {
    /// Returns the address of the `_PyCFrame` of a native frame.
    pub(super) fn cframe_of(&self, eval: &EvalFrame) -> Option<u64> {
        match self.cframe.everywhere()? {
            Location::Slot(below) => eval.cfa.checked_sub(below),
            Location::Register(_) => None,
        }
    }
}

/// Native frame of the interpreter.
#[derive(Clone, Copy, Debug)]
pub(super) struct EvalFrame {
    /// Index in the stack.
    pub(super) index: usize,
    pub(super) site: Site,
    /// True if the sampled instruction sets up a frame, so that the variables do not fit together.
    pub(super) is_starting: bool,
    pub(super) sp: u64,
    /// Canonical frame address.
    pub(super) cfa: u64,
}

impl EvalFrame {
    /// Returns true if an address lies in the native frame.
    pub(super) const fn contains(&self, address: u64) -> bool {
        self.sp <= address && address < self.cfa
    }
}

/// Finds current frames on one stack.
pub(super) struct Finder<'a, 's> {
    pub(super) layout: &'a Layout,
    pub(super) stack: &'a Stack<'s>,
    pub(super) evals: &'a [EvalFrame],
    /// Type objects of code objects and of frame objects.
    pub(super) code_type: u64,
    pub(super) frame_type: u64,
}

impl Finder<'_, '_> {
    /// Returns the address of the current Python frame of each native frame, as of the sample.
    pub(super) fn find(
        &self,
        learned: &mut LearnedFrames,
        memory: &mut dyn ProcessMemory,
    ) -> Vec<Option<u64>> {
        match self.layout.kind {
            FrameKind::CFrames {
                current, previous, ..
            } => {
                if learned.cframe.wants_more() {
                    self.learn_cframe(previous, &mut learned.cframe, memory);
                }
                let of = |eval: &EvalFrame| {
                    let cframe = learned.cframe_of(eval)?;
                    self.stack.memory.read_u64(cframe.checked_add(current)?)
                };
                self.evals.iter().map(of).collect()
            }
            FrameKind::Objects => {
                if learned.frame.wants_more() {
                    self.learn_objects(&mut learned.frame, memory);
                }
                let location = learned.frame.everywhere();
                let of = |eval: &EvalFrame| value(self.stack, eval.index, location?);
                self.evals.iter().map(of).collect()
            }
            FrameKind::Entries => self.of_entries(learned, memory),
        }
    }

    /// Returns the thread state: an object with a pointer to the innermost `_PyCFrame`.
    pub(super) fn thread_state(&self, target: u64, memory: &mut dyn ProcessMemory) -> Option<u64> {
        let mut reads = self.thread_states()?;
        memory.read(&mut reads);
        let mut found = reads.iter().filter(|read| read.u64(0) == Some(target));
        let first = found.next()?.address.checked_sub(self.layout.thread)?;
        found.next().is_none().then_some(first)
    }

    /// Returns the thread state of 3.13: an object with a pointer to a frame that leads to the
    /// native frame at the stated distance.
    pub(super) fn thread_state_of_entries(
        &self,
        below: u64,
        memory: &mut dyn ProcessMemory,
    ) -> Option<u64> {
        let eval = self.evals.first()?;
        let mut reads = self.thread_states()?;
        memory.read(&mut reads);
        let frames: Vec<(u64, u64)> = (reads.iter())
            .filter_map(|read| Some((read.address, read.u64(0).filter(|word| is_pointer(*word))?)))
            .collect();
        let frame = |(_, frame): &(u64, u64)| MemoryRead::new(*frame, FRAME_BYTES);
        let mut starts: Vec<MemoryRead> = frames.iter().map(frame).collect();
        memory.read(&mut starts);
        let code = |start: &MemoryRead| {
            let code = start.u64(self.layout.frame.code).unwrap_or(0);
            MemoryRead::new(code & !TAGS, CODE_BYTES)
        };
        let mut codes: Vec<MemoryRead> = starts.iter().map(code).collect();
        memory.read(&mut codes);
        let are_codes = (frames.iter().zip(&starts).zip(&codes))
            .filter(|(_, code)| code.u64(TYPE) == Some(self.code_type));
        let mut under_way: Vec<(u64, u64)> = are_codes
            .filter_map(|((found, start), _)| {
                Some((found.0, start.u64(self.layout.frame.previous)?))
            })
            .collect();
        let entry = eval.cfa.checked_sub(below)?;
        let mut found = BTreeSet::new();
        for _ in 0..MAX_CALLERS {
            let arrived = under_way.iter().filter(|(_, at)| *at == entry);
            found.extend(arrived.map(|(state, _)| *state));
            under_way.retain(|(_, at)| !eval.contains(*at) && is_pointer(*at));
            if under_way.is_empty() {
                break;
            }
            let link = self.layout.frame.previous as u64;
            let mut reads: Vec<MemoryRead> = (under_way.iter())
                .map(|(_, at)| MemoryRead::new(at.wrapping_add(link), 8))
                .collect();
            memory.read(&mut reads);
            for ((_, at), read) in under_way.iter_mut().zip(&reads) {
                *at = read.u64(0).unwrap_or(0);
            }
        }
        let first = found.pop_first()?.checked_sub(self.layout.thread)?;
        found.is_empty().then_some(first)
    }

    /// Returns reads of the pointers in objects that may be the thread state.
    fn thread_states(&self) -> Option<Vec<MemoryRead>> {
        let eval = self.evals.first()?;
        let mut reads = self.pointers(eval.index, self.layout.thread, 8);
        // Slots of the native stack may have the pointer, too.
        let native = eval.sp.saturating_sub(NATIVE)..eval.cfa.saturating_add(NATIVE);
        reads.retain(|read| !native.contains(&read.address));
        Some(reads)
    }

    /// Learns where `_PyCFrame` lies: the one of a native frame points to the one of the next outer
    /// native frame, and the thread state points to the innermost one.
    fn learn_cframe(&self, previous: u64, learned: &mut Learned, memory: &mut dyn ProcessMemory) {
        for pair in self.evals.windows(2) {
            let [inner, outer] = pair else {
                continue;
            };
            let len = (inner.cfa - inner.sp).min(outer.cfa - outer.sp);
            for below in (8..=len).step_by(8) {
                let link = inner.cfa.wrapping_sub(below).wrapping_add(previous);
                if self.stack.memory.read_u64(link) == outer.cfa.checked_sub(below) {
                    learned.observe_everywhere(&[Location::Slot(below)]);
                }
            }
        }
        let Some(eval) = self.evals.first() else {
            return;
        };
        let mut reads = self.pointers(eval.index, self.layout.thread, 8);
        memory.read(&mut reads);
        let found: BTreeSet<u64> = (reads.iter())
            .filter_map(|read| read.u64(0))
            .filter(|address| eval.contains(*address) && address.is_multiple_of(8))
            .collect();
        let slots: Vec<Location> = (found.iter())
            .map(|address| Location::Slot(eval.cfa - address))
            .collect();
        learned.observe_everywhere(&slots);
    }

    /// Returns reads behind each distinct pointer of a native frame.
    fn pointers(&self, index: usize, offset: u64, len: usize) -> Vec<MemoryRead> {
        let words = words(self.stack, index);
        let distinct: BTreeSet<u64> = (words.iter())
            .map(|(_, word)| *word)
            .filter(|word| is_pointer(*word))
            .collect();
        let reads = distinct.into_iter().take(MAX_POINTERS);
        reads
            .map(|word| MemoryRead::new(word.wrapping_add(offset), len))
            .collect()
    }

    /// Returns the frames among the pointers of a native frame: the address of the
    /// previous frame by address.
    fn frames_among(&self, index: usize, memory: &mut dyn ProcessMemory) -> FxHashMap<u64, u64> {
        let mut reads = self.pointers(index, 0, FRAME_BYTES);
        memory.read(&mut reads);
        let layout = &self.layout.frame;
        if self.layout.kind == FrameKind::Objects {
            reads.retain(|read| read.u64(TYPE) == Some(self.frame_type));
        }
        let mut codes: Vec<MemoryRead> = (reads.iter())
            .filter_map(|read| read.u64(layout.code))
            .map(|code| MemoryRead::new(code & !TAGS, CODE_BYTES))
            .collect();
        reads.retain(|read| read.u64(layout.code).is_some());
        memory.read(&mut codes);
        let is_code = |read: &MemoryRead| read.u64(TYPE) == Some(self.code_type);
        (reads.iter().zip(&codes))
            .filter(|(_, code)| is_code(code))
            .filter_map(|(read, _)| Some((read.address, read.u64(layout.previous)?)))
            .collect()
    }

    /// Learns where frame objects are: the previous frame of a native frame's Python frame belongs to
    /// the next outer native frame.
    fn learn_objects(&self, learned: &mut Learned, memory: &mut dyn ProcessMemory) {
        let Some([inner, outer]) = self.evals.first_chunk() else {
            return;
        };
        let (inside, outside) = (
            words(self.stack, inner.index),
            words(self.stack, outer.index),
        );
        let frames = self.frames_among(inner.index, memory);
        let is_right = |(location, word): &(Location, u64)| {
            let previous = frames.get(word);
            previous.is_some_and(|previous| outside.contains(&(*location, *previous)))
        };
        let right = inside.iter().filter(|pair| is_right(pair));
        let right: Vec<Location> = right.map(|(location, _)| *location).collect();
        learned.observe_everywhere(&right);
    }

    /// Finds current frames of 3.13. The frame before the outermost Python frame lies in the native
    /// frame, and leads to the next outer native frame's current one.
    fn of_entries(
        &self,
        learned: &mut LearnedFrames,
        memory: &mut dyn ProcessMemory,
    ) -> Vec<Option<u64>> {
        let mut found = vec![None; self.evals.len()];
        let Some(inner) = self.evals.first() else {
            return found;
        };
        if learned.frame.wants(inner.site) {
            self.learn_entries(inner, learned, memory);
        }
        let of = |frame: &Learned| frame.at(inner.site).or_else(|| frame.certain());
        let location = of(&learned.seen).or_else(|| of(&learned.frame));
        if let (Some(first), Some(location)) = (found.first_mut(), location) {
            *first = value(self.stack, inner.index, location);
        }
        if let Some(Location::Slot(below)) = learned.entry.everywhere() {
            for (inner, found) in self.evals.iter().zip(found.iter_mut().skip(1)) {
                let entry = inner.cfa.wrapping_sub(below);
                let link = entry.wrapping_add(self.layout.frame.previous as u64);
                *found = self.stack.memory.read_u64(link);
            }
        }
        found
    }

    /// Learns where the current frame of 3.13 is: its callers lead into the native frame.
    fn learn_entries(
        &self,
        eval: &EvalFrame,
        learned: &mut LearnedFrames,
        memory: &mut dyn ProcessMemory,
    ) {
        let frames = self.frames_among(eval.index, memory);
        // Address of the caller that was reached from each frame.
        let mut reached: FxHashMap<u64, u64> = frames.clone();
        for _ in 0..MAX_CALLERS {
            let is_under_way = |address: &u64| !eval.contains(*address) && is_pointer(*address);
            let mut next: Vec<&mut u64> = reached.values_mut().collect();
            next.retain(|address| is_under_way(address));
            if next.is_empty() {
                break;
            }
            let link = self.layout.frame.previous as u64;
            let mut reads: Vec<MemoryRead> = (next.iter())
                .map(|address| MemoryRead::new(address.wrapping_add(link), 8))
                .collect();
            memory.read(&mut reads);
            for (address, read) in next.into_iter().zip(&reads) {
                *address = read.u64(0).unwrap_or(0);
            }
        }
        let leads = |frame: &u64| {
            reached
                .get(frame)
                .copied()
                .filter(|end| eval.contains(*end))
        };
        for end in frames.keys().filter_map(leads) {
            if learned.entry.wants_more() {
                let entry = Location::Slot(eval.cfa.wrapping_sub(end));
                learned.entry.observe_everywhere(&[entry]);
            }
        }
        let right: Vec<Location> = (words(self.stack, eval.index).into_iter())
            .filter(|(_, word)| leads(word).is_some())
            .map(|(location, _)| location)
            .collect();
        learned.frame.observe(eval.site, &right);
    }

    /// Learns where the current frame of 3.13 is from a look: the thread mostly runs the same frame
    /// as in the sample, or one that no location has.
    pub(super) fn learn_seen(&self, frame: u64, learned: &mut LearnedFrames) {
        let Some(eval) = self.evals.first() else {
            return;
        };
        if learned.seen.wants(eval.site) {
            let right: Vec<Location> = (words(self.stack, eval.index).into_iter())
                .filter(|(_, word)| *word == frame)
                .map(|(location, _)| location)
                .collect();
            learned.seen.observe(eval.site, &right);
        }
    }
}

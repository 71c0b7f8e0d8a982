//! [`PartOfStack`]: the Python frames that one native frame runs, and their evidence.

use std::hash::Hasher;

use rustc_hash::{FxHashMap, FxHasher};

use super::codes::Codes;
use super::current::{EvalFrame, LearnedFrames};
use super::layout::{FrameKind, Layout};
use super::live::{self, LiveFrame, Look};
use super::looks::{Caller, Looks, Origin, Part, Place};
use super::slots::{Location, Site, value, words};
use super::snapshot::Snapshot;
use crate::{ProcessMemory, Stack};

/// Number of outermost functions that threads of one kind have in common: three of `threading`, and
/// the thread's own one.
const OUTERMOST: usize = 4;

/// Number of first observations of the next instruction that are skipped.
const MAX_SKIPPED: u32 = 8;

/// Maximum number of call sites with functions. At the limit all are forgotten.
const MAX_SITES: usize = 4096;

/// Minimum number of observations.
const MIN_FIRST: u32 = 2;

/// A native frame of the interpreter, and the evidence for its Python frames.
#[derive(Debug)]
pub(super) struct PartOfStack {
    pub(super) eval: EvalFrame,
    pub(super) part: Part,
    /// Current Python frame as of the sample.
    pub(super) current: Option<u64>,
    /// Function that runs, as of the sample.
    pub(super) running: Option<u64>,
    /// True if that is a generator, as of the sample.
    pub(super) is_made: bool,
    /// Current Python frame of the part, as read from memory after the sample.
    pub(super) in_memory: Option<LiveFrame>,
    /// Whether that is the outermost frame of its native frame.
    pub(super) outermost: Option<bool>,
    /// True if the current frame follows the next outer part's one in the data stack, as of the
    /// sample.
    pub(super) follows_outer: bool,
    /// True if that proves that it is the outermost one of its native frame.
    pub(super) is_outermost: bool,
    /// Frames during the look, if the native frame still ran or waited.
    pub(super) seen: Vec<LiveFrame>,
}

/// Collects the evidence for each part of the stack of a sample with these current frames.
pub(super) fn parts(
    layout: &Layout,
    evals: &[EvalFrame],
    current: &[Option<u64>],
    look: &mut Look,
    memory: &mut dyn ProcessMemory,
) -> Vec<PartOfStack> {
    let of = |at: usize| current.get(at).copied().flatten();
    let mut has_seen = false;
    let mut parts = Vec::with_capacity(evals.len());
    for (at, eval) in evals.iter().enumerate() {
        let mut part = Part {
            native: eval.cfa,
            outer: of(at + 1).unwrap_or(0),
            function: Part::ANY,
        };
        // The outermost native frame of an incomplete stack has callers all the same.
        let is_it = |known: &Part| {
            known.native == part.native && (part.outer == 0 || part.outer == known.outer)
        };
        let segment = look.segments.iter().find(|segment| is_it(&segment.part));
        let mut seen = Vec::new();
        if let Some(segment) = segment {
            has_seen = true;
            part = segment.part;
            seen.clone_from(&segment.frames);
        } else if has_seen && let Some(frame) = of(at) {
            // It waits for inner ones, so its frames do not change meanwhile.
            let mut more = |snapshot: &mut Snapshot, address| {
                snapshot.read_around(address, memory);
            };
            let waiting = live::waiting(layout, frame, eval, &mut look.snapshot, &mut more);
            let outer = |outer: &Option<u64>| outer.is_none_or(|outer| outer == part.outer);
            if let Some((frames, _)) = waiting.filter(|(_, is)| part.outer == 0 || outer(is)) {
                seen = frames;
            }
        }
        let in_memory = of(at).and_then(|frame| look.frame(layout, frame, (eval, part.outer)));
        parts.push(PartOfStack {
            eval: *eval,
            part,
            current: of(at),
            running: None,
            is_made: false,
            in_memory: in_memory.map(|(frame, _)| frame),
            outermost: in_memory.and_then(|(_, is_outermost)| is_outermost),
            follows_outer: false,
            is_outermost: false,
            seen,
        });
    }
    parts
}

/// Returns the code objects of all frames that the parts and looks have.
pub(super) fn codes_of<'a>(
    parts: &[PartOfStack],
    looks: impl Iterator<Item = &'a Look>,
) -> Vec<u64> {
    let seen = parts.iter().flat_map(|part| &part.seen);
    let segments = looks.flat_map(|look| &look.segments);
    let in_looks = segments.flat_map(|segment| &segment.frames);
    let in_memory = parts.iter().filter_map(|part| part.in_memory);
    let codes = seen.chain(in_looks).map(|frame| frame.code);
    codes.chain(in_memory.map(|frame| frame.code)).collect()
}

/// Judges the parts of one stack.
#[derive(Clone, Copy)]
pub(super) struct Judge<'a, 's> {
    pub(super) layout: &'a Layout,
    pub(super) stack: &'a Stack<'s>,
    pub(super) codes: &'a Codes,
}

impl Judge<'_, '_> {
    /// Adds a look: the frames of each native frame that it found. `ran` is true if the thread has run
    /// since the look before. A thread that waits is in the same call, however often it is looked at.
    pub(super) fn observe(&self, look: &Look, ran: bool, looks: &mut Looks) {
        let is_proven = |frame: &LiveFrame| self.codes.was_proven(frame.code, look.time);
        let is_evidence = ran || !look.is_repeat;
        for (place, callers, mut frames) in self.places(look) {
            looks.observe(place, &callers, is_evidence && frames.all(is_proven));
        }
    }

    /// Returns where the stacks of a look begin. `None` if it has too few frames to tell the kind of
    /// thread: those of `threading`, and the thread's own function.
    pub(super) fn origin(&self, look: &Look) -> Option<Origin> {
        let outermost = look
            .segments
            .last()
            .filter(|segment| segment.part.outer == 0)?;
        let frames = look.segments.iter().rev();
        let frames = frames.flat_map(|segment| segment.frames.iter().rev());
        let mut hasher = FxHasher::default();
        let mut count = 0;
        for frame in frames.take(OUTERMOST) {
            let number = self.codes.number(frame.code);
            let is_early = self.codes.begins_thread(frame.code);
            if number == u64::MAX || frame.is_generator || is_early {
                return None;
            }
            hasher.write_u64(number);
            count += 1;
        }
        (count == OUTERMOST).then_some(Origin {
            // Numbers of threads have 32 bits.
            kind: hasher.finish() | 1 << 63,
            native: outermost.part.native,
            frame: outermost.frames.last()?.address,
        })
    }

    /// Adds a look that is later than the sample as evidence against callers: functions change in
    /// between, and the sample may be of either.
    pub(super) fn contradict(&self, look: &Look, looks: &mut Looks) {
        for (place, callers, mut frames) in self.places(look) {
            if frames.all(|frame| self.codes.number(frame.code) != u64::MAX) {
                looks.observe(place, &callers, false);
            }
        }
    }

    /// Returns the place and the callers of each native frame in a look, and all frames that tell
    /// them.
    fn places<'l>(
        &self,
        look: &'l Look,
    ) -> impl Iterator<Item = (Place, Vec<Caller>, impl Iterator<Item = &'l LiveFrame>)> {
        let outer = look
            .segments
            .iter()
            .skip(1)
            .map(|outer| outer.frames.first());
        let outer = outer.chain([None]);
        look.segments
            .iter()
            .zip(outer)
            .filter_map(|(segment, outer)| {
                let frames = segment.frames.iter();
                let frames: Vec<Caller> = frames.map(|frame| self.caller(frame)).collect();
                let (frame, callers) = frames.split_first()?;
                let function = outer.map_or(Part::ANY, |outer| self.codes.number(outer.code));
                let place = Place {
                    part: Part {
                        function,
                        ..segment.part
                    },
                    frame: *frame,
                };
                Some((place, callers.to_vec(), segment.frames.iter().chain(outer)))
            })
    }

    /// Adds what the memory of a part's current frame says: whether it is the outermost one of its
    /// native frame. The function may have returned meanwhile. But the answer is part of the frame,
    /// and was true for a call of the same function at the same place.
    pub(super) fn observe_outermost(
        &self,
        part: &PartOfStack,
        outer: Option<&PartOfStack>,
        looks: &mut Looks,
    ) {
        let is_it = |frame: &LiveFrame| Some(frame.code) == part.running && !frame.is_generator;
        if let (Some(frame), Some(is_outermost)) = (part.in_memory.filter(is_it), part.outermost) {
            let in_memory = outer.and_then(|outer| Some(outer.in_memory?.code));
            let is_same = in_memory.is_none() || in_memory == outer.and_then(|outer| outer.running);
            let place = Place {
                part: match is_same {
                    true => part.part,
                    false => part.part.of_any(),
                },
                frame: self.caller(&frame),
            };
            looks.observe_outermost(place, is_outermost);
        }
    }

    /// Returns the identities of frames; nothing if one of their code objects is not proven.
    fn proven(&self, frames: &[LiveFrame]) -> Vec<Caller> {
        let are_codes = (frames.iter()).all(|frame| self.codes.is_proven(frame.code));
        let frames = frames.iter().filter(|_| are_codes);
        frames.map(|frame| self.caller(frame)).collect()
    }

    /// Learns where the interpreter keeps the next instruction.
    pub(super) fn learn_next(&self, part: &PartOfStack, learned: &mut LearnedFrames) {
        let site = part.eval.site;
        if !learned.next.wants(site) {
            return;
        }
        learned.next.count_attempt(site);
        let in_memory = part.in_memory.map(|frame| frame.code);
        let in_memory = in_memory.filter(|code| self.codes.is_proven(*code));
        let words = words(self.stack, part.eval.index).into_iter();
        let known: Vec<(Location, u64, u64)> = words
            .filter_map(|(location, word)| Some((location, word, self.codes.at(word)?)))
            .collect();
        let Some((.., only)) = known.first().copied() else {
            return;
        };
        let is_clear = known.iter().all(|(.., code)| *code == only);
        // The thread has mostly moved since the sample, so memory seldom agrees. A single function
        // among all words is as good, once most functions are known, and if one native frame runs
        // all of them: it has no words of former native frames.
        let is_early = learned.skipped < MAX_SKIPPED || self.layout.kind != FrameKind::Entries;
        let code = match in_memory {
            Some(code) if known.iter().any(|(.., is)| *is == code) => code,
            _ if is_clear && !is_early => only,
            _ => return,
        };
        let right = known.into_iter().filter(|(.., is)| *is == code);
        let (first, next): (Vec<_>, Vec<_>) =
            right.partition(|(_, word, _)| self.codes.is_start(code, *word));
        let locations = |words: Vec<(Location, u64, u64)>| -> Vec<Location> {
            words.into_iter().map(|(location, ..)| location).collect()
        };
        let (first, next) = (locations(first), locations(next));
        if in_memory != Some(code) {
            learned.next.observe_at(site, &next);
            return;
        }
        learned.first.observe(site, &first);
        learned.next.observe(site, &next);
        if is_clear && learned.skipped < MAX_SKIPPED {
            learned.skipped += 1;
        } else if is_clear {
            learned.next.observe_clearly(&next);
        }
    }

    /// Returns the function that a native frame runs: the one with the next instruction.
    pub(super) fn running(
        &self,
        part: &PartOfStack,
        outer: Option<&EvalFrame>,
        learned: &LearnedFrames,
    ) -> Option<u64> {
        if part.eval.is_starting {
            return None;
        }
        let word = |location| value(self.stack, part.eval.index, location);
        let in_frame = part.in_memory.map(|frame| frame.code);
        let at = |location| {
            let code = self.codes.at(word(location)?)?;
            match self.layout.kind {
                FrameKind::Objects => self.codes.of_frame(code, in_frame),
                FrameKind::CFrames { .. } | FrameKind::Entries => Some(code),
            }
        };
        if let Some(first) = learned.first.certain() {
            return at(first).filter(|code| {
                let start = word(first);
                start.is_some_and(|start| self.codes.is_start(*code, start))
            });
        }
        // The native frame has just begun, and its caller's register is unchanged.
        let is_callers = |location: Location| {
            let is_kept = match location {
                Location::Register(_) => true,
                Location::Slot(_) => part.eval.site == Site::Running,
            };
            is_kept
                && outer
                    .is_some_and(|outer| value(self.stack, outer.index, location) == word(location))
        };
        let next = &learned.next;
        if let Some(location) = next.at(part.eval.site).or_else(|| next.certain()) {
            return at(location).filter(|_| !is_callers(location));
        }
        // A call that was not seen often: the memory must agree.
        let code = at(next.everywhere().filter(|next| !is_callers(*next))?)?;
        (part.in_memory?.code == code).then_some(code)
    }

    /// Returns true if a native frame runs a generator, by its next instruction.
    pub(super) fn is_made(&self, part: &PartOfStack, learned: &LearnedFrames) -> bool {
        let location = learned.next.at(part.eval.site);
        let next = location.and_then(|location| value(self.stack, part.eval.index, location));
        (part.running.zip(next)).is_some_and(|(code, next)| self.codes.is_made(code, next))
    }

    /// Returns the functions of a part as of the sample. `None` is a gap.
    pub(super) fn functions(&self, part: &PartOfStack, looks: &Looks) -> Vec<Option<Caller>> {
        let layout = self.layout;
        let seen = self.proven(&part.seen);
        let mut callers = Vec::new();
        let (Some(code), Some(frame)) = (part.running, part.current) else {
            looks.outer_callers(part.part, &mut callers);
            return callers;
        };
        // A generator has a native frame of its own in 3.11. Before, the function that makes it has
        // the frame of a call.
        let is_generator = part.is_made
            || (part.in_memory).is_some_and(|frame| frame.code == code && frame.is_generator);
        let is_bare = is_generator && layout.has_separate_generators();
        if layout.kind == FrameKind::Objects || is_bare {
            return vec![Some(self.function(frame, code))];
        }
        // The frame of the sample, if it was still there during the read.
        let is_it = |seen: &LiveFrame| seen.address == frame && seen.code == code;
        let still = part.seen.iter().position(is_it);
        let still = still.filter(|_| !seen.is_empty());
        let innermost = match still.and_then(|at| seen.get(at)) {
            Some(frame) => *frame,
            None if is_generator => self.function(0, code),
            // It may not yet be a generator.
            None if self.codes.is_generator(code) => {
                looks.outer_callers(part.part, &mut callers);
                callers.insert(0, Some(self.function(frame, code)));
                return callers;
            }
            None => self.function(frame, code),
        };
        if part.is_outermost && !is_generator {
            return vec![Some(innermost)];
        }
        let place = Place {
            part: part.part,
            frame: innermost,
        };
        let own = still.and_then(|at| seen.get(at + 1..));
        looks.callers(place, own, &mut callers);
        callers.insert(0, Some(innermost));
        callers
    }

    /// Returns the identity of a frame. Generators move.
    fn caller(&self, frame: &LiveFrame) -> Caller {
        let address = match frame.is_generator {
            true => 0,
            false => frame.address,
        };
        self.function(address, frame.code)
    }

    fn function(&self, frame: u64, code: u64) -> Caller {
        let number = self.codes.number(code);
        Caller {
            frame,
            code,
            number,
        }
    }
}

/// Calls of native code into the interpreter, by the return address (AVMA) of its function.
///
/// A call of a function puts its frame behind the caller's in the data stack. So the frame at this
/// address is the outermost one of its native frame, without a look. The exception is a call that
/// resumes a generator, whose frame is elsewhere: the frame at the address is of a function that
/// the generator calls. A call site does either, always.
#[derive(Debug, Default)]
pub(super) struct EntrySites {
    sites: FxHashMap<u64, Seen>,
    /// By call site and [number](Codes::number) of the code object. While a function
    /// calls another, a sample may have the frame of one and the code of the other.
    functions: FxHashMap<(u64, u64), Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Number of frames behind the caller's that were the outermost ones, and that were not.
    first: u32,
    inside: u32,
}

impl EntrySites {
    /// Adds a frame of this function behind the caller's: whether it is the outermost one of its
    /// native frame.
    pub(super) fn observe(&mut self, site: u64, function: u64, is_outermost: bool) {
        if self.functions.len() >= MAX_SITES {
            *self = Self::default();
        }
        self.sites.entry(site).or_default().add(is_outermost);
        let function = self.functions.entry((site, function)).or_default();
        function.add(is_outermost);
    }

    /// Returns true if the site calls functions, such as this one.
    pub(super) fn calls(&self, site: u64, function: u64) -> bool {
        let seen = self.sites.get(&site);
        let is_call = seen.is_some_and(|seen| seen.inside == 0 && seen.first >= MIN_FIRST);
        let seen = self.functions.get(&(site, function));
        is_call && seen.is_some_and(|seen| seen.inside == 0 && seen.first > 0)
    }
}

impl Seen {
    fn add(&mut self, is_outermost: bool) {
        let count = match is_outermost {
            true => &mut self.first,
            false => &mut self.inside,
        };
        *count = count.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_with_one_other_observation_is_not_believed() {
        let mut sites = EntrySites::default();
        for _ in 0..MIN_FIRST {
            assert!(!sites.calls(7, 1));
            sites.observe(7, 1, true);
        }
        assert!(sites.calls(7, 1) && !sites.calls(7, 2) && !sites.calls(8, 1));
        sites.observe(7, 2, false);
        assert!(!sites.calls(7, 1));
    }
}

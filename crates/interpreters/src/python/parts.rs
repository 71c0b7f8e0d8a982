//! [`PartOfStack`]: the Python frames that one native frame runs, and their evidence.

use super::codes::Codes;
use super::current::{EvalFrame, LearnedFrames};
use super::layout::{FrameKind, Layout};
use super::live::{Chain, End, InnerLook, LiveFrame};
use super::looks::{Caller, Looks, Part, Place};
use super::slots::{Location, Site, value, words};
use crate::Stack;

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
    /// Frames during the read, if the native frame still ran or waited.
    pub(super) chain: Option<Chain>,
}

/// Judges the parts of one stack.
#[derive(Clone, Copy)]
pub(super) struct Judge<'a, 's> {
    pub(super) layout: &'a Layout,
    pub(super) stack: &'a Stack<'s>,
    pub(super) codes: &'a Codes,
}

impl Judge<'_, '_> {
    /// Returns true if a chain leads from a native frame to the next outer one of the sample.
    fn is_whole(&self, part: &PartOfStack, chain: &Chain) -> bool {
        let are_codes = chain
            .frames
            .iter()
            .all(|frame| self.codes.is_confirmed(frame.code));
        let outer = match chain.end {
            Some(End::Marked(previous)) => Some(previous),
            Some(End::InNative(at)) if part.eval.contains(at) => {
                let link = at.wrapping_add(self.layout.frame.previous as u64);
                self.stack.memory.read_u64(link)
            }
            _ => None,
        };
        let is_outermost = part.part.outer == 0;
        are_codes && outer.is_some_and(|outer| is_outermost || outer == part.part.outer)
    }

    /// Adds the look at a native frame that began after the sample.
    pub(super) fn observe_inner(&self, inner: &InnerLook, looks: &mut Looks) {
        let mut frames = inner.chain.frames.iter();
        let are_codes = frames
            .clone()
            .all(|frame| self.codes.is_confirmed(frame.code));
        if let (true, Some(frame)) = (are_codes, frames.next()) {
            let place = Place {
                part: inner.part,
                frame: caller(frame),
            };
            looks.observe(place, &frames.map(caller).collect::<Vec<_>>());
        }
    }

    /// Learns where the interpreter keeps the next instruction.
    pub(super) fn learn_next(&self, part: &PartOfStack, learned: &mut LearnedFrames) {
        let site = part.eval.site;
        let in_memory = part.in_memory.map(|frame| frame.code);
        let Some(code) = in_memory.filter(|code| self.codes.is_confirmed(*code)) else {
            return;
        };
        if !learned.next.wants(site) && !learned.first.wants(site) {
            return;
        }
        let right = words(self.stack, part.eval.index).into_iter();
        let right = right.filter(|(_, word)| self.codes.at(*word) == Some(code));
        let (first, next): (Vec<_>, Vec<_>) =
            right.partition(|(_, word)| self.codes.is_start(code, *word));
        let locations = |words: Vec<(Location, u64)>| -> Vec<Location> {
            words.into_iter().map(|(location, _)| location).collect()
        };
        learned.first.observe(site, &locations(first));
        learned.next.observe(site, &locations(next));
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
        let at = |location| self.codes.at(word(location)?);
        if let Some(first) = learned.first.certain() {
            return at(first).filter(|code| {
                let start = word(first);
                start.is_some_and(|start| self.codes.is_start(*code, start))
            });
        }
        let next = &learned.next;
        if let Some(location) = next.at(part.eval.site).or_else(|| next.certain()) {
            // The native frame has just begun, and its caller's register is unchanged.
            let is_callers = part.eval.site == Site::Running
                && outer.is_some_and(|outer| {
                    value(self.stack, outer.index, location) == word(location)
                });
            return at(location).filter(|_| !is_callers);
        }
        // A call that was not seen often: the memory must agree.
        let code = at(next.everywhere()?)?;
        (part.in_memory?.code == code).then_some(code)
    }

    /// Returns true if a native frame runs a generator, by its next instruction.
    pub(super) fn is_made(&self, part: &PartOfStack, learned: &LearnedFrames) -> bool {
        let location = learned.next.at(part.eval.site);
        let next = location.and_then(|location| value(self.stack, part.eval.index, location));
        (part.running.zip(next)).is_some_and(|(code, next)| self.codes.is_made(code, next))
    }

    /// Adds the look at one part, and returns the functions of the part as of the sample. `None` is
    /// a gap.
    pub(super) fn functions(&self, part: &PartOfStack, looks: &mut Looks) -> Vec<Option<Caller>> {
        let layout = self.layout;
        let chain = part
            .chain
            .as_ref()
            .filter(|chain| self.is_whole(part, chain));
        let seen: Vec<Caller> = (chain.iter())
            .flat_map(|chain| chain.frames.iter().map(caller))
            .collect();
        if let Some((frame, callers)) = seen.split_first() {
            let place = Place {
                part: part.part,
                frame: *frame,
            };
            looks.observe(place, callers);
        }
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
            return vec![Some(Caller { frame, code })];
        }
        // The frame of the sample, if it was still there during the read.
        let still = chain.and_then(|chain| {
            let is_it = |seen: &LiveFrame| seen.address == frame && seen.code == code;
            chain.frames.iter().position(is_it)
        });
        let innermost = match still.and_then(|at| seen.get(at)) {
            Some(frame) => *frame,
            None if is_generator => Caller { frame: 0, code },
            // It may not yet be a generator.
            None if self.codes.is_generator(code) => {
                looks.outer_callers(part.part, &mut callers);
                callers.insert(0, Some(Caller { frame, code }));
                return callers;
            }
            None => Caller { frame, code },
        };
        let place = Place {
            part: part.part,
            frame: innermost,
        };
        if let Some(at) = still
            && at > 0
        {
            looks.observe(place, seen.get(at + 1..).unwrap_or_default());
        }
        let own = still.and_then(|at| seen.get(at + 1..));
        looks.callers(place, own, &mut callers);
        callers.insert(0, Some(innermost));
        callers
    }
}

/// Returns the identity of a frame. Generators move.
fn caller(frame: &LiveFrame) -> Caller {
    Caller {
        frame: match frame.is_generator {
            true => 0,
            false => frame.address,
        },
        code: frame.code,
    }
}

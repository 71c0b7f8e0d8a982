//! Python frames of a thread that sleeps.
//!
//! The frames of such a thread do not change, so one consistent walk from the thread state proves all
//! of them. The caller discards the result if the thread has run meanwhile.

use std::sync::{Arc, PoisonError};

use super::current::{EvalFrame, Finder};
use super::layout::{FrameKind, Layout};
use super::live::{LiveFrame, Segment, object_frames, object_reads};
use super::looking::look;
use super::looks::Part;
use super::reader::PythonProcess;
use super::snapshot::Snapshot;
use super::thread::track;
use crate::{Found, Names, ProcessMemory, Stack, UNNAMED_PYTHON};

impl PythonProcess {
    /// Finds the functions of a sleeping thread's stack.
    pub(super) fn read_asleep(
        &mut self,
        stack: &Stack<'_>,
        evals: &[EvalFrame],
        memory: &mut dyn ProcessMemory,
        names: &mut dyn Names,
        found: &mut Found,
    ) {
        let segments = self.segments(stack, evals, memory);
        let frames = segments.iter().flat_map(|segment| &segment.frames);
        let codes: Vec<u64> = frames.map(|frame| frame.code).collect();
        self.codes.begin_sample(stack.time);
        self.prove(&codes, memory, names);
        for eval in evals {
            let of_eval = |segment: &&Segment| segment.part.native == eval.cfa;
            let frames = segments.iter().find(of_eval);
            let frames = frames.map_or(&[][..], |segment| &segment.frames[..]);
            let is_known = |frame: &LiveFrame| self.codes.is_known(frame.code);
            if frames.is_empty() || !frames.iter().all(is_known) {
                found.push_gap(eval.index, names);
                continue;
            }
            let frames = frames.iter();
            for frame in frames.filter(|frame| !self.codes.is_shim(frame.code)) {
                let name = self.codes.name(frame.code);
                found.push(eval.index, name, UNNAMED_PYTHON, names);
            }
        }
    }

    /// Returns the Python frames of each native frame, as far as they lead to its end.
    fn segments(
        &mut self,
        stack: &Stack<'_>,
        evals: &[EvalFrame],
        memory: &mut dyn ProcessMemory,
    ) -> Vec<Segment> {
        let image = Arc::clone(&self.image);
        let layout = self.layout;
        let mut learned = image.learned.lock().unwrap_or_else(PoisonError::into_inner);
        let finder = self.finder(&layout, stack, evals);
        let current = finder.find(&mut learned, memory);
        if layout.kind == FrameKind::Objects {
            return objects(&layout, &finder, &current, memory);
        }
        let mut thread = self.threads.remove(&stack.thread).unwrap_or_default();
        let track = track(&layout, &finder, &learned, &mut thread, memory);
        self.threads.insert(stack.thread, thread);
        let look = track.map(|track| look(&layout, Some(&track), &[], Vec::new(), memory).0);
        look.map_or_else(Vec::new, |look| look.segments)
    }
}

/// Returns the frame objects of 3.8 to 3.10: one for each native frame. Each leads to the next one.
fn objects(
    layout: &Layout,
    finder: &Finder<'_, '_>,
    current: &[Option<u64>],
    memory: &mut dyn ProcessMemory,
) -> Vec<Segment> {
    let addresses: Vec<u64> = current
        .iter()
        .copied()
        .map(Option::unwrap_or_default)
        .collect();
    let mut snapshot = Snapshot::default();
    snapshot.read(object_reads(&addresses), memory);
    let frames = object_frames(layout, finder.frame_type, &addresses, &snapshot);
    let parts = finder.evals.iter().zip(frames);
    let segments = parts.filter_map(|(eval, frame)| {
        Some(Segment {
            part: Part {
                native: eval.cfa,
                outer: 0,
                function: Part::ANY,
            },
            frames: vec![frame?],
        })
    });
    segments.collect()
}

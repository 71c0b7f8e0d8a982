//! Samples that wait for the rest of their stacks.

use std::collections::VecDeque;

use rprof_processes::{ImageId, Pid};
use rprof_unwind::{CutPoint, Frame, Memory, StackDump, TruncationReason};

/// Most frames of a stack. A record holds some 8,000 addresses, the kernel's among them.
pub(super) const MOST_FRAMES: usize = 7_500;

/// A sample whose stack is cut short.
pub(super) struct Cut {
    pub(super) pid: Pid,
    pub(super) thread: u64,
    /// Time of the sample.
    pub(super) time: u64,
    /// Address of the stack slot with the next return address.
    pub(super) slot: u64,
}

/// A sample that waits for the rest of its stack.
#[derive(Debug)]
pub(super) struct DeferredSample {
    pub(super) pid: Pid,
    pub(super) thread: u64,
    pub(super) cut_point: CutPoint,
    pub(super) time: u64,
    /// Index of its event's layout.
    pub(super) layout: usize,
    /// Number of frames so far.
    pub(super) frames: usize,
    pub(super) cause: TruncationReason,
    pub(super) witnesses: Witnesses,
    /// Image of the outermost frame.
    pub(super) image: Option<ImageId>,
    /// Callers as they were known when its thread ended; `None` inside if there were none.
    pub(super) settled: Option<Option<Vec<u64>>>,
}

/// Frames next to the end of a copy whose return addresses must stand in the process's memory as they do in the copy.
const WITNESSES: usize = 2;

/// Slots next to the end of a copy, and what stands in them. Memory in which they differ is not of the same calls any more.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Witnesses([Option<(u64, u64)>; WITNESSES]);

impl Witnesses {
    /// Takes the outermost of the frames of a copy.
    pub(super) fn of(frames: &[Frame], dump: &StackDump<'_>) -> Witnesses {
        let slots = (frames.iter().rev().map(|frame| frame.slot)).filter(|slot| *slot != 0);
        let mut found = slots.map(|slot| Some((slot, dump.read_u64(slot)?)));
        Witnesses(std::array::from_fn(|_| found.next().flatten()))
    }

    /// Slots of the witnesses.
    pub(super) fn slots(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().flatten().map(|(slot, _)| *slot)
    }

    /// Returns true if there are any, and all stand in the memory.
    pub(super) fn stand_in(&self, memory: &impl Memory) -> bool {
        let mut all = self.0.iter().flatten().peekable();
        all.peek().is_some() && all.all(|(slot, word)| memory.read_u64(*slot) == Some(*word))
    }
}

/// Samples that wait, in the order of the records.
pub(super) type DeferredSamples = VecDeque<DeferredSample>;

impl DeferredSample {
    /// Sets the image of the outermost frame.
    pub(super) fn in_image(self, image: Option<ImageId>) -> DeferredSample {
        DeferredSample { image, ..self }
    }
}

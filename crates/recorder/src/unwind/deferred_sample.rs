//! Samples that wait for their outer frames.

use std::collections::VecDeque;

use rprof_processes::{ImageId, Pid};
use rprof_unwind::{Arch, CutPoint, Memory, StackDump, StackFrame, TruncationReason};

/// Maximum frames of a stack. A record holds some 8,000 addresses, including the kernel's.
pub(super) const MAX_FRAMES: usize = 7_500;

pub(super) struct Cut {
    pub(super) pid: Pid,
    pub(super) thread: u64,
    pub(super) time: u64,
    /// Stack slot of the next return address.
    pub(super) slot: u64,
}

#[derive(Debug)]
pub(super) struct DeferredSample {
    pub(super) pid: Pid,
    pub(super) thread: u64,
    pub(super) cut_point: CutPoint,
    pub(super) time: u64,
    pub(super) layout: usize,
    pub(super) frames: usize,
    pub(super) cause: TruncationReason,
    pub(super) witnesses: Witnesses,
    pub(super) image: Option<ImageId>,
    /// Callers known when its thread ended; the inner `None` means unknown.
    pub(super) settled: Option<Option<Vec<u64>>>,
}

/// Number of outermost frames that must match between dump and process memory.
const WITNESSES: usize = 2;

/// Stack slots near the end of a dump and their values. If memory differs, the calls have changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Witnesses {
    arch: Arch,
    words: [Option<(u64, u64)>; WITNESSES],
}

impl Witnesses {
    pub(super) fn of(arch: Arch, frames: &[StackFrame], dump: &StackDump<'_>) -> Witnesses {
        let slots = (frames.iter().rev().map(|frame| frame.slot)).filter(|slot| *slot != 0);
        let mut found = slots.map(|slot| Some((slot, arch.read_word(dump, slot)?)));
        Witnesses {
            arch,
            words: std::array::from_fn(|_| found.next().flatten()),
        }
    }

    /// Returns the architecture of the stack.
    pub(super) fn arch(&self) -> Arch {
        self.arch
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = u64> + '_ {
        self.words.iter().flatten().map(|(slot, _)| *slot)
    }

    /// Returns true if there are witnesses and all match the memory.
    pub(super) fn stand_in(&self, memory: &impl Memory) -> bool {
        let mut all = self.words.iter().flatten().peekable();
        let read = |slot| self.arch.read_word(memory, slot);
        all.peek().is_some() && all.all(|(slot, word)| read(*slot) == Some(*word))
    }
}

pub(super) type DeferredSamples = VecDeque<DeferredSample>;

impl DeferredSample {
    pub(super) fn in_image(self, image: Option<ImageId>) -> DeferredSample {
        DeferredSample { image, ..self }
    }
}

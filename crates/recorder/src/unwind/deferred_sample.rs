//! Samples that wait for the rest of their stacks.

use std::collections::VecDeque;

use rprof_processes::{ImageId, Pid};
use rprof_unwind::{CutPoint, TruncationReason};

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
    /// Image of the outermost frame.
    pub(super) image: Option<ImageId>,
    /// Callers as they were known when its thread ended; `None` inside if there were none.
    pub(super) settled: Option<Option<Vec<u64>>>,
}

/// Samples that wait, in the order of the records.
pub(super) type DeferredSamples = VecDeque<DeferredSample>;

impl DeferredSample {
    /// Sets the image of the outermost frame.
    pub(super) fn in_image(self, image: Option<ImageId>) -> DeferredSample {
        DeferredSample { image, ..self }
    }
}

//! Sample groups, weights, and record positions, shared by the passes.

use rprof_processes::CommId;

use crate::stack_end::StackEnd;

/// Aggregate key: samples that are equal in it are summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SampleGroup {
    pub(crate) event: u32,
    pub(crate) comm: Option<CommId>,
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) stack: u32,
    pub(crate) end: StackEnd,
    /// Waker, if samples of the event are waits.
    pub(crate) woken: WokenBy,
}

/// Waker of a wait: a [`WaitEnd`](rprof_records::WaitEnd) with names for threads, as those of one name are one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum WokenBy {
    /// No wait, or it is not known.
    #[default]
    Unknown,
    /// A thread of this name; `None` if that is not known.
    Thread(Option<CommId>),
    /// An interrupt.
    Interrupt,
    /// The thread was awake, and waited for a CPU.
    Awake,
}

/// Number of samples and their total weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weights {
    pub(crate) samples: u64,
    pub(crate) weight: u64,
}

impl Weights {
    pub(crate) fn add(&mut self, more: &Weights) {
        self.samples += more.samples;
        self.weight = self.weight.saturating_add(more.weight);
    }
}

/// Position of a record in the recording; positions ascend in the file's order.
///
/// The index of the block stands in the upper 32 bits, and the record's offset in the block, in
/// bytes, in the lower. Blocks are cut after about a MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RecordPosition(u64);

impl RecordPosition {
    /// Makes the position of a record from the index of its block, and its offset there.
    pub(crate) fn new(block: usize, offset: usize) -> RecordPosition {
        RecordPosition((block as u64) << 32 | offset as u64)
    }

    /// Returns the index of the record's block.
    pub(crate) fn block(self) -> usize {
        (self.0 >> 32) as usize
    }

    /// Returns the record's offset in its block, in bytes.
    pub(crate) fn offset(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

/// Row of one sample, with the id of its stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleRow {
    pub(crate) time: u64,
    /// Position of its record: orders samples of the same time, and finds the record again.
    pub(crate) position: RecordPosition,
    pub(crate) group: SampleGroup,
    pub(crate) cpu: Option<u32>,
    pub(crate) period: u64,
    pub(crate) ip: u64,
    pub(crate) has_chain: bool,
}

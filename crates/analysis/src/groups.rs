//! Sample groups, weights, and record positions, shared by the passes.

use rprof_processes::CommId;

use crate::stack_end::StackEnd;

/// Aggregate key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SampleGroup {
    pub(crate) event: u32,
    pub(crate) comm: Option<CommId>,
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) stack: u32,
    pub(crate) end: StackEnd,
    pub(crate) woken: WokenBy,
    /// Index of the request's name, if samples are named by it.
    pub(crate) request: u32,
}

/// Waker of a wait: a [`WaitEnd`](rprof_records::WaitEnd) with a thread's name in place of its id,
/// because threads of one name share a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum WokenBy {
    /// Not a wait, or the waker is unknown.
    #[default]
    Unknown,
    /// Thread of this name, if known.
    Thread(Option<CommId>),
    Interrupt,
    /// The thread was runnable, and waited for a CPU.
    Awake,
}

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

/// Position of a record in the recording, in file order.
///
/// The upper 32 bits hold the index of the block, the lower the byte offset. Blocks are about 1 MiB
/// long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RecordPosition(u64);

impl RecordPosition {
    pub(crate) fn new(block: usize, offset: usize) -> RecordPosition {
        RecordPosition((block as u64) << 32 | offset as u64)
    }

    pub(crate) fn block(self) -> usize {
        (self.0 >> 32) as usize
    }

    pub(crate) fn offset(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleRow {
    pub(crate) time: u64,
    pub(crate) position: RecordPosition,
    pub(crate) group: SampleGroup,
    pub(crate) cpu: Option<u32>,
    pub(crate) period: u64,
    pub(crate) ip: u64,
    pub(crate) has_chain: bool,
}

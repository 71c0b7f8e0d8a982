//! What several passes count by, and where records stand.

use rprof_processes::CommId;

use crate::stack_end::StackEnd;

/// What samples are counted together by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SampleGroup {
    pub(crate) event: u32,
    pub(crate) comm: Option<CommId>,
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) stack: u32,
    pub(crate) end: StackEnd,
}

/// How much of what.
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

/// A place in the recording: the number of the block, and the bytes before the record
/// within it. No record begins 4 GiB into a block, blocks being cut after about a MiB.
pub(crate) fn place_in(block: usize, at: usize) -> u64 {
    (block as u64) << 32 | at as u64
}

/// One sample, for those who want them one by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleRow {
    pub(crate) time: u64,
    /// Position in the recording, as [`place_in`] makes it: orders samples of the same
    /// time, and finds the record again.
    pub(crate) order: u64,
    pub(crate) group: SampleGroup,
    pub(crate) cpu: Option<u32>,
    pub(crate) period: u64,
    pub(crate) ip: u64,
    pub(crate) has_chain: bool,
}

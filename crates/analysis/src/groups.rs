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

/// Returns the position of a record in the recording: the block's number in the upper 32 bits, and
/// the record's offset in the block, in bytes, in the lower. Blocks are cut after about a MiB.
pub(crate) fn place_in(block: usize, at: usize) -> u64 {
    (block as u64) << 32 | at as u64
}

/// Row of one sample, with the id of its stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleRow {
    pub(crate) time: u64,
    /// Record position from [`place_in`]: orders samples of the same time, and finds the record
    /// again.
    pub(crate) order: u64,
    pub(crate) group: SampleGroup,
    pub(crate) cpu: Option<u32>,
    pub(crate) period: u64,
    pub(crate) ip: u64,
    pub(crate) has_chain: bool,
}

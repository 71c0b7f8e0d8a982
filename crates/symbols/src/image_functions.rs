//! [`ImageFunctions`]: the functions of an image, by its unwinding information.

use rprof_image::{MemoryBudget, MemoryLease};
use rprof_unwind::FunctionRanges;
use std::ops::Range;

#[derive(Debug)]
pub(crate) struct ImageFunctions {
    ranges: FunctionRanges,
    _lease: MemoryLease,
}

impl ImageFunctions {
    /// Reads the function ranges. `None` without readable unwinding information, or at the memory
    /// limit.
    pub(crate) fn read(bytes: &[u8], memory: &MemoryBudget) -> Option<Self> {
        let ranges = FunctionRanges::parse(bytes).ok()?;
        let lease = memory.take(ranges.memory() as u64)?;
        Some(Self {
            ranges,
            _lease: lease,
        })
    }

    pub(crate) fn at(&self, bytes: &[u8], svma: u64) -> Option<Range<u64>> {
        self.ranges.at(bytes, svma)
    }

    /// Returns the SVMAs at which functions start and end, unsorted.
    pub(crate) fn bounds(&self, bytes: &[u8]) -> Vec<u64> {
        self.ranges.bounds(bytes)
    }
}

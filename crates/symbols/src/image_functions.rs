//! [`ImageFunctions`]: the functions of an image, without symbols.

use rprof_image::{MemoryBudget, MemoryLease};
use rprof_unwind::{CalledFunctions, FunctionRanges};
use std::ops::Range;
use std::sync::OnceLock;

#[derive(Debug)]
pub(crate) struct ImageFunctions {
    /// By unwinding information.
    described: Option<FunctionRanges>,
    /// In code without unwinding information. Searched only for addresses in such code.
    called: OnceLock<CalledFunctions>,
    _lease: MemoryLease,
}

impl ImageFunctions {
    /// Reads the function ranges. `None` at the memory limit.
    pub(crate) fn read(bytes: &[u8], memory: &MemoryBudget) -> Option<Self> {
        let described = FunctionRanges::parse(bytes).ok();
        let size = described.as_ref().map_or(0, FunctionRanges::memory);
        let lease = memory.take(size as u64)?;
        Some(Self {
            described,
            called: OnceLock::new(),
            _lease: lease,
        })
    }

    pub(crate) fn at(&self, bytes: &[u8], svma: u64) -> Option<Range<u64>> {
        let described = self.described.as_ref();
        let found = described.and_then(|ranges| ranges.at(bytes, svma));
        found.or_else(|| self.called(bytes).at(svma))
    }

    /// Returns the SVMAs of function starts and ends, unsorted.
    pub(crate) fn bounds(&self, bytes: &[u8]) -> Vec<u64> {
        let described = self.described.as_ref();
        let mut bounds = described.map_or_else(Vec::new, |ranges| ranges.bounds(bytes));
        let called = self.called(bytes).ranges().iter();
        bounds.extend(called.flat_map(|function| [function.start, function.end]));
        bounds
    }

    fn called(&self, bytes: &[u8]) -> &CalledFunctions {
        let find = || CalledFunctions::parse(bytes).unwrap_or_default();
        self.called.get_or_init(find)
    }
}

//! [`Details`]: optional data of samples.

use rprof_records::RecordType;

/// Data to load besides samples and their stacks.
#[derive(Clone, Debug, Default)]
pub struct Details {
    /// Fields of the record, all decoded: see [`SampleView::record`](super::SampleView::record). A
    /// compressed recording then stays decompressed in memory.
    pub records: bool,
    /// Symbols of data and target addresses (ADDR).
    pub addresses: bool,
    /// Symbols of both ends of branches.
    pub branches: bool,
    /// Text of tracepoints.
    pub trace: bool,
    /// Types of other records listed between the samples.
    pub side: Vec<RecordType>,
}

impl Details {
    pub(super) fn need_blocks(&self) -> bool {
        self.records || self.addresses || self.branches || self.trace || !self.side.is_empty()
    }
}

//! [`Details`]: what is loaded besides samples and their stacks.

use rprof_records::RecordType;

/// Data to load besides samples and their stacks.
#[derive(Clone, Debug, Default)]
pub struct Details {
    /// Fields that are read again from the record: see
    /// [`SampleView::record`](super::SampleView::record). A compressed recording stays expanded in
    /// memory then; others cost nothing.
    pub records: bool,
    /// Names for data and target addresses (ADDR).
    pub addresses: bool,
    /// Names for both ends of branches.
    pub branches: bool,
    /// Text of tracepoints.
    pub trace: bool,
    /// Types of records that are listed between the samples.
    pub side: Vec<RecordType>,
}

impl Details {
    /// Returns true if records are read again from their blocks.
    pub(super) fn need_blocks(&self) -> bool {
        self.records || self.addresses || self.branches || self.trace || !self.side.is_empty()
    }
}

//! Batches, which drain threads send to the receiver.

/// Source ring of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// SAMPLE records, and LOST and THROTTLE records about them.
    Samples,
    /// Process records: names, mappings, forks and exits.
    Sideband,
}

/// CPU number of batches without a CPU: of synthesized records, and of a
/// [snapshot](crate::Session::snapshot).
pub const NO_CPU: u32 = u32::MAX;

/// Whole records of one CPU, in the order of the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// CPU of the ring.
    pub cpu: u32,
    /// Ring of the records.
    pub stream: Stream,
    /// Records, one after another; empty for a bare watermark. Return the buffer with
    /// [`Recycler::recycle`](super::Recycler::recycle) soon.
    pub bytes: Vec<u8>,
    /// Watermark in ns of the records' clock: the CPU will send no earlier record after this batch.
    /// It never decreases; `u64::MAX` in the last batch.
    ///
    /// It is exact if the thread is [pinned](super::DrainCounts::pinned) to its CPU. Otherwise a
    /// stamped record may not have been published when the ring was read, so allow 1 ms.
    pub watermark: u64,
}

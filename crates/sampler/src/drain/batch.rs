//! Batches: what a drain thread sends to the receiver.

/// Ring of a CPU that a batch is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// SAMPLE records, and LOST and THROTTLE records about them.
    Samples,
    /// Records that describe processes: names, mappings, forks and exits.
    Sideband,
}

/// CPU of batches that no CPU sent: of records that are made up, and of a
/// [snapshot](crate::Session::snapshot).
pub const NO_CPU: u32 = u32::MAX;

/// Whole records of one CPU, in the order in which the kernel wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// CPU whose ring it is.
    pub cpu: u32,
    /// Ring that the records are from.
    pub stream: Stream,
    /// Records, one after another; empty in a batch that only carries a watermark.
    ///
    /// Return the buffer with [`Recycler::recycle`](super::Recycler::recycle) as soon as the
    /// records are taken out of it.
    pub bytes: Vec<u8>,
    /// Watermark in nanoseconds of the clock of the records: after this batch, the CPU sends no record with
    /// an earlier time. Never less than that of an earlier batch; `u64::MAX` in the last one.
    ///
    /// It is exact where the thread is bound to its CPU (see
    /// [`DrainCounts::pinned`](super::DrainCounts::pinned)). Elsewhere the kernel may have stamped
    /// a record and not yet published it when the ring was read, so leave some slack (1 ms).
    pub watermark: u64,
}

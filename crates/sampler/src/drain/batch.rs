//! What a drain thread sends.

/// Which ring of a CPU a batch is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// SAMPLE records, and LOST and THROTTLE records about them.
    Samples,
    /// Records that say who runs and what is mapped.
    Sideband,
}

/// Whole records of one CPU, in the order in which the kernel wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The CPU.
    pub cpu: u32,
    /// Which ring they are from.
    pub stream: Stream,
    /// The records, one after another; none in a batch that only tells a watermark.
    ///
    /// Give the buffer back with [`Recycler::recycle`](super::Recycler::recycle) as soon as
    /// the records are taken out of it.
    pub bytes: Vec<u8>,
    /// Nanoseconds of CLOCK_MONOTONIC: after this batch, the CPU will send no record with an
    /// earlier time. Never less than that of an earlier batch; `u64::MAX` in the last one.
    ///
    /// It is exact where the thread is bound to its CPU (see
    /// [`DrainCounts::pinned`](super::DrainCounts::pinned)). Elsewhere the kernel may have
    /// stamped a record and not yet published it at the moment the ring was looked at, so
    /// leave some slack (1 ms).
    pub watermark: u64,
}

//! Thresholds of the rule for completing a stack. Times are in ns.

/// Observations of the same callers.
pub(super) const MIN_OBSERVATIONS: u32 = 4;

/// Closer observations count as one.
pub(super) const MIN_INTERVAL: u64 = 500_000;

/// Maximum age of an observation without one on the other side of the sample.
pub(super) const MAX_AGE_ONE_SIDED: u64 = 10_000_000;

/// The same, if other threads have the same callers.
pub(super) const MAX_AGE_CROSS_THREAD: u64 = 1_000_000_000;

/// Waiting time, so that later observations can contradict.
pub(super) const DEFERRAL: u64 = 200_000_000;

/// Ambiguous cut points of a polymorphic function.
pub(super) const POLYMORPHIC: u32 = 2;

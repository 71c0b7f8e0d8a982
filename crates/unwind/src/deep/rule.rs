//! Thresholds of the rule for completing a stack. Times are in ns.

/// Minimum number of observations of the same callers.
pub(super) const MIN_OBSERVATIONS: u32 = 4;

/// Minimum time between observations. Closer ones count as one.
pub(super) const MIN_INTERVAL: u64 = 500_000;

/// Maximum age of an observation without one on the other side of the sample.
pub(super) const MAX_AGE_ONE_SIDED: u64 = 10_000_000;

/// Maximum age of a one-sided observation if other threads have the same callers.
pub(super) const MAX_AGE_CROSS_THREAD: u64 = 1_000_000_000;

/// Time to wait for contradicting observations.
pub(super) const DEFERRAL: u64 = 200_000_000;

/// Minimum number of ambiguous cut points of a polymorphic function.
pub(super) const POLYMORPHIC: u32 = 2;

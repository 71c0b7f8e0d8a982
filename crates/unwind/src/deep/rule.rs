//! The numbers of the rule by which a stack is completed. Times are in ns.

/// Minimum number of observations that must have found the same callers.
pub(super) const MIN_OBSERVATIONS: u32 = 4;

/// Minimum time between two observations; those that come together count as one.
pub(super) const MIN_INTERVAL: u64 = 500_000;

/// Maximum age of an observation when the callers were seen only before, or only after, the sample.
pub(super) const MAX_AGE_ONE_SIDED: u64 = 10_000_000;

/// Maximum age of an observation on one side, if other threads have the same callers.
pub(super) const MAX_AGE_CROSS_THREAD: u64 = 1_000_000_000;

/// Time for which each sample is pending, so that later observations can contradict.
pub(super) const DEFERRAL: u64 = 200_000_000;

/// Number of ambiguous cut points from which on a function is polymorphic.
pub(super) const POLYMORPHIC: u32 = 2;

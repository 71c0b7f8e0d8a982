//! Indices of the 64-bit words of a control page (`struct perf_event_mmap_page`).

/// `version` and `compat_version`.
pub(crate) const VERSION: usize = 0;
/// `lock` and `index`.
pub(crate) const LOCK: usize = 1;
pub(crate) const OFFSET: usize = 2;
pub(crate) const TIME_ENABLED: usize = 3;
pub(crate) const TIME_RUNNING: usize = 4;
pub(crate) const CAPABILITIES: usize = 5;
/// `pmc_width`, `time_shift` and `time_mult`.
pub(crate) const WIDTH: usize = 6;
pub(crate) const TIME_OFFSET: usize = 7;
pub(crate) const TIME_ZERO: usize = 8;
pub(crate) const SIZE: usize = 9;
pub(crate) const TIME_CYCLES: usize = 10;
pub(crate) const TIME_MASK: usize = 11;
/// Words that the lock guards.
pub(crate) const LOCKED: usize = 12;
pub(crate) const DATA_HEAD: usize = 128;
pub(crate) const DATA_TAIL: usize = 129;
pub(crate) const DATA_OFFSET: usize = 130;
pub(crate) const DATA_SIZE: usize = 131;
pub(crate) const AUX_HEAD: usize = 132;
pub(crate) const AUX_TAIL: usize = 133;
pub(crate) const AUX_OFFSET: usize = 134;
pub(crate) const AUX_SIZE: usize = 135;
/// Words of the whole struct that have a name.
pub(crate) const COUNT: usize = 136;

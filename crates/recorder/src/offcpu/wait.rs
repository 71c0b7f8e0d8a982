//! [`Wait`]: a time for which a thread had no CPU.

/// Thread at a time, on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) pid: i32,
    pub(super) tid: i32,
    pub(super) cpu: u32,
    pub(super) time: u64,
}

/// Reason for which a thread has no CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cause {
    /// It waits for something else.
    Blocked,
    /// It could run.
    Runnable,
}

/// Time for which a thread had no CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) pid: i32,
    pub(super) tid: i32,
    /// CPU on which it went on, or which it left.
    pub(super) cpu: u32,
    pub(super) from: u64,
    pub(super) to: u64,
    /// Nanoseconds that it stands for: its length, or more where others were not recorded.
    pub(super) weight: u64,
    pub(super) cause: Cause,
    /// The sample with which it left the CPU, a whole record.
    pub(super) stack: Option<Vec<u8>>,
}

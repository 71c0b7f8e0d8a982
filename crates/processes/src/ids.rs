//! The small numbers everything else is named by.

/// Nanoseconds on the clock of the recording. 0 is "since before it began".
///
/// The clock is whichever the events were opened with (`clockid` in
/// `perf_event_open(2)`); this crate only compares.
pub type Time = u64;

/// Process id: what the kernel calls tgid, and records call `pid`.
///
/// 0 (the idle task) and -1 (used for the kernel in some records) are kept like
/// any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(pub i32);

impl Pid {
    /// The thread that has the same number as its process.
    pub fn main_thread(self) -> Tid {
        Tid(self.0)
    }
}

/// Thread id: what the kernel calls pid, and records call `tid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid(pub i32);

/// An image: an index into [`Timeline::images`](crate::Timeline::images).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageId(pub u32);

/// An interned thread name; see [`Timeline::comm_name`](crate::Timeline::comm_name).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommId(pub u32);

/// An address space: the mappings of one process from its birth, or from an
/// exec, to the next exec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(pub u32);

impl SpaceId {
    /// The address space of the kernel, which all processes share.
    pub const KERNEL: Self = Self(0);
}

/// Names the exact set of mappings in force at a moment.
///
/// Two moments, even of two processes, with an equal state resolve every address
/// alike. The reverse does not hold. Meant as a key: a callchain interned as
/// (state, bytes) needs resolving once. A forked child that has mapped nothing
/// yet has the state its parent had at the fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MapState {
    /// The address space that made the last change.
    pub space: SpaceId,
    /// Number of changes that it had made.
    pub epoch: u32,
}

//! Ids and time.

/// Nanoseconds on the clock of the events (`clockid` in `perf_event_open(2)`). 0 means "before the
/// recording".
pub type Time = u64;

/// Process id: the kernel's tgid, `pid` in records. 0 (the idle task) and -1 (the kernel, in some
/// records) are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(pub i32);

impl Pid {
    /// Returns the main thread, which has the number of its process.
    pub fn main_thread(self) -> Tid {
        Tid(self.0)
    }
}

/// Thread id: the kernel's pid, `tid` in records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid(pub i32);

/// Id of an image: an index into [`Timeline::images`](crate::Timeline::images).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageId(pub u32);

/// Id of a thread name: see [`Timeline::comm_name`](crate::Timeline::comm_name).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommId(pub u32);

/// Id of an address space: a process's mappings from start or exec to the next exec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(pub u32);

impl SpaceId {
    /// The address space of the kernel, which all processes share.
    pub const KERNEL: Self = Self(0);
}

/// Identifies the mappings in force at a moment.
///
/// Equal states, even of two processes, resolve all addresses alike; the reverse does not hold. So
/// a callchain interned as (state, bytes) needs one resolution. A forked child has its parent's
/// state until its first mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MapState {
    /// Space with the last change.
    pub space: SpaceId,
    /// Number of its changes.
    pub epoch: u32,
}

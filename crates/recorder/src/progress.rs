//! Counts during a recording, which the writer thread publishes.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// Counts while recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Samples written.
    pub samples: u64,
    /// Records known to be lost.
    pub lost: u64,
    /// Bytes of records written.
    pub bytes: u64,
    /// Since the program was started.
    pub elapsed: Duration,
}

/// State of the writer thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WriterState {
    /// It writes.
    Writing,
    /// There are as many bytes as were wanted; what comes now is not written.
    Full,
    /// It could not write; [`Recording::finish`](crate::Recording::finish) says why.
    Failed,
}

/// Counts that the writer thread publishes.
#[derive(Debug, Default)]
pub(crate) struct LiveCounts {
    pub(crate) samples: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// A [`WriterState`].
    pub(crate) state: AtomicU8,
    /// From which time on records belong to the next file; 0 if none was asked for.
    pub(crate) switch: AtomicU64,
    /// Time of records from which on threads are watched; 0 if they are from the command's exec on, or not yet.
    pub(crate) begun: AtomicU64,
    /// Time of records up to which threads are watched; 0 until then.
    pub(crate) ended: AtomicU64,
}

impl LiveCounts {
    /// Publishes the time from which on threads are watched.
    pub(crate) fn begin(&self, time: u64) {
        self.begun.store(time, Ordering::SeqCst);
    }

    /// Publishes the time up to which threads are watched.
    pub(crate) fn end(&self, time: u64) {
        self.ended.store(time, Ordering::SeqCst);
    }

    pub(crate) fn progress(&self, elapsed: Duration) -> Progress {
        let load = |n: &AtomicU64| n.load(Ordering::Relaxed);
        Progress {
            samples: load(&self.samples),
            lost: load(&self.lost),
            bytes: load(&self.bytes),
            elapsed,
        }
    }

    pub(crate) fn state(&self) -> WriterState {
        match self.state.load(Ordering::SeqCst) {
            0 => WriterState::Writing,
            1 => WriterState::Full,
            _ => WriterState::Failed,
        }
    }
}

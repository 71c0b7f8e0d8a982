//! Counters of a running recording, published by the writer thread.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// Counters of a running recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Samples written.
    pub samples: u64,
    /// Records known to be lost.
    pub lost: u64,
    /// Bytes of records written.
    pub bytes: u64,
    /// Time since the start of the recording.
    pub elapsed: Duration,
}

/// State of the writer thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WriterState {
    /// The thread is writing.
    Writing,
    /// The byte limit was reached; further records are dropped.
    Full,
    /// Writing failed; [`Recording::finish`](crate::Recording::finish) returns the error.
    Failed,
}

/// Counters published by the writer thread, and boundaries set by the recording.
#[derive(Debug, Default)]
pub(crate) struct LiveCounts {
    pub(crate) samples: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) state: AtomicU8,
    /// Time of the first record of the next file; 0 if no switch was requested.
    pub(crate) switch: AtomicU64,
    /// Start time of the recording, on the records' clock; 0 if the command's exec starts it, or
    /// before.
    pub(crate) begun: AtomicU64,
    /// End time of the recording; 0 until then.
    pub(crate) ended: AtomicU64,
}

impl LiveCounts {
    pub(crate) fn begin(&self, time: u64) {
        self.begun.store(time, Ordering::SeqCst);
    }

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

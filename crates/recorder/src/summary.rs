//! What there is to tell, during a recording and after it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rprof_sampler::Degradation;

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

/// The counts as the writer thread keeps them and others look at them.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) samples: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

impl Live {
    pub(crate) fn progress(&self, elapsed: Duration) -> Progress {
        let load = |n: &AtomicU64| n.load(Ordering::Relaxed);
        Progress {
            samples: load(&self.samples),
            lost: load(&self.lost),
            bytes: load(&self.bytes),
            elapsed,
        }
    }
}

/// What a finished recording holds.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The file.
    pub path: PathBuf,
    /// Its length in bytes.
    pub file_bytes: u64,
    /// Events sampled, by the names in the file.
    pub events: Vec<String>,
    /// Samples in the file.
    pub samples: u64,
    /// From start to end of recording.
    pub duration: Duration,
    /// Samples lost in full rings, by CPU; CPUs that lost none are left out.
    pub lost: Vec<(u32, u64)>,
    /// Sideband records lost: names or mappings are missing.
    pub lost_sideband: u64,
    /// How often the kernel throttled sampling.
    pub throttled: u64,
    /// Records that came after a later one had been written.
    pub late: u64,
    /// Bytes in a ring that were no records.
    pub damaged_bytes: u64,
    /// Steps down that were taken.
    pub degradations: Vec<Degradation>,
}

impl Summary {
    /// The quality of the recording as pairs of key and value, for the file.
    pub(crate) fn notes(&self) -> Vec<(String, String)> {
        let note = |key: &str, value: String| (key.to_owned(), value);
        let mut notes = vec![
            note("samples", self.samples.to_string()),
            note("lost", self.lost_samples().to_string()),
            note("lost.sideband", self.lost_sideband.to_string()),
            note("throttled", self.throttled.to_string()),
            note("late", self.late.to_string()),
            note("duration.ns", self.duration.as_nanos().to_string()),
        ];
        for (cpu, lost) in &self.lost {
            notes.push((format!("lost.cpu{cpu}"), lost.to_string()));
        }
        for step in &self.degradations {
            notes.push(note("degraded", step.to_string()));
        }
        notes
    }

    /// Samples lost on all CPUs.
    pub fn lost_samples(&self) -> u64 {
        self.lost.iter().map(|(_, n)| n).sum()
    }
}

//! [`Embedding`]: selects the files to embed. Time limits for reading them.

use std::time::Duration;

use rprof_image::{Patience, Rate};

/// Files to embed in a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Embedding {
    /// No files.
    Nothing,
    /// Perf maps, jitdumps, and programs and libraries that may leave their paths.
    #[default]
    Unreachable,
    /// Also all other sampled programs and libraries, and jitdumps with machine code, for analysis
    /// elsewhere.
    All,
}

/// Time for reading one file, and for all files of a user, so that a recording ends soon.
pub(super) const PATIENCE: Patience = Patience {
    of_one: Duration::from_secs(5),
    free: Duration::from_millis(20),
    of_user: Rate {
        most: 8_000_000_000,
        a_second: 500_000_000,
    },
    of_all: Rate {
        most: 16_000_000_000,
        a_second: 1_000_000_000,
    },
};

pub(super) const TO_OPEN: Duration = Duration::from_secs(2);

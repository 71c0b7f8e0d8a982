//! Time limits for reading files to embed.

use std::time::Duration;

use rprof_image::{Patience, Rate};

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

//! Limits of waiting for files that are to be embedded.

use std::time::Duration;

use rprof_image::{Patience, Rate};

/// Wait for files: for one to be read, and for all of a user, so that the end of a recording is not that of
/// everybody's patience.
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

/// Wait for a file to be opened.
pub(super) const TO_OPEN: Duration = Duration::from_secs(2);

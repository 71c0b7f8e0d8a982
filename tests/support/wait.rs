//! Waiting for something that nobody announces.

use std::time::{Duration, Instant};

/// Looks until it is so. Panics when that never happens.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < patience, "in vain waited until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

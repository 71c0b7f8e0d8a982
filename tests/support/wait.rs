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

/// Waits until a process has used so much CPU time from now on. In that time events of its clock happen, however busy the
/// machine is.
pub(crate) fn wait_for_work(pid: i32, time: Duration) {
    // CPU time of the first thread in nanoseconds comes first.
    let used = || {
        let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
        let used = text.split(' ').next()?.parse().ok()?;
        Some(Duration::from_nanos(used))
    };
    let enough = used().expect("the process runs") + time;
    wait_until("it has worked", || used().is_none_or(|used| used >= enough));
}

//! Polling for conditions without notification.

use std::time::{Duration, Instant};

/// Polls a condition. Panics after a timeout.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < patience, "in vain waited until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// CPU clock events occur in CPU time, on any machine.
pub(crate) fn wait_for_work(pid: i32, time: Duration) {
    // In nanoseconds.
    let used = || {
        let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
        let used = text.split(' ').next()?.parse().ok()?;
        Some(Duration::from_nanos(used))
    };
    let enough = used().expect("the process runs") + time;
    wait_until("it has worked", || used().is_none_or(|used| used >= enough));
}

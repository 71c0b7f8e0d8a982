//! Polling for conditions without notification.

use std::time::{Duration, Instant};

/// Polls until the condition holds. Panics after a timeout.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < patience, "in vain waited until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until a process has used this much more CPU time. CPU clock events occur in that time, on
/// any machine.
pub(crate) fn wait_for_work(pid: i32, time: Duration) {
    // The first field is the first thread's CPU time in nanoseconds.
    let used = || {
        let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
        let used = text.split(' ').next()?.parse().ok()?;
        Some(Duration::from_nanos(used))
    };
    let enough = used().expect("the process runs") + time;
    wait_until("it has worked", || used().is_none_or(|used| used >= enough));
}

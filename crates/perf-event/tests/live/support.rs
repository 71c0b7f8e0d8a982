//! Events with known counts.

use rprof_perf_event::{Breakpoint, Builder};
use rprof_testing::{Need, has, skip};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Word whose writes a breakpoint counts.
#[derive(Debug, Default)]
pub(crate) struct Word(AtomicU64);

impl Word {
    pub(crate) fn new() -> Box<Word> {
        Box::default()
    }

    /// Writes the word `times` times, by one instruction each.
    #[inline(never)]
    pub(crate) fn write(&self, times: u64) {
        for value in 0..times {
            self.0.store(std::hint::black_box(value), Ordering::Relaxed);
        }
    }

    pub(crate) fn breakpoint(&self) -> Breakpoint {
        Breakpoint::writes_to(&self.0)
    }

    pub(crate) fn event(&self) -> Builder {
        Builder::breakpoint(self.breakpoint()).exclude_kernel(true)
    }
}

/// Returns the number of a tracepoint such as `syscalls/sys_enter_getppid`. If tracefs is not
/// mounted, a child reads it in its own mount namespace.
#[track_caller]
pub(crate) fn tracepoint(name: &str) -> Option<u64> {
    let path = format!("/sys/kernel/tracing/events/{name}/id");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(_) if Path::new("/sys/kernel/tracing").is_dir() && has(Need::Root) => {
            let script = format!(
                "mount -t tracefs none /sys/kernel/tracing && cat /sys/kernel/tracing/events/{name}/id"
            );
            let output = Command::new("unshare")
                .args(["-m", "sh", "-c", &script])
                .output();
            String::from_utf8(output.expect("unshare runs").stdout).expect("a number")
        }
        Err(_) => String::new(),
    };
    let id = text.trim().parse().ok();
    if id.is_none() {
        skip(format!(
            "needs the tracepoint {name}, and the right to read tracefs"
        ));
    }
    id
}

#[track_caller]
pub(crate) fn getppid() -> Option<Builder> {
    if !has(Need::Kernel) {
        return None;
    }
    Some(Builder::tracepoint(tracepoint(
        "syscalls/sys_enter_getppid",
    )?))
}

pub(crate) fn call_getppid(times: usize) {
    for _ in 0..times {
        std::hint::black_box(rustix::process::getppid());
    }
}

/// Waits until `done` returns a value.
///
/// # Panics
/// Panics after [`PATIENCE`].
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = done() {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

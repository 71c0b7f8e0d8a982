//! [`SwitchEvents`]: pauses and resumes switch events while other events continue.

use rprof_perf_event::PerfFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Events that record context switches or wakeups.
///
/// Inherited copies follow (`perf_event_for_each_child`). During [`pause`](Self::pause) and
/// [`resume`](Self::resume), some threads lack records.
#[derive(Clone, Debug)]
pub struct SwitchEvents {
    pub(super) events: Vec<Arc<PerfFd>>,
    /// The session opens events of CPUs that come back.
    pub(super) paused: Arc<AtomicBool>,
}

impl SwitchEvents {
    /// Stops the events. Ignores failures.
    pub fn pause(&self) {
        self.paused.store(true, Ordering::Relaxed);
        for event in &self.events {
            let _ = event.disable();
        }
    }

    /// Excludes these events from now on.
    pub fn leave_out(&mut self, others: &SwitchEvents) {
        let is_other =
            |event: &Arc<PerfFd>| others.events.iter().any(|other| Arc::ptr_eq(event, other));
        self.events.retain(|event| !is_other(event));
    }

    /// Restarts the events. Ignores threads that have ended.
    pub fn resume(&self) {
        self.paused.store(false, Ordering::Relaxed);
        for event in &self.events {
            let _ = event.enable();
        }
    }
}

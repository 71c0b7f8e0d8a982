//! [`SwitchEvents`]: the events that tell of switches, stopped and started while the others go on.

use rprof_perf_event::PerfFd;
use std::sync::Arc;

/// Events that tell when threads leave their CPU and come back, of all that a session watches.
///
/// What threads inherited is stopped and started with them (`perf_event_for_each_child`). Records come for a while after
/// [`pause`](Self::pause) began, and before [`resume`](Self::resume) has ended, of some threads and not of others.
#[derive(Clone, Debug)]
pub struct SwitchEvents {
    pub(super) events: Vec<Arc<PerfFd>>,
}

impl SwitchEvents {
    /// Stops them. One that cannot be stopped goes on.
    pub fn pause(&self) {
        for event in &self.events {
            let _ = event.disable();
        }
    }

    /// Leaves these alone from now on.
    pub fn leave_out(&mut self, others: &SwitchEvents) {
        let is_other =
            |event: &Arc<PerfFd>| others.events.iter().any(|other| Arc::ptr_eq(event, other));
        self.events.retain(|event| !is_other(event));
    }

    /// Starts them again. Those of a thread that is gone have nothing more to tell.
    pub fn resume(&self) {
        for event in &self.events {
            let _ = event.enable();
        }
    }
}

//! Reasons for uncounted events.

use rprof_counting::EventState;
use rprof_counting::session::CountedEvent;

pub(super) fn reason(event: &CountedEvent) -> String {
    match &event.state {
        EventState::Counted => "counted".to_owned(),
        EventState::NoPlace => match event.event.cpus() {
            Some(_) => "it belongs to CPUs that are not counted".to_owned(),
            None => "all targets had exited".to_owned(),
        },
        // Package events cannot be counted for threads.
        EventState::Refused(_) if event.event.cpus().is_some() => {
            "it counts whole sockets or kinds of cores, not threads; use -a".to_owned()
        }
        EventState::Refused(error) => error.to_string(),
        EventState::KernelOnly { .. } => {
            "it happens in the kernel, and this user may not profile the kernel".to_owned()
        }
    }
}

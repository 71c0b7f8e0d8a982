//! Reasons for which events are not counted.

use rprof_counting::EventState;
use rprof_counting::session::CountedEvent;

/// Returns why an event is not counted.
pub(super) fn reason(event: &CountedEvent) -> String {
    match &event.state {
        EventState::Counted => "counted".to_owned(),
        EventState::NoPlace => match event.event.cpus() {
            Some(_) => "it is for other CPUs than those that are counted".to_owned(),
            None => "nothing that could be counted was there any more".to_owned(),
        },
        // A package has no threads.
        EventState::Refused(_) if event.event.cpus().is_some() => {
            "it is counted for whole sockets or kinds of cores, not for threads; -a counts everything".to_owned()
        }
        EventState::Refused(error) => error.to_string(),
        EventState::KernelOnly { .. } => "it happens in the kernel, which this user may not watch".to_owned(),
    }
}

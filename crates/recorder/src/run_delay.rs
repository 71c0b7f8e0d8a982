//! Time that threads waited for a CPU, from scheduler statistics, including the delay after a
//! wake-up. SWITCH records count that delay as part of the wait before it.

use rprof_launch::{RunDelay, RunDelays, Target};
use rprof_sampler::Session;

use crate::offcpu::ThreadTime;

/// Begins to measure; `None` for a command, which is measured at its end.
pub(crate) fn begin(session: &Session) -> Option<RunDelays> {
    match session.target() {
        Target::Command => None,
        // Threads also wait for CPUs outside the selection.
        Target::System if session.watched_cpus().is_some() => None,
        Target::System => Some(RunDelays::begin_with_all()),
        _ => Some(RunDelays::begin(session.attached().iter().copied())),
    }
}

/// Returns the time so far. For a command that ended, it is the delay of its first thread.
pub(crate) fn of(session: &Session, delays: Option<&RunDelays>) -> Option<RunDelay> {
    let found = match (delays, session.target()) {
        (Some(delays), _) => delays.so_far(),
        (None, Target::Command) => RunDelay {
            threads: 1,
            time: session.child()?.schedule()?.1,
        },
        (None, _) => return None,
    };
    (found.threads > 0).then_some(found)
}

/// Returns false if the time covers only the first of several threads of a command.
pub(crate) fn is_whole(session: &Session, delay: &RunDelay, time: &ThreadTime) -> bool {
    *session.target() != Target::Command || time.threads == delay.threads
}

pub(crate) fn notes(delay: &RunDelay) -> Vec<(String, String)> {
    vec![
        ("run-delay.threads".into(), delay.threads.to_string()),
        ("run-delay.ns".into(), delay.time.as_nanos().to_string()),
    ]
}

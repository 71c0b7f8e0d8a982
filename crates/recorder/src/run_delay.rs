//! Time for which threads waited for a CPU, as the scheduler counts it: with the part that follows a wake-up, which in records of
//! switches belongs to the wait before.

use rprof_launch::{RunDelay, RunDelays, Target};
use rprof_sampler::Session;

use crate::offcpu::ThreadTime;

/// Begins to count for what a session watches; `None` for a command, of which its end is asked.
pub(crate) fn begin(session: &Session) -> Option<RunDelays> {
    match session.target() {
        Target::Command => None,
        // Threads wait for these CPUs and for others.
        Target::System if session.watched_cpus().is_some() => None,
        Target::System => Some(RunDelays::begin_with_all()),
        _ => Some(RunDelays::begin(session.attached().iter().copied())),
    }
}

/// Returns the time so far. Of a command that has ended it is what its first thread waited.
pub(crate) fn of(session: &Session, delays: Option<&RunDelays>) -> Option<RunDelay> {
    let found = match (delays, session.target()) {
        (Some(delays), _) => delays.so_far(),
        (None, Target::Command) => RunDelay {
            threads: 1,
            time: session.child()?.run_delay()?,
        },
        (None, _) => return None,
    };
    (found.threads > 0).then_some(found)
}

/// Returns false where the account is of the first of several threads of a command, which says nothing of the others.
pub(crate) fn is_whole(session: &Session, delay: &RunDelay, time: &ThreadTime) -> bool {
    *session.target() != Target::Command || time.threads == delay.threads
}

/// Makes keys and values for the file's private section.
pub(crate) fn notes(delay: &RunDelay) -> Vec<(String, String)> {
    vec![
        ("run-delay.threads".into(), delay.threads.to_string()),
        ("run-delay.ns".into(), delay.time.as_nanos().to_string()),
    ]
}

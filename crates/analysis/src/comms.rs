//! Thread names.

use rprof_processes::Timeline;
use rprof_profile::Filter;
use rprof_profile::pattern::{matches_bytes, matches_name};

/// The idle task has no COMM record.
pub(crate) const IDLE: &str = "swapper";

/// Returns a thread's name, with invalid UTF-8 replaced. Falls back to perf's name.
pub(crate) fn thread_name(recorded: Option<&[u8]>, tid: i32) -> String {
    match (recorded, tid) {
        (None, 0) => IDLE.into(),
        (None, tid) => format!(":{tid}"),
        (Some(name), _) => String::from_utf8_lossy(name).into_owned(),
    }
}

/// Iterates over the filter's thread names that match no thread, probably mistyped.
pub(crate) fn unknown_comms<'a>(
    filter: &'a Filter,
    timeline: &'a Timeline,
) -> impl Iterator<Item = &'a str> {
    filter.comms.iter().map(String::as_str).filter(|wanted| {
        !matches_name(wanted, IDLE)
            && !(timeline.threads().iter())
                .flat_map(rprof_processes::ThreadLife::names)
                .any(|(_, comm)| {
                    (timeline.comm_name(*comm))
                        .is_some_and(|name| matches_bytes(wanted.as_bytes(), name))
                })
    })
}

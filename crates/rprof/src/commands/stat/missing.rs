//! Reports events that could not be counted.

use rprof_counting::{EventState, Part, Per};
use rprof_perf_event::errno::is_refusal;
use rprof_perf_event::{Capability, ErrnoText, OpenEventError, Remedy};
use rprof_profile::unit::counted;

use super::job::Job;
use super::run::reason;
use super::runs::{Measured, Side, command_text, ended};
use crate::wording::messages::say;

pub(super) fn explain(job: &Job, measured: &Measured) {
    // Both sides count the same way.
    if let Some(side) = measured.sides.first() {
        lines(side).iter().for_each(say);
    }
    for side in &measured.sides {
        if let (Some(first), false) = (side.left_out.first(), side.runs.is_empty()) {
            let runs = side.left_out.len();
            let name = command_text(&side.command);
            say(format_args!(
                "{runs} of {} of `{name}` failed ({}) and {} not counted",
                counted((runs + side.runs.len()) as u64, "run"),
                ended(*first),
                if runs == 1 { "is" } else { "are" }
            ));
        }
    }
    let failed = measured.last_status.filter(|status| !status.success());
    let is_shown = measured.sides.iter().all(|side| side.left_out.is_empty());
    if let Some(status) = failed.filter(|_| job.commands.len() == 1 && is_shown) {
        match status.code() {
            Some(code) => say(format_args!("the command ended with exit status {code}")),
            None => say(format_args!("the command was {}", ended(status))),
        }
    }
}

/// Returns true if nothing was counted because this user may not count.
pub(super) fn is_forbidden(side: &Side) -> bool {
    let is_counted = side.events.iter().any(|event| event.state.is_counted());
    let is_refused = side.events.iter().any(|event| match &event.state {
        EventState::Refused(error) => is_refusal(error.errno),
        _ => false,
    });
    is_refused && !is_counted
}

fn lines(side: &Side) -> Vec<String> {
    let mut lines: Vec<String> = side.notices.iter().map(ToString::to_string).collect();
    let (mut absent, mut hidden) = (Vec::new(), Vec::new());
    let mut refused: Vec<(&OpenEventError, Vec<&str>)> = Vec::new();
    for event in &side.events {
        match &event.state {
            EventState::Refused(error) if matches!(error.remedy, Remedy::NoSuchEvent { .. }) => {
                absent.push(event.name.as_str());
            }
            EventState::Refused(error) if event.event.cpus().is_none() => {
                let same = |(other, _): &&mut (&OpenEventError, _)| {
                    (other.errno, &other.remedy) == (error.errno, &error.remedy)
                };
                match refused.iter_mut().find(same) {
                    Some((_, names)) => names.push(&event.name),
                    None => refused.push((error.as_ref(), vec![&event.name])),
                }
            }
            EventState::KernelOnly { .. } => hidden.push(event.event.describe()),
            EventState::Counted => {}
            _ => lines.push(format!("not counted: `{}`: {}", event.name, reason(event))),
        }
    }
    for (error, names) in refused {
        lines.push(match names.as_slice() {
            [name] => format!("not counted: `{name}`: {error}"),
            names => format!(
                "not counted: `{}`: {}. {}",
                names.join("`, `"),
                ErrnoText(error.errno),
                error.remedy
            ),
        });
    }
    if !absent.is_empty() {
        lines.push(format!(
            "not available: {}: this machine has no such counters, or hides them, as virtual \
             machines often do",
            absent.join(", ")
        ));
    }
    if !hidden.is_empty() {
        lines.push(format!(
            "not available: {}: kernel events need `sysctl kernel.perf_event_paranoid=1` or \
             {}",
            hidden.join(", "),
            Capability::of_this_kernel()
        ));
    }
    for (index, event) in side.events.iter().enumerate() {
        let counts = || {
            side.runs
                .iter()
                .filter_map(|run| run.counts.table(Per::All).count(Part::All, index))
        };
        if let Some(error) = counts().find_map(|count| count.failure) {
            lines.push(format!("not counted: `{}`: {error}", event.name));
        } else if let Some(count) = counts().find(|count| count.value().is_none()) {
            lines.push(format!(
                "not counted: `{}` had a counter for only {:.1} % of the time; count fewer events \
                 at once",
                event.name,
                count.share() * 100.0
            ));
        }
    }
    if !side.events.is_empty() && !side.events.iter().any(|event| event.state.is_counted()) {
        lines.push(
            "no event could be counted; time and memory come from the kernel's process accounting"
                .to_owned(),
        );
    }
    lines
}

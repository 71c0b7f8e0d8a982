//! Opens the events of a CPU again after it was offline.

use super::attempt::{Scope, described};
use super::event_set::{EventSet, SetSubject};
use super::opened::CpuEvents;
use super::plan::{Plan, Refusal};
use rprof_perf_event::{Errno, Subject};
use rprof_records::{AttrFlags, SampleType};
use std::os::fd::AsFd;

/// Returns true if records of new events can pass for the old ones. Traces and overwritten rings
/// have readers of their own, and group readings contain more ids.
pub(crate) fn can_reopen(plan: &Plan) -> bool {
    let reads_groups = |fields: SampleType| fields.contains(SampleType::READ);
    let events = described(plan);
    plan.trace_unit().is_none()
        && !plan.options.overwrite
        && !events
            .iter()
            .any(|event| reads_groups(event.attr.sample_type))
}

/// Opens the events of `old` again, disabled, into the existing rings. `None` for events of
/// threads, which the kernel keeps.
pub(crate) fn reopen(
    plan: &Plan,
    scope: &Scope,
    old: &EventSet,
    rings: &CpuEvents,
) -> Result<Option<EventSet>, Errno> {
    open_again(plan, scope, old, rings).map_err(|refusal| refusal.errno)
}

fn open_again(
    plan: &Plan,
    scope: &Scope,
    old: &EventSet,
    rings: &CpuEvents,
) -> Result<Option<EventSet>, Refusal> {
    let mut events = described(plan);
    for event in &mut events {
        event.attr.flags |= AttrFlags::DISABLED;
        event.attr.flags.remove(AttrFlags::ENABLE_ON_EXEC);
    }
    let mut new = EventSet::new(old.cpu_index, old.cpu).of(old.subject);
    match (scope, old.subject) {
        (_, SetSubject::Wakeups) => new.open_wakeups(plan, &mut events)?,
        (Scope::All, _) => {
            new.open_sideband(&mut events, Subject::All)?;
            new.open_samples(plan, &mut events, Subject::All)?;
        }
        (Scope::Cgroups(_), SetSubject::First) => new.open_sideband(&mut events, Subject::All)?,
        (Scope::Cgroups(groups), SetSubject::Cgroup(index)) => {
            let Some(group) = groups.get(index) else {
                return Ok(None);
            };
            new.open_samples(plan, &mut events, Subject::Cgroup(group.as_fd()))?;
        }
        (Scope::Command(_) | Scope::Threads, _) => return Ok(None),
    }
    new.redirect_sideband(rings)?;
    new.redirect_samples(rings)?;
    Ok(Some(new))
}

//! Groups of events that are counted together: those that were asked for, and those that are made.
//!
//! Ratios such as instructions per cycle are right only if both were counted at the same time, and a group is on the
//! counters as a whole or not at all. So hardware events that stand alone are put into groups, each filled up until
//! the kernel says that it does not fit (it tries whether a group can be scheduled on an empty PMU); what is
//! left makes the next group. Where there is more than one, the kernel lets them take turns.

use rprof_events::Event;
use rprof_perf_event::{Errno, OpenEventError};
use rprof_records::EventKind;

/// Events that are to be counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Numbers of the events.
    pub(crate) events: Vec<usize>,
    pub(crate) origin: Origin,
}

/// Reason for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The user asked for it, and has it whole or not at all.
    Given,
    /// The user asked for it, and lets it be split (`:W`).
    Weak,
    /// Made here, to be split where it has to be.
    Made,
}

/// Returns the groups of a list of events.
pub(crate) fn groups(events: &[Event]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    // Group that is being made, for each PMU.
    let mut open: Vec<(u64, usize)> = Vec::new();
    let mut given: Option<u32> = None;
    for (index, event) in events.iter().enumerate() {
        if let Some(number) = event.group() {
            match groups.last_mut().filter(|_| given == Some(number)) {
                Some(group) => group.events.push(index),
                None => groups.push(Group {
                    events: vec![index],
                    origin: Origin::Given,
                }),
            }
            given = Some(number);
            if let (true, Some(group)) = (event.qualifiers().weak, groups.last_mut()) {
                group.origin = Origin::Weak;
            }
            continue;
        }
        given = None;
        let pmu = shared_pmu(event);
        let known = pmu.and_then(|pmu| open.iter().find(|(of, _)| *of == pmu));
        if let Some((_, group)) = known {
            groups[*group].events.push(index);
            continue;
        }
        if let Some(pmu) = pmu {
            open.push((pmu, groups.len()));
        }
        groups.push(Group {
            events: vec![index],
            origin: Origin::Made,
        });
    }
    groups
}

/// Returns the number of the PMU with counters that events may share; `None` for events without such, and for those
/// that are to have a counter for themselves.
fn shared_pmu(event: &Event) -> Option<u64> {
    let alone = event.qualifiers().pinned || event.qualifiers().exclusive;
    match event.kind() {
        _ if alone => None,
        // The upper half names the kind of cores, where there are several.
        EventKind::HARDWARE | EventKind::HW_CACHE => Some(event.config() >> 32),
        EventKind::RAW => Some(0),
        _ => None,
    }
}

/// Returns the number of the PMU whose counters an event may have to share in turns; `None` for events that are counted
/// by the kernel, of which there may be any number.
fn counters_of(event: &Event) -> Option<u64> {
    const BY_THE_KERNEL: [EventKind; 3] = [
        EventKind::SOFTWARE,
        EventKind::TRACEPOINT,
        EventKind::BREAKPOINT,
    ];
    match event.kind() {
        EventKind::HARDWARE | EventKind::HW_CACHE => Some(event.config() >> 32),
        EventKind::RAW => Some(0),
        kind if BY_THE_KERNEL.contains(&kind) || event.probe_path().is_some() => None,
        kind => Some(u64::from(kind.0)),
    }
}

/// Sorts groups, by the numbers of their events, into passes, of which each has one group of a PMU at most.
pub(crate) fn passes(events: &[Event], groups: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut passes: Vec<Vec<usize>> = vec![Vec::new()];
    // Groups of each PMU so far.
    let mut seen: Vec<(u64, usize)> = Vec::new();
    for group in groups {
        let of_group = group.iter().filter_map(|event| events.get(*event));
        let pass = match of_group.filter_map(counters_of).next() {
            None => 0,
            Some(pmu) => match seen.iter_mut().find(|(of, _)| *of == pmu) {
                Some((_, count)) => {
                    *count += 1;
                    *count
                }
                None => {
                    seen.push((pmu, 0));
                    0
                }
            },
        };
        if pass == passes.len() {
            passes.push(Vec::new());
        }
        if let Some(pass) = passes.get_mut(pass) {
            pass.extend(group);
        }
    }
    passes
}

/// Group as it was opened in one place.
#[derive(Debug)]
pub(crate) struct Opened<T> {
    /// Counters, that of the leader first, with the numbers of their events.
    pub(crate) counters: Vec<(usize, T)>,
}

/// Result of opening a group in one place.
#[derive(Debug)]
pub(crate) struct Outcome<T> {
    /// Groups that it became; none if no event of it is for this place.
    pub(crate) groups: Vec<Opened<T>>,
    /// Events that the kernel refuses also by themselves.
    pub(crate) refused: Vec<(usize, OpenEventError)>,
    /// First event of each group but the first.
    pub(crate) split_at: Vec<usize>,
}

/// Failure to open a group as one.
#[derive(Debug)]
pub(crate) struct DoesNotFit {
    /// First event that did not fit.
    pub(crate) event: usize,
    pub(crate) errno: Errno,
}

/// Opens a group in one place by `open`, which gets an event and the leader of its group, and answers `None` for an
/// event that is not for this place.
///
/// `spare`: somebody else holds a counter at all times (the NMI watchdog), which the kernel does not take into account
/// when it tries whether a group fits. A full group would then never be on the counters, so its last event goes to
/// the next one.
pub(crate) fn open_group<T>(
    group: &Group,
    spare: bool,
    mut open: impl FnMut(usize, Option<&T>) -> Result<Option<T>, OpenEventError>,
) -> Result<Outcome<T>, DoesNotFit> {
    let mut outcome = Outcome {
        groups: Vec::new(),
        refused: Vec::new(),
        split_at: Vec::new(),
    };
    let mut current: Vec<(usize, T)> = Vec::new();
    for event in group.events.iter().copied() {
        let leader = current.first().map(|(_, counter)| counter);
        let in_group = match open(event, leader) {
            Ok(counter) => {
                current.extend(counter.map(|counter| (event, counter)));
                continue;
            }
            Err(error) => error,
        };
        if current.is_empty() {
            outcome.refused.push((event, in_group));
            continue;
        }
        // Refused in the group; is it by itself as well?
        let counter = match open(event, None) {
            Ok(counter) => counter,
            // The group itself holds what this one would need, such as the four breakpoints of x86.
            Err(error) if group.origin == Origin::Given && error.errno == Errno::NOSPC => {
                return Err(DoesNotFit {
                    event,
                    errno: error.errno,
                });
            }
            Err(error) => {
                outcome.refused.push((event, error));
                continue;
            }
        };
        if group.origin == Origin::Given {
            return Err(DoesNotFit {
                event,
                errno: in_group.errno,
            });
        }
        let moved = match spare && current.len() > 1 {
            true => current.pop(),
            false => None,
        };
        outcome.groups.push(Opened {
            counters: std::mem::take(&mut current),
        });
        outcome.split_at.push(event);
        current.extend(counter.map(|counter| (event, counter)));
        if let Some((event, counter)) = moved {
            // Its old counter is a member of the full group.
            drop(counter);
            let leader = current.first().map(|(_, counter)| counter);
            if let Ok(Some(counter)) = open(event, leader) {
                current.push((event, counter));
            } else if let Ok(Some(counter)) = open(event, None) {
                let counters = vec![(event, counter)];
                outcome.groups.push(Opened { counters });
            }
        }
    }
    if !current.is_empty() {
        outcome.groups.push(Opened { counters: current });
    }
    Ok(outcome)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

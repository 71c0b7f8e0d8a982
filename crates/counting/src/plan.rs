//! Groups of events that are counted together: requested and automatic ones.
//!
//! Ratios need counts over the same time, and the kernel schedules a group as a whole. Therefore
//! single hardware events are grouped automatically. A group grows until the kernel refuses an
//! event (it checks whether the group fits an empty PMU). The next event starts the next group. The
//! kernel multiplexes several groups.

use rprof_events::Event;
use rprof_perf_event::{Errno, OpenEventError};
use rprof_records::EventKind;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) events: Vec<usize>,
    pub(crate) origin: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Requested by the user; must not be split.
    Given,
    /// Requested by the user; may be split (`:W`).
    Weak,
    /// Created automatically; may be split.
    Made,
}

pub(crate) fn groups(events: &[Event]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    // Growing group of each PMU.
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

/// Returns the PMU whose counters the event can share with others. Pinned and exclusive events
/// share none.
fn shared_pmu(event: &Event) -> Option<u64> {
    let alone = event.qualifiers().pinned || event.qualifiers().exclusive;
    match event.kind() {
        _ if alone => None,
        // On hybrid processors, the upper half selects the kind of core.
        EventKind::HARDWARE | EventKind::HW_CACHE => Some(event.config() >> 32),
        EventKind::RAW => Some(0),
        _ => None,
    }
}

/// Returns the PMU whose counters the event needs. The kernel counts some events without a counter.
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

/// Distributes groups to passes with at most one group per PMU.
pub(crate) fn passes(events: &[Event], groups: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut passes: Vec<Vec<usize>> = vec![Vec::new()];
    // Number of groups per PMU so far.
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

#[derive(Debug)]
pub(crate) struct Opened<T> {
    /// Event indexes with counters, leader first.
    pub(crate) counters: Vec<(usize, T)>,
}

#[derive(Debug)]
pub(crate) struct Outcome<T> {
    /// Groups after splitting; empty if no event applies to this place.
    pub(crate) groups: Vec<Opened<T>>,
    /// Events that the kernel refuses even alone.
    pub(crate) refused: Vec<(usize, OpenEventError)>,
    /// First event of each additional group.
    pub(crate) split_at: Vec<usize>,
}

#[derive(Debug)]
pub(crate) struct DoesNotFit {
    /// First event that did not fit.
    pub(crate) event: usize,
    pub(crate) errno: Errno,
}

/// Opens a group in one place. `open` gets an event and its leader, and returns `None` if the event
/// does not apply to this place.
///
/// `spare` means that the NMI watchdog occupies a counter. The kernel ignores it when it checks
/// whether a group fits, so a full group would never be scheduled. Its last event moves to the next
/// group.
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
        // Refused in the group. Try it alone.
        let counter = match open(event, None) {
            Ok(counter) => counter,
            // The group itself uses up the resource, such as x86's four breakpoints.
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

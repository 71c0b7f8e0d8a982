use super::*;
use rprof_perf_event::Limits;
use rprof_records::Attr;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

fn planned(text: &str) -> Vec<(Vec<usize>, Origin)> {
    let events = Event::parse_list(text).unwrap();
    (groups(&events).into_iter())
        .map(|group| (group.events, group.origin))
        .collect()
}

#[test]
fn hardware_events_are_counted_together_and_others_alone() {
    let found = planned("cycles,page-faults,instructions,L1-dcache-loads,r1a8,task-clock");
    let made = |events: &[usize]| (events.to_vec(), Origin::Made);
    assert_eq!(found, [made(&[0, 2, 3, 4]), made(&[1]), made(&[5])]);
    // Exclusive events get their own group.
    assert_eq!(planned("cycles,instructions:D"), [made(&[0]), made(&[1])]);
}

#[test]
fn groups_that_were_asked_for_stay_as_they_are() {
    let found = planned("{cycles,page-faults},{cycles,instructions}:W,branches");
    let expected = [
        (vec![0, 1], Origin::Given),
        (vec![2, 3], Origin::Weak),
        (vec![4], Origin::Made),
    ];
    assert_eq!(found, expected);
}

fn refusal(errno: Errno) -> OpenEventError {
    OpenEventError::new(
        "x",
        &Attr::default(),
        false,
        None,
        errno,
        &Limits::default(),
    )
}

/// PMU with this many counters, which checks groups like the kernel.
struct FakePmu {
    counters: usize,
    /// Size of each group, by leader.
    groups: RefCell<Vec<usize>>,
    missing: Option<usize>,
}

struct Counter {
    group: usize,
    alive: Rc<Cell<bool>>,
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.alive.set(false);
    }
}

impl FakePmu {
    fn new(counters: usize) -> FakePmu {
        FakePmu {
            counters,
            groups: RefCell::default(),
            missing: None,
        }
    }

    fn open(
        &self,
        event: usize,
        leader: Option<&Counter>,
    ) -> Result<Option<Counter>, OpenEventError> {
        let refuse = |errno| Err(refusal(errno));
        if self.missing == Some(event) {
            return refuse(Errno::NOENT);
        }
        let mut groups = self.groups.borrow_mut();
        let group = match leader {
            Some(leader) if groups[leader.group] == self.counters => return refuse(Errno::INVAL),
            Some(leader) => leader.group,
            None => {
                groups.push(0);
                groups.len() - 1
            }
        };
        groups[group] += 1;
        let alive = Rc::new(Cell::new(true));
        Ok(Some(Counter { group, alive }))
    }

    fn opened(&self, group: &Group, spare: bool) -> Vec<Vec<usize>> {
        let found = open_group(group, spare, |event, leader| self.open(event, leader)).unwrap();
        let groups = found.groups.iter().map(|group| {
            assert!(
                group
                    .counters
                    .iter()
                    .all(|(_, counter)| counter.alive.get())
            );
            group.counters.iter().map(|(event, _)| *event).collect()
        });
        groups.collect()
    }
}

fn group(events: usize, origin: Origin) -> Group {
    Group {
        events: (0..events).collect(),
        origin,
    }
}

#[test]
fn groups_are_filled_until_they_do_not_fit() {
    let pmu = FakePmu::new(3);
    let found = pmu.opened(&group(7, Origin::Made), false);
    assert_eq!(found, [vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
    assert_eq!(
        FakePmu::new(9).opened(&group(7, Origin::Weak), false).len(),
        1
    );
}

#[test]
fn a_counter_is_left_to_the_watchdog() {
    let found = FakePmu::new(3).opened(&group(4, Origin::Made), true);
    assert_eq!(found, [vec![0, 1], vec![3, 2]]);
    // A PMU with one counter has none to spare.
    assert_eq!(
        FakePmu::new(1).opened(&group(2, Origin::Made), true),
        [[0], [1]]
    );
}

#[test]
fn a_group_that_must_be_whole_is_an_error_when_it_does_not_fit() {
    let pmu = FakePmu::new(3);
    let failed = open_group(&group(4, Origin::Given), false, |event, leader| {
        pmu.open(event, leader)
    });
    let failed = failed.err().unwrap();
    assert_eq!((failed.event, failed.errno), (3, Errno::INVAL));
}

#[test]
fn a_group_that_must_be_whole_is_an_error_when_it_takes_what_its_last_event_needs() {
    // The kernel limits breakpoints inside and outside of groups.
    let given = Cell::new(0);
    let four_at_most = |_: usize, _: Option<&usize>| {
        given.set(given.get() + 1);
        match given.get() <= 4 {
            true => Ok(Some(given.get())),
            false => Err(refusal(Errno::NOSPC)),
        }
    };
    let failed = open_group(&group(5, Origin::Given), false, four_at_most);
    let failed = failed.err().unwrap();
    assert_eq!((failed.event, failed.errno), (4, Errno::NOSPC));
    given.set(0);
    let split = open_group(&group(5, Origin::Weak), false, four_at_most).unwrap();
    assert_eq!(
        (split.groups[0].counters.len(), split.refused.len()),
        (4, 1)
    );
}

#[test]
fn an_event_that_is_not_there_does_not_end_the_group() {
    let mut pmu = FakePmu::new(8);
    pmu.missing = Some(1);
    let found = open_group(&group(3, Origin::Given), false, |event, leader| {
        pmu.open(event, leader)
    });
    let found = found.ok().unwrap();
    let members: Vec<usize> = found.groups[0]
        .counters
        .iter()
        .map(|(event, _)| *event)
        .collect();
    assert_eq!(
        (members, found.refused.len(), found.refused[0].0),
        (vec![0, 2], 1, 1)
    );
}

#[test]
fn each_pass_has_one_group_of_a_pmu() {
    let list =
        "task-clock,cycles,instructions,branches,page-faults,cache-misses,uprobe:/bin/true:0x10";
    let mut events = Event::parse_list(list).unwrap_or_default();
    if events.is_empty() {
        // A kernel without probes.
        events = Event::parse_list(list.rsplit_once(',').unwrap().0).unwrap();
    }
    let groups = [vec![0], vec![1, 2], vec![3], vec![4], vec![5]];
    assert_eq!(
        passes(&events, &groups),
        [vec![0, 1, 2, 4], vec![3], vec![5]]
    );
    assert_eq!(passes(&events, &[vec![0], vec![4]]), [[0, 4]]);
    assert_eq!(passes(&events, &[]), [[0; 0]]);
}

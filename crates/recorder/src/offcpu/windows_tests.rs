//! Tests of windows and their extrapolation.

use rprof_testing::Random;
use rustc_hash::FxHashMap;

use super::super::boundaries::Change;
use super::super::pairing::Pairing;
use super::super::sleeping::Reading;
use super::super::wait::{Moment, Wait};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy)]
struct Switch {
    time: u64,
    tid: i32,
    /// The stack of a switch-out; `None` for a switch-in.
    leaves: Option<&'static [u8]>,
}

/// Generates a thread's switches: numbers and lengths of waits by stack, in random order, with
/// `work` between them.
fn thread(
    tid: i32,
    kinds: &[(&'static [u8], u64, u64)],
    work: u64,
    random: &mut Random,
) -> Vec<Switch> {
    let mut waits: Vec<(&'static [u8], u64)> = Vec::new();
    for (stack, count, length) in kinds {
        waits.extend((0..*count).map(|_| (*stack, *length)));
    }
    for place in (1..waits.len()).rev() {
        waits.swap(place, random.below(place as u64 + 1) as usize);
    }
    let (mut switches, mut time) = (Vec::new(), 0);
    for (stack, length) in waits {
        time += work;
        let leaves = Switch {
            time,
            tid,
            leaves: Some(stack),
        };
        time += length;
        switches.extend([
            leaves,
            Switch {
                time,
                tid,
                leaves: None,
            },
        ]);
    }
    switches
}

/// Feeds a pairing with switches in windows that repeat with `period`. Returns the written sums by
/// thread and stack.
fn record(
    mut switches: Vec<Switch>,
    (window, period): (u64, u64),
    random: &mut Random,
    pairing: &mut Pairing,
) -> FxHashMap<(i32, Vec<u8>), u64> {
    switches.sort_by_key(|switch| (switch.time, switch.tid));
    let end = switches.last().map_or(0, |switch| switch.time);
    let mut changes = vec![(0, Change::Begin)];
    let mut time = 0;
    while time < end {
        changes.push((time + window, Change::Pause(Vec::new())));
        let gap = period - window;
        time += window + gap / 2 + random.below(gap + 1);
        changes.push((time, Change::Resume));
    }
    let mut changes = changes.into_iter().peekable();
    let mut tids: Vec<i32> = switches.iter().map(|switch| switch.tid).collect();
    tids.sort_unstable();
    tids.dedup();
    pairing.begin(0, tids.into_iter().map(|tid| (1, tid)));
    let mut waits: Vec<Wait> = Vec::new();
    for switch in switches {
        while let Some((time, change)) = changes.next_if(|(time, _)| *time <= switch.time) {
            waits.extend(pairing.change(change, time));
        }
        let at = Moment {
            pid: 1,
            tid: switch.tid,
            cpu: switch.tid.cast_unsigned(),
            time: switch.time,
        };
        match switch.leaves {
            Some(stack) => {
                pairing.leaving(at, stack);
                pairing.switched_out(at, false);
            }
            None => waits.extend(pairing.switched_in(at)),
        }
    }
    waits.extend(pairing.finish(end));
    let mut sums = FxHashMap::default();
    for wait in waits {
        *sums
            .entry((wait.tid, wait.stack.unwrap_or_default()))
            .or_default() += wait.weight;
    }
    sums
}

#[test]
fn a_million_short_waits_beside_long_ones_keep_their_share() {
    let mut random = Random::new(7);
    let short = thread(2, &[(b"short", 1_000_000, 50 * US)], US, &mut random);
    let long = thread(3, &[(b"long", 20, SECOND)], US, &mut random);
    let mut pairing = Pairing::new(false);
    let all = short.into_iter().chain(long).collect();
    let sums = record(all, (12 * MS, 192 * MS), &mut random, &mut pairing);
    let of_thread = |tid: i32| -> u64 {
        let its = sums.iter().filter(|((its, _), _)| *its == tid);
        its.map(|(_, ns)| *ns).sum()
    };
    let is_near = |found: u64, truth: u64| {
        let off = (found as f64 / truth as f64 - 1.0).abs();
        assert!(off < 0.02, "{found} of {truth}");
    };
    is_near(of_thread(2), 50 * SECOND);
    is_near(sums[&(2, b"short".to_vec())], 50 * SECOND);
    // Without an EXIT record, an ended thread counts as asleep.
    is_near(of_thread(3), 51 * SECOND);
    let time = pairing.time();
    let total = time.on_cpu + time.blocked + time.runnable + time.unknown;
    assert!(total.abs_diff(2 * 51 * SECOND) < MS, "{time:?}");
    assert!(time.windows > 200 && time.paused > 45 * SECOND, "{time:?}");
}

#[test]
fn stacks_of_one_thread_keep_their_shares() {
    let mut random = Random::new(11);
    let kinds: [(&[u8], u64, u64); 3] = [
        (b"a", 200_000, 30 * US),
        (b"b", 50_000, 80 * US),
        (b"c", 20_000, 300 * US),
    ];
    let all = thread(2, &kinds, 5 * US, &mut random);
    let mut pairing = Pairing::new(false);
    let sums = record(all, (12 * MS, 48 * MS), &mut random, &mut pairing);
    for (stack, count, length) in kinds {
        let (found, truth) = (sums[&(2, stack.to_vec())] as f64, (count * length) as f64);
        assert!((found / truth - 1.0).abs() < 0.04, "{found} of {truth}");
    }
    let unknown = sums[&(2, Vec::new())] as f64;
    assert!(unknown < 0.02 * 16e9, "{unknown}");
    let on = pairing.time().on_cpu as f64;
    assert!((on / 1.35e9 - 1.0).abs() < 0.04, "{on}");
}

#[test]
fn all_is_exact_before_windows_and_behind_them() {
    let mut pairing = Pairing::new(false);
    pairing.executed(1, 7, 0);
    let at = |time| Moment {
        pid: 1,
        tid: 7,
        cpu: 0,
        time,
    };
    pairing.leaving(at(10), b"read");
    pairing.switched_out(at(10), false);
    // The wait so far is written, and continues with its stack.
    let waits = pairing.change(Change::Begin, 100);
    assert_eq!(
        (waits.len(), waits[0].weight, waits[0].stack.as_deref()),
        (1, 90, Some(&b"read"[..]))
    );
    assert_eq!(pairing.switched_in(at(140)), None);
    assert_eq!(pairing.change(Change::Pause(Vec::new()), 180), []);
    // A stray switch, and a thread that starts and exits.
    pairing.switched_out(at(185), false);
    pairing.forked(1, 8, 200);
    pairing.ended(1, 8, 230);
    pairing.forked(1, 9, 300);
    let waits = pairing.change(Change::Resume, 340);
    assert_eq!(
        (waits.len(), waits[0].weight, waits[0].stack.as_deref()),
        (1, 120, Some(&b"read"[..]))
    );
    pairing.leaving(at(350), b"poll");
    pairing.switched_out(at(350), false);
    let waits = pairing.change(Change::Settle(Vec::new()), 360);
    assert_eq!(
        waits.iter().map(|wait| wait.weight).collect::<Vec<_>>(),
        [10, 20]
    );
    let wait = pairing.switched_in(at(400)).unwrap();
    assert_eq!(
        (wait.weight, wait.stack.as_deref()),
        (40, Some(&b"poll"[..]))
    );
    pairing.ended(1, 7, 410);
    pairing.finish(410);
    let time = pairing.time();
    let sums = (time.on_cpu, time.blocked, time.runnable, time.unknown);
    // Of the two threads created in the gap, 30 and 40 are unknown; the second sleeps from 340 on.
    assert_eq!(
        sums,
        (10 + 120 + 10 + 10, 90 + 120 + 10 + 40 + 70, 0, 30 + 40)
    );
    assert_eq!((time.windows, time.paused, time.threads), (2, 160, 3));
}

#[test]
fn a_thread_of_which_a_window_saw_little_does_not_speak_for_the_gap() {
    let mut pairing = Pairing::new(false);
    pairing.executed(1, 7, 0);
    pairing.change(Change::Begin, 0);
    pairing.forked(1, 8, 90);
    pairing.change(Change::Pause(Vec::new()), 100);
    pairing.ended(1, 7, 150);
    let waits = pairing.change(Change::Resume, 300);
    assert_eq!(
        waits.iter().map(|wait| wait.weight).collect::<Vec<_>>(),
        [10]
    );
    // One thread ran for 100 and then for 50; the other has 10 of waiting and 200 unknown.
    let time = pairing.time();
    assert_eq!((time.on_cpu, time.runnable, time.unknown), (150, 10, 200));
}

#[test]
fn who_sleeps_on_keeps_its_stack() {
    let at = |time| Moment {
        pid: 1,
        tid: 7,
        cpu: 0,
        time,
    };
    let pause = |switches, at| {
        Change::Pause(vec![Reading {
            tid: 7,
            switches,
            at,
        }])
    };
    let weighed = |waits: Vec<Wait>| -> Vec<(u64, Option<Vec<u8>>)> {
        waits
            .into_iter()
            .map(|wait| (wait.weight, wait.stack))
            .collect()
    };
    let read = Some(b"read".to_vec());
    let mut pairing = Pairing::new(false);
    pairing.executed(1, 7, 0);
    pairing.change(Change::Begin, 0);
    pairing.leaving(at(10), b"read");
    pairing.switched_out(at(10), false);
    pairing.change(pause(5, 90), 100);
    assert_eq!(
        weighed(pairing.change(Change::Resume, 200)),
        [(180, read.clone())]
    );
    // It sleeps for the whole next window, according to the kernel's count.
    pairing.change(pause(5, 290), 300);
    assert_eq!(
        weighed(pairing.change(Change::Resume, 400)),
        [(200, read.clone())]
    );
    // It wakes in this window and sleeps again.
    assert_eq!(pairing.switched_in(at(420)), None);
    pairing.leaving(at(430), b"poll");
    pairing.switched_out(at(430), false);
    pairing.change(pause(6, 490), 500);
    let poll = Some(b"poll".to_vec());
    assert_eq!(
        weighed(pairing.change(Change::Resume, 600)),
        [(40, read), (140, poll)]
    );
    // It was awake in the gap, so its place is unknown until the inspection.
    pairing.change(pause(8, 690), 700);
    let unknown = pairing.take_unknown();
    assert_eq!(unknown, [(1, 7, 8)]);
    pairing.looked_at(unknown[0], b"look".to_vec());
    let look = Some(b"look".to_vec());
    assert_eq!(weighed(pairing.change(Change::Resume, 800)), [(200, look)]);
    // A count from before its last switch is outdated: its earlier places are used.
    pairing.switched_in(at(850));
    pairing.leaving(at(860), b"late");
    pairing.switched_out(at(860), false);
    pairing.change(pause(9, 855), 900);
    pairing.change(Change::Resume, 1000);
    pairing.change(pause(9, 1090), 1100);
    let look = Some(b"look".to_vec());
    let read = Some(b"read".to_vec());
    assert_eq!(
        weighed(pairing.change(Change::Resume, 1200)),
        [(100, read), (100, look)]
    );
}

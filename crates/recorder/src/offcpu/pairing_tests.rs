//! Tests that feed records to the pairing and check its waits.

use super::super::boundaries::Change;
use super::*;
use rprof_testing::Random;

const US: u64 = 1_000;

fn at(tid: i32, cpu: u32, time: u64) -> Moment {
    Moment {
        pid: 1,
        tid,
        cpu,
        time,
    }
}

/// Returns a pairing with thread 7 on CPU 0 since time 0.
fn running() -> Pairing {
    let mut pairing = Pairing::new(false);
    pairing.executed(1, 7, 0);
    pairing
}

fn leave(pairing: &mut Pairing, at: Moment, stack: &[u8], runnable: bool) {
    pairing.leaving(at, stack);
    pairing.switched_out(at, runnable);
}

fn sums(pairing: &Pairing) -> (u64, u64, u64, u64) {
    let time = pairing.time();
    (time.on_cpu, time.blocked, time.runnable, time.unknown)
}

#[test]
fn a_wait_has_the_stack_with_which_the_thread_left() {
    let mut pairing = running();
    leave(&mut pairing, at(7, 0, 10), b"read", false);
    let wait = pairing.switched_in(at(7, 1, 50)).unwrap();
    assert_eq!((wait.from, wait.to, wait.cpu), (10, 50, 1));
    assert_eq!(
        (wait.cause, &wait.stack.unwrap()[..]),
        (Cause::Blocked, &b"read"[..])
    );
    leave(&mut pairing, at(7, 1, 60), b"loop", true);
    let wait = pairing.switched_in(at(7, 1, 63)).unwrap();
    assert_eq!(
        (wait.cause, &wait.stack.unwrap()[..]),
        (Cause::Runnable, &b"loop"[..])
    );
    pairing.ended(1, 7, 70);
    assert_eq!(pairing.finish(100), []);
    assert_eq!(sums(&pairing), (10 + 10 + 7, 40, 3, 0));
    let time = pairing.time();
    assert_eq!((time.waits, time.threads, time.without_stack), (2, 1, 0));
}

#[test]
fn a_switch_in_that_arrives_after_a_later_record_ends_a_wait_of_no_length() {
    let mut pairing = running();
    pairing.records_wakeups = true;
    leave(&mut pairing, at(7, 0, 500), b"read", false);
    let wake = Wakeup {
        by: WaitEnd::Interrupt,
        at: 510,
    };
    assert!(pairing.woken(7, 1, wake));
    // Records of a CPU that went offline arrived 480 ns late.
    let wait = pairing.switched_in(at(7, 1, 30)).unwrap();
    assert_eq!((wait.from, wait.to, wait.weight), (30, 30, 0));
    assert_eq!(wait.wake.map(|wake| wake.at), Some(30));
}

#[test]
fn a_stack_is_of_the_switch_behind_it_on_its_cpu_alone() {
    // Samples of another thread, of another CPU, and of an earlier switch.
    let others: [&dyn Fn(&mut Pairing); 4] = [
        &|pairing| pairing.leaving(at(8, 0, 9), b"other"),
        &|pairing| pairing.leaving(at(7, 1, 9), b"other"),
        &|pairing| {
            pairing.leaving(at(7, 0, 5), b"other");
            pairing.switched_in(at(8, 0, 6));
        },
        &|pairing| {
            pairing.leaving(at(7, 0, 5), b"other");
            pairing.lost(0, 6);
        },
    ];
    for other in others {
        let mut pairing = running();
        other(&mut pairing);
        pairing.switched_out(at(7, 0, 10), false);
        let wait = pairing.switched_in(at(7, 0, 1000)).unwrap();
        assert_eq!(wait.stack, None);
        assert_eq!(pairing.time().without_stack, 990);
    }
}

#[test]
fn a_thread_that_is_born_waits_for_a_cpu() {
    let mut pairing = running();
    pairing.forked(1, 8, 20);
    let wait = pairing.switched_in(at(8, 1, 25)).unwrap();
    assert_eq!(
        (wait.cause, wait.weight, wait.stack),
        (Cause::Runnable, 5, None)
    );
    pairing.ended(1, 8, 30);
    pairing.ended(1, 7, 30);
    assert_eq!(sums(&pairing), (5 + 30, 0, 5, 0));
}

#[test]
fn lost_switches_make_no_waits() {
    // Two switch-outs: a switch-in was lost.
    let mut pairing = running();
    leave(&mut pairing, at(7, 0, 10), b"first", false);
    leave(&mut pairing, at(7, 0, 30), b"second", false);
    let wait = pairing.switched_in(at(7, 0, 35)).unwrap();
    assert_eq!((wait.from, &wait.stack.unwrap()[..]), (30, &b"second"[..]));
    assert_eq!(sums(&pairing), (10, 5, 0, 20));
    // Two switch-ins: a switch-out was lost.
    assert_eq!(pairing.switched_in(at(7, 0, 40)), None);
    assert_eq!(sums(&pairing), (10, 5, 0, 25));
    leave(&mut pairing, at(7, 0, 50), b"third", false);
    pairing.ended(1, 7, 60);
    assert_eq!(sums(&pairing), (20, 5, 0, 35));
    assert_eq!(pairing.time().lost_switches, 3);
}

#[test]
fn samples_of_what_runs_end_a_wait() {
    let mut pairing = running();
    leave(&mut pairing, at(7, 0, 10), b"read", false);
    // The sample still belongs to the switch.
    assert_eq!(pairing.sampled(at(7, 0, 10 + 40 * US)), None);
    let wait = pairing.sampled(at(7, 0, 10 + 60 * US)).unwrap();
    assert_eq!(wait.weight, 60 * US);
    // Its switch-in arrives now and does not count as lost.
    assert_eq!(pairing.switched_in(at(7, 0, 15 + 60 * US)), None);
    assert_eq!(pairing.time().lost_switches, 0);
    // On another CPU a sample cannot belong to the switch.
    leave(&mut pairing, at(7, 0, 100 * US), b"read", false);
    assert!(pairing.sampled(at(7, 1, 101 * US)).is_some());
    assert_eq!(sums(&pairing), (10 + (100 - 60) * US - 10, 61 * US, 0, 0));
}

#[test]
fn the_first_record_tells_what_was_before_it() {
    let mut pairing = Pairing::new(false);
    pairing.begin(100, [(1, 7), (1, 8), (1, 9), (1, 10), (1, 11)]);
    assert_eq!(pairing.switched_in(at(7, 0, 150)).unwrap().from, 100);
    pairing.switched_out(at(8, 1, 120), false);
    assert_eq!(pairing.sampled(at(9, 1, 130)), None);
    pairing.ended(1, 10, 110);
    assert_eq!(sums(&pairing), (20 + 30 + 10, 50, 0, 0));
    let waits = pairing.finish(200);
    let waits: Vec<_> = waits.iter().map(|w| (w.tid, w.from, w.to)).collect();
    assert_eq!(waits, [(8, 120, 200), (11, 100, 200)]);
    assert_eq!(sums(&pairing), (60 + 50 + 70, 50 + 80 + 100, 0, 0));
    assert_eq!(pairing.time().total().as_nanos(), 4 * 100 + 10);
}

#[test]
fn a_thread_found_waiting_has_the_stack_of_the_look() {
    let mut pairing = Pairing::new(false);
    pairing.begin(100, [(1, 7), (1, 8), (1, 9)]);
    pairing.switched_in(at(9, 0, 120));
    assert!(pairing.is_unseen(7) && !pairing.is_unseen(9));
    for tid in [7, 8, 9] {
        pairing.found_waiting(tid, 150, b"poll".to_vec());
    }
    // 8 woke before the inspection, and was waiting elsewhere by then.
    let early = pairing.switched_in(at(8, 0, 140)).unwrap();
    assert_eq!((early.from, early.stack), (100, None));
    let late = pairing.switched_in(at(7, 1, 160)).unwrap();
    assert_eq!((late.from, late.stack), (100, Some(b"poll".to_vec())));
    assert_eq!(pairing.finish(200), []);
}

#[test]
fn an_exec_ends_the_other_threads_and_takes_the_first_ones_number() {
    let mut pairing = running();
    pairing.forked(1, 8, 5);
    pairing.switched_in(at(8, 1, 6));
    pairing.forked(1, 9, 6);
    pairing.switched_in(at(9, 0, 7));
    leave(&mut pairing, at(7, 0, 7), b"join", false);
    // 9 and 7 are killed, and 8 gets the tid 7.
    pairing.ended(1, 9, 18);
    pairing.switched_in(at(7, 0, 19));
    pairing.ended(1, 7, 19);
    pairing.executed(1, 7, 20);
    leave(&mut pairing, at(7, 1, 30), b"wait", false);
    pairing.finish(40);
    assert_eq!(sums(&pairing), (7 + 14 + 11 + 10, 12 + 10, 1 + 1, 0));
}

#[test]
fn a_wait_with_a_gap_in_it_is_not_believed() {
    for (gap, is_believed) in [(2, true), (30, false)] {
        let mut pairing = running();
        leave(&mut pairing, at(7, 0, 10 * US), b"read", false);
        pairing.switched_in(at(8, 0, 20 * US));
        pairing.lost(0, (20 + gap) * US);
        let wait = pairing.switched_in(at(7, 1, 110 * US));
        assert_eq!(wait.is_some(), is_believed, "{gap}");
        let (on, blocked, _, unknown) = sums(&pairing);
        let expected = if is_believed { (100, 0) } else { (0, 100) };
        assert_eq!((on, (blocked / US, unknown / US)), (10 * US, expected));
    }
}

#[test]
fn a_switch_is_one_moment_however_long_its_recording_takes() {
    let mut pairing = running();
    pairing.forked(1, 8, 0);
    let mut time = 0;
    for turn in 0..100 {
        let (from, to) = if turn % 2 == 0 { (7, 8) } else { (8, 7) };
        time += 2 * US;
        pairing.leaving(at(from, 0, time), b"read");
        pairing.switched_out(at(from, 0, time + 3 * US), false);
        let wait = pairing.switched_in(at(to, 0, time + 5 * US)).unwrap();
        assert_eq!(wait.to, time);
        time += 5 * US;
    }
    pairing.finish(time);
    let (on, blocked, runnable, unknown) = sums(&pairing);
    assert_eq!(on, time);
    assert_eq!((blocked + runnable, unknown), (time, 0));
}

#[test]
fn who_comes_late_or_behind_another_has_the_cpu_from_its_own_record_on() {
    let comes = |previous: &dyn Fn(&mut Pairing), time: u64| {
        let mut pairing = running();
        pairing.forked(1, 8, 0);
        previous(&mut pairing);
        pairing.switched_in(at(8, 0, time)).unwrap().to
    };
    let left = |pairing: &mut Pairing| leave(pairing, at(7, 0, 10 * US), b"read", false);
    assert_eq!(comes(&left, 12 * US), 10 * US);
    // An unrecorded thread ran in between.
    assert_eq!(comes(&left, 18 * US), 18 * US);
    let elsewhere = |pairing: &mut Pairing| leave(pairing, at(7, 1, 10 * US), b"read", false);
    assert_eq!(comes(&elsewhere, 12 * US), 12 * US);
    let lost = |pairing: &mut Pairing| {
        left(pairing);
        pairing.lost(0, 10 * US);
    };
    assert_eq!(comes(&lost, 12 * US), 12 * US);
    assert_eq!(
        comes(&|pairing| pairing.idle_left(0, 10 * US), 12 * US),
        10 * US
    );
    // The same thread again: an unknown thread ran in between.
    let mut pairing = running();
    left(&mut pairing);
    assert_eq!(
        pairing.switched_in(at(7, 0, 12 * US)).unwrap().weight,
        2 * US
    );
}

#[test]
fn a_switch_across_the_beginning_of_a_window_counts_no_time_twice() {
    let mut pairing = running();
    pairing.leaving(at(7, 0, 10), b"read");
    pairing.change(Change::Begin, 15);
    pairing.switched_out(at(7, 0, 20), false);
    pairing.change(Change::Pause(Vec::new()), 115);
    pairing.finish(115);
    assert_eq!(sums(&pairing), (15, 100, 0, 0));
}

#[test]
fn what_ran_where_records_were_lost_is_unknown() {
    let mut pairing = running();
    pairing.switched_in(at(8, 0, 5));
    pairing.sampled(at(8, 0, 10));
    pairing.lost(0, 50);
    assert_eq!(pairing.finish(1000).len(), 0);
    let (on, blocked, runnable, unknown) = sums(&pairing);
    // 8 ran until the loss; 7 still runs.
    assert_eq!((on, blocked, runnable, unknown), (5 + 1000, 0, 0, 990));
}

#[test]
fn whole_cpus_tell_of_a_switch_behind_the_end() {
    let mut pairing = Pairing::new(true);
    for tid in [7, 8, 9] {
        pairing.found(1, tid, 0);
    }
    pairing.begin(0, []);
    pairing.switched_out(at(7, 0, 10), true);
    assert_eq!(pairing.switched_in(at(8, 0, 10)).unwrap().weight, 10);
    pairing.ended(1, 8, 20);
    pairing.switched_out(at(8, 0, 21), false);
    assert_eq!(pairing.finish(30).len(), 1);
    assert_eq!(sums(&pairing), (10 + 10, 10, 20, 0));
    // 9 had no records.
    assert_eq!(pairing.time().threads, 2);
}

/// For any sequence of records, no wait is longer than the recording, and all time counts exactly
/// once.
#[test]
fn time_is_accounted_for_once() {
    let mut random = Random::new(7);
    for _ in 0..300 {
        let mut pairing = Pairing::new(random.below(2) == 0);
        pairing.begin(0, [(1, 1), (1, 2), (2, 3)]);
        let (mut time, mut waits) = (0, Vec::new());
        for _ in 0..300 {
            time += random.below(100_000);
            let tid = 1 + random.below(5) as i32;
            let cpu = random.below(3) as u32;
            let at = at(tid, cpu, time);
            match random.below(16) {
                0..=3 => waits.extend(pairing.switched_in(at)),
                4..=6 => leave(&mut pairing, at, b"x", random.below(2) == 0),
                7 => pairing.switched_out(at, false),
                8 => pairing.leaving(at, b"y"),
                9..=11 => waits.extend(pairing.sampled(at)),
                12 => pairing.forked(1, tid, time),
                13 => pairing.ended(1, tid, time),
                14 => pairing.executed(1, tid, time),
                _ => pairing.lost(cpu, time),
            }
        }
        waits.extend(pairing.finish(time));
        assert!(
            waits
                .iter()
                .all(|wait| wait.from <= wait.to && wait.to <= time)
        );
        let sum: u64 = waits.iter().map(|wait| wait.weight).sum();
        let known = pairing.time();
        assert_eq!(sum, known.blocked + known.runnable);
        assert_eq!(waits.len() as u64, known.waits);
        assert!(known.total().as_nanos() as u64 <= 5 * time);
    }
}

fn wake(by: i32, at: u64) -> Wakeup {
    let by = WaitEnd::Thread { pid: 1, tid: by };
    Wakeup { by, at }
}

/// Returns the waker of a wait, and how long the thread waited for a CPU after the wakeup.
fn end(wait: &Wait) -> (WaitEnd, u64) {
    (wait.end(), wait.queued())
}

#[test]
fn a_wait_tells_who_ended_it() {
    let mut pairing = running();
    assert!(!pairing.woken(99, 1, wake(8, 5)), "nobody watches it");
    pairing.woken(7, 1, wake(8, 5));
    leave(&mut pairing, at(7, 0, 5 * US), b"lock", false);
    assert!(pairing.woken(7, 1, wake(9, 7 * US)));
    pairing.woken(7, 1, wake(8, 8 * US));
    let wait = pairing.switched_in(at(7, 0, 10 * US)).unwrap();
    assert_eq!(end(&wait), (WaitEnd::Thread { pid: 1, tid: 9 }, 3 * US));
    assert_eq!(sums(&pairing), (5 * US, 2 * US, 3 * US, 0));
    leave(&mut pairing, at(7, 0, 20 * US), b"lock", false);
    let wait = pairing.switched_in(at(7, 0, 30 * US)).unwrap();
    assert_eq!(end(&wait), (WaitEnd::Unknown, 0));
    // A runnable thread was not woken.
    leave(&mut pairing, at(7, 0, 40 * US), b"loop", true);
    pairing.woken(7, 1, wake(9, 45 * US));
    let wait = pairing.switched_in(at(7, 0, 50 * US)).unwrap();
    assert_eq!(end(&wait), (WaitEnd::Unknown, 0));
}

#[test]
fn a_wake_up_may_be_told_while_the_switch_still_is() {
    let mut pairing = running();
    pairing.leaving(at(7, 0, 10 * US), b"lock");
    pairing.woken(7, 1, wake(9, 12 * US));
    pairing.switched_out(at(7, 0, 15 * US), false);
    let wait = pairing.switched_in(at(7, 0, 18 * US)).unwrap();
    assert_eq!((wait.from, wait.to), (10 * US, 18 * US));
    assert_eq!(end(&wait), (WaitEnd::Thread { pid: 1, tid: 9 }, 6 * US));
    pairing.woken(7, 1, wake(9, 20 * US));
    leave(&mut pairing, at(7, 0, 30 * US), b"lock", false);
    let wait = pairing.switched_in(at(7, 0, 40 * US)).unwrap();
    assert_eq!(wait.end(), WaitEnd::Unknown);
}

#[test]
fn what_no_thread_ended_was_an_interrupt() {
    let mut pairing = running();
    pairing.records_wakeups = true;
    leave(&mut pairing, at(7, 0, 10), b"sleep", false);
    let wait = pairing.switched_in(at(7, 0, 50)).unwrap();
    assert_eq!(end(&wait), (WaitEnd::Interrupt, 0));
    // Waits that began before the recording, or are still open, have no wakeup.
    pairing.found(1, 8, 50);
    let wait = pairing.switched_in(at(8, 1, 90)).unwrap();
    assert_eq!(wait.end(), WaitEnd::Unknown);
    leave(&mut pairing, at(7, 0, 100), b"sleep", false);
    let waits = pairing.finish(200);
    assert_eq!(waits[0].end(), WaitEnd::Unknown);
    // A loss may hide a wakeup.
    let mut pairing = running();
    pairing.records_wakeups = true;
    pairing.sampled(at(9, 1, 10));
    leave(&mut pairing, at(7, 0, 10), b"sleep", false);
    pairing.lost(1, 12);
    let wait = pairing.switched_in(at(7, 0, 1_000)).unwrap();
    assert_eq!(wait.end(), WaitEnd::Unknown);
}

#[test]
fn who_is_awake_at_a_cut_waits_for_a_cpu_behind_it() {
    let mut pairing = running();
    leave(&mut pairing, at(7, 0, 10), b"lock", false);
    pairing.woken(7, 1, wake(9, 40));
    let before = pairing.change(Change::Begin, 50);
    assert_eq!((before[0].to, end(&before[0]).1), (50, 10));
    pairing.switched_in(at(7, 0, 80));
    let mut waits = pairing.change(Change::Pause(Vec::new()), 100);
    waits.extend(pairing.change(Change::Resume, 100));
    assert_eq!((waits[0].from, waits[0].to), (50, 80));
    assert_eq!(end(&waits[0]), (WaitEnd::Thread { pid: 1, tid: 9 }, 30));
    // Wakeups in a gap are ignored, and earlier ones are cleared.
    pairing.change(Change::Pause(Vec::new()), 200);
    assert!(!pairing.woken(7, 1, wake(9, 210)));
    pairing.change(Change::Resume, 300);
    let wait = pairing.switched_in(at(7, 0, 310));
    assert_eq!(wait, None, "kept for the window");
    let waits = pairing.change(Change::Settle(Vec::new()), 400);
    assert!(
        waits.iter().all(|wait| wait.end() == WaitEnd::Unknown),
        "{waits:?}"
    );
}

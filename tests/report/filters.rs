//! Filters with matches: patterns, functions in a stack, time ranges, and suggestions.

use crate::support::{Here, c, needs};

fn recorded() -> Here {
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock", &c("threads.c"), "0.3");
    here
}

#[test]
fn patterns_choose_functions_and_objects() {
    needs!(PerfEvents);
    let here = recorded();
    let all = here.report("");
    let own = |name| all.only().row(name).self_samples;
    let both = own("work_left") + own("work_right");
    assert_eq!(here.report("--symbol work_*").samples(), both);
    assert_eq!(
        here.report("--symbol work_?eft").samples(),
        own("work_left")
    );
    assert!(here.report("--dso thr*").samples() >= both);
    assert_eq!(
        here.report("--comm busy?left").samples(),
        here.report("--comm busy-left").samples()
    );
}

#[test]
fn focus_chooses_stacks_by_any_of_their_functions() {
    needs!(PerfEvents);
    let here = recorded();
    let all = here.report("");
    let focused = here.report("--focus work_left");
    assert_eq!(focused.only().weight, all.only().row("work_left").total);
    let script = here.rprof("script --focus work_left").ok();
    assert!(!script.out().contains("work_right"), "{script}");
    let folded = here.rprof("collapse --focus work_left").ok();
    assert!(folded.out().lines().all(|l| l.contains("work_left")));
}

#[test]
fn times_are_shares_or_count_from_an_end() {
    needs!(PerfEvents);
    let here = recorded();
    let all = here.report("").samples();
    let halves = ["0%,50%", "50%,100%"].map(|t| here.report(&format!("--time {t}")).samples());
    let sum: u64 = halves.iter().sum();
    assert!(halves[0] > 0 && halves[1] > 0, "{halves:?}");
    assert!((all..=all + 2).contains(&sum), "{sum} of {all}");
    assert_eq!(here.report("--time -1000s,").samples(), all);
    assert!(here.report("--time ,+0.05s").samples() < all);
    here.rprof("report --time 60%,40%")
        .exits(2)
        .says("TO is before FROM");
}

#[test]
fn names_that_nothing_has_get_the_nearest() {
    needs!(PerfEvents);
    let here = recorded();
    let run = here.rprof("report --symbol work_lfet").exits(1);
    run.says("no sampled symbol matches `work_lfet`; nearest: work_left");
    let run = here.rprof("report --dso thraeds").exits(1);
    run.says("no object matches `thraeds`; nearest: ");
}

/// The message names a way to see it.
#[test]
fn what_a_recording_holds_and_is_not_shown_is_named() {
    needs!(Kernel, Tracepoints);
    let here = Here::new();
    here.record("-e cpu-clock,sched:sched_wakeup", &c("shares.c"), "0.1");
    here.rprof("report")
        .ok()
        .says("`perf sched latency -i perf.data`");
    here.rprof("report -q").ok().says_nothing();
    here.record("-e cpu-clock", &c("shares.c"), "0.1");
    here.rprof("report").ok().says_nothing();
}

#[test]
fn callers_are_shown_with_the_direct_ones_as_self() {
    needs!(PerfEvents);
    let here = recorded();
    let all = here.report("");
    let called = all.only().row("work_left").total;
    let callers = here.report("--callers work_left");
    assert_eq!(callers.only().weight, called);
    let own: u64 = callers.only().rows.iter().map(|row| row.own).sum();
    assert_eq!(own, called);
    let names: Vec<_> = callers.only().rows.iter().map(|row| &*row.symbol).collect();
    assert!(!names.contains(&"work_left"), "{names:?}");
    let folded = here.rprof("collapse --callers work_left").ok();
    let ends = |line: &str| {
        line.rsplit_once(' ')
            .is_some_and(|l| l.0.ends_with("work_left"))
    };
    assert!(folded.out().lines().all(ends), "{folded}");
    here.rprof("script --callers work_left")
        .exits(2)
        .says("--focus");
}

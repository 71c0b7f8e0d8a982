//! `rprof record --stat`: counts in the recording.

use crate::support::{Here, Need, c, has, needs};

#[test]
fn counts_are_kept_in_the_recording_and_shown() {
    needs!(PerfEvents, Kernel);
    let here = Here::new();
    here.rprof("record -q --stat --call-graph none --")
        .arg(c("shares.c"))
        .ok();
    let header = here.rprof("header").ok();
    for note in [
        "stat.event.task-clock",
        "stat.event.page-faults",
        "stat.user.ns",
        "stat.max-rss.bytes",
    ] {
        header.prints(note);
    }
    let report = here.rprof("report").ok();
    let both = format!("{}{}", report.out(), report.err());
    assert!(
        both.contains("counted: ") && both.contains("task-clock"),
        "{report}"
    );
    if has(Need::Perf) {
        here.perf("report --stdio -s comm").ok().prints("shares");
    }
    here.rprof("record -q --call-graph none --")
        .arg(c("shares.c"))
        .ok();
    assert!(!here.rprof("header").ok().out().contains("stat.event"));
}

#[test]
fn counts_of_a_process_that_runs_are_kept_too() {
    needs!(PerfEvents);
    let here = Here::new();
    let mut endless = here.command(c("endless.c")).start();
    let pid = endless.line();
    here.rprof("record -q --stat --call-graph none --all-user -d 0.5 -p")
        .arg(&pid)
        .ok();
    here.rprof("header").ok().prints("stat.event.task-clock");
    drop(endless);
}

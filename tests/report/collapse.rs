//! `rprof collapse`: folded stacks.

use crate::support::{Here, c, cxx, folded, needs};

#[test]
fn folded_stacks_weigh_as_much_as_the_report() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock", &c("shares.c"), "0.3");
    let event = here.report("");
    let event = event.only();
    let periods = folded(&here.rprof("collapse").ok());
    assert_eq!(periods.values().sum::<u64>(), event.weight);
    let samples = folded(&here.rprof("collapse --weight samples").ok());
    assert_eq!(samples.values().sum::<u64>(), event.samples);
    assert!(periods.keys().eq(samples.keys()), "the same stacks");
    // Leaf by leaf.
    let hot = periods
        .iter()
        .filter(|(stack, _)| stack.ends_with(";burn_seventy"));
    let hot: u64 = hot.map(|(_, weight)| weight).sum();
    assert_eq!(hot, event.row("burn_seventy").own);
    // The root is the thread.
    assert!(
        periods.keys().all(|s| s.starts_with("shares;")),
        "{periods:#?}"
    );
}

#[test]
fn folded_stacks_are_the_same_in_a_file() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g", &c("shares.c"), "0.1");
    let printed = here.rprof("collapse").ok();
    here.rprof("collapse -o stacks.folded").ok();
    assert_eq!(
        std::fs::read(here.path("stacks.folded")).unwrap(),
        printed.bytes()
    );
    assert_eq!(
        here.rprof("collapse").ok().bytes(),
        printed.bytes(),
        "the second time"
    );
}

#[test]
fn folded_thread_names_have_no_spaces() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g", &c("threads.c"), "0.2");
    let stacks = folded(&here.rprof("collapse").ok());
    let of = |comm: &str, function: &str| {
        let is_it = |s: &&String| s.starts_with(comm) && s.split(';').any(|f| f == function);
        stacks.keys().filter(is_it).count()
    };
    assert!(of("busy-left;", "work_left") > 0, "{stacks:#?}");
    assert!(of("busy_right;", "work_right") > 0, "{stacks:#?}");
    assert_eq!(
        of("busy-left;", "work_right") + of("busy_right;", "work_left"),
        0
    );
}

#[test]
fn collapse_reads_from_a_pipe() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g", &c("shares.c"), "0.1");
    let bytes = std::fs::read(here.path("perf.data")).unwrap();
    let piped = here.rprof("collapse -i -").stdin(&bytes).ok();
    assert_eq!(piped.out(), here.rprof("collapse").ok().out());
}

#[test]
fn folded_names_have_no_parameters() {
    needs!(PerfEvents, Cxx);
    let here = Here::new();
    here.record("-F 999 -g", &cxx("names.cpp"), "0.05");
    for stack in folded(&here.rprof("collapse").ok()).keys() {
        let frames = stack.split(';');
        let mut lists = frames.filter(|f| f.contains('(') && !f.contains("(anonymous namespace)"));
        assert_eq!(lists.find(|f| !f.contains("{lambda(")), None, "{stack}");
    }
}

//! `rprof script`: each sample as perf script prints it.

use crate::support::{Here, c, fold_samples, folded, perf_samples};

#[test]
fn prints_every_sample_in_order_of_time() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock", &c("threads.c"), "0.3");
    let run = here.rprof("script").ok();
    run.says_nothing();
    let samples = perf_samples(&run);
    assert_eq!(samples.len() as u64, here.report("").samples());
    let time = |head: &str| {
        let word = head.split_whitespace().find_map(|w| w.strip_suffix(':'));
        let (s, us) = word
            .and_then(|w| w.split_once('.'))
            .expect("seconds and microseconds");
        s.parse::<u64>().unwrap() * 1_000_000 + us.parse::<u64>().unwrap()
    };
    assert!(samples.is_sorted_by_key(|s| time(&s.head)), "{run}");
    assert!(
        samples
            .iter()
            .all(|s| s.event == "cpu-clock" && !s.frames.is_empty()),
        "{run}"
    );
}

#[test]
fn folds_to_what_collapse_prints() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock", &c("syscalls.c"), "0.3");
    let by_script = fold_samples(&perf_samples(&here.rprof("script").ok()));
    assert_eq!(by_script, folded(&here.rprof("collapse").ok()));
}

#[test]
fn has_one_line_a_sample_without_stacks() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -e cpu-clock", &c("shares.c"), "0.2");
    let run = here.rprof("script").ok();
    assert_eq!(
        run.out().lines().count() as u64,
        here.report("").samples(),
        "{run}"
    );
    run.prints(" burn_seventy+0x");
}

#[test]
fn ends_quietly_when_its_reader_does() {
    needs!(PerfEvents);
    let here = Here::new();
    // More than fits into a pipe.
    here.record("-F 9999 -g", &c("recursion.c"), "100 0.5");
    for command in [
        "script",
        "report",
        "collapse",
        "header",
        "flamegraph -o - -q",
    ] {
        let mut running = here.rprof(command).start();
        if command == "script" {
            running.line();
        }
        running.close_stdout();
        let run = running.end();
        run.exits(0).says_nothing();
    }
}

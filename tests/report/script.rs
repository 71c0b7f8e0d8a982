//! `rprof script`: each sample as in perf script.

use crate::support::{Here, c, fold_samples, folded, needs, perf_samples};

#[test]
fn script_has_every_sample_in_order_of_time() {
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
fn script_folds_to_the_output_of_collapse() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock", &c("syscalls.c"), "0.3");
    let by_script = fold_samples(&perf_samples(&here.rprof("script").ok()));
    assert_eq!(by_script, folded(&here.rprof("collapse --no-located").ok()));
}

#[test]
fn script_without_stacks_has_one_line_a_sample() {
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
fn script_shows_group_members_as_perf_does() {
    needs!(PerfEvents, Perf);
    let here = Here::new();
    let events = "-e {cpu-clock,page-faults,minor-faults}:S";
    // The first sample has the page faults of the start.
    here.perf_record(events, &c("recursion.c"), "1000 0.3");
    let fields = "script -F comm,tid,time,period,event";
    let [by_perf, by_rprof] = [here.perf(fields), here.rprof(fields)].map(|shell| {
        let text = shell.ok().out();
        let one = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines().map(one).collect::<Vec<_>>()
    });
    for event in ["cpu-clock:", "page-faults:", "minor-faults:"] {
        assert!(
            by_perf.iter().any(|line| line.ends_with(event)),
            "no {event}"
        );
    }
    assert_eq!(by_rprof, by_perf);
    assert_eq!(here.report("").samples(), by_perf.len() as u64);
}

#[test]
fn script_ends_quietly_when_its_reader_does() {
    needs!(PerfEvents);
    let here = Here::new();
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

#[test]
fn script_shows_only_samples_whose_leaf_the_filters_want() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -e cpu-clock", &c("shares.c"), "0.2");
    let all = perf_samples(&here.rprof("script").ok()).len();
    let run = here.rprof("script --symbol burn_seventy").ok();
    let chosen = run.out().lines().count();
    assert!(0 < chosen && chosen < all, "{chosen} of {all}");
    assert!(
        run.out()
            .lines()
            .all(|line| line.contains(" burn_seventy+0x"))
    );
    let of_report = here.report("--symbol burn_seventy").samples();
    assert_eq!(chosen as u64, of_report);
    let run = here.rprof("script --dso no-such-object").exits(1);
    run.says("none passes --dso no-such-object");
}

#[test]
fn script_refuses_what_has_no_meaning_for_it() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -e cpu-clock", &c("shares.c"), "0.1");
    here.rprof("script --weight samples")
        .exits(2)
        .says("--weight does not apply");
    here.rprof("script --event cpu-clok")
        .exits(1)
        .says("no event \"cpu-clok\"");
}

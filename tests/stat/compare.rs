//! Comparison of two commands.

use super::{HITS, json};
use crate::support::{Here, Shell, c, needs};

/// Runs two programs with these numbers of calls of `hit`.
fn compared(here: &Here, options: &str, old: &str, new: &str) -> Shell {
    let shell = here
        .rprof("stat -r 5")
        .words(options)
        .arg("-e")
        .arg(HITS)
        .arg("--");
    shell
        .arg(c("calls.c"))
        .arg(old)
        .arg(":::")
        .arg(c("calls.c"))
        .arg(new)
}

#[test]
fn what_takes_more_is_found_and_fails_the_limit() {
    needs!(PerfEvents, Tracepoints);
    let here = Here::new();
    let limit = format!("--fail-above {HITS}=10%");
    let more = compared(&here, &limit, "100", "120").exits(3);
    more.says("+20.0 %").says("more").says("FAILED");
    compared(&here, &limit, "100", "104")
        .ok()
        .says("+4.0 %")
        .says("passed");
    compared(&here, &limit, "120", "100")
        .ok()
        .says("less")
        .says("passed");
    let same = compared(&here, &limit, "100", "100").ok();
    same.says("+0.0 %").says("no difference seen");
}

#[test]
fn a_limit_on_what_is_not_counted_is_inconclusive() {
    needs!(PerfEvents, Tracepoints);
    let here = Here::new();
    compared(&here, "--fail-above cycles-of-nobody=1%", "1", "1")
        .ok()
        .says("INCONCLUSIVE");
    compared(&here, "--fail-above cycles-of-nobody=1% --strict", "1", "1").exits(4);
}

#[test]
fn commands_take_turns_whose_order_alternates() {
    needs!(PerfEvents);
    let here = Here::new();
    let stat = here.rprof("stat -r 3 -w 1 --format json -o out.json -e page-faults:u --prepare");
    let stat = stat
        .arg("printf p >> log")
        .words("-- sh -c")
        .arg("printf a >> log");
    stat.words("::: sh -c").arg("printf b >> log").ok();
    let log = std::fs::read_to_string(here.path("log")).unwrap();
    assert_eq!(log, "papb papb pbpa papb".replace(' ', ""));
}

#[test]
fn the_document_has_every_run_and_every_figure_of_the_test() {
    needs!(PerfEvents, Tracepoints);
    let here = Here::new();
    let limit = format!("--format json --fail-above {HITS}=10%");
    let run = compared(&here, &limit, "100", "150").exits(3);
    let document = json(&run.out());
    assert_eq!(document["version"], 1);
    for side in 0..2 {
        assert_eq!(
            document["commands"][side]["runs"].as_array().map(Vec::len),
            Some(5)
        );
    }
    let rows = document["comparison"]["rows"].as_array().expect("rows");
    let row = rows
        .iter()
        .find(|row| row["name"] == HITS)
        .expect("the event");
    let ratio = row["tested"]["ratio"].as_f64().expect("a ratio");
    assert!((ratio - 300.5 / 200.5).abs() < 1e-9, "{row:#}");
    assert_eq!(row["tested"]["verdict"], "more");
    assert!(row["tested"]["p"].as_f64().expect("a p-value") < 1e-6);
    assert_eq!(document["comparison"]["limits"][0]["result"], "failed");
}

#[test]
fn a_command_that_fails_is_not_compared() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here
        .rprof("stat -r 2 -e page-faults:u -- true ::: false")
        .exits(1);
    run.says("no run of `false` is counted: exit status 1");
}

//! `record --runs`: several runs of one command, each with its own file.

use crate::support::{Here, c, needs};

#[test]
fn each_run_has_a_file_and_a_process_of_its_own() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here
        .rprof("record --runs 3 --")
        .arg(c("knob.c"))
        .words("0.1 0.1 0.1")
        .ok();
    run.says("saved 3 runs in perf.data.1 to perf.data.3");
    let mut pids = Vec::new();
    for number in 1..=3 {
        let script = here
            .rprof(&format!("script -F pid -i perf.data.{number}"))
            .ok();
        let mut of_run: Vec<String> = script.out().split_whitespace().map(str::to_owned).collect();
        of_run.dedup();
        pids.extend(of_run);
    }
    pids.sort();
    pids.dedup();
    assert_eq!(pids.len(), 3, "{pids:?}");
    assert!(!here.path("perf.data").exists());
    // As gate reads them.
    here.rprof("record -q --runs 2 -o base/ -- true").ok();
    assert!(here.path("base/1.data").exists() && here.path("base/2.data").exists());
    here.rprof("record -q --runs 1 -o base -- true").ok();
    assert!(here.path("base/1.data.old").exists());
}

#[test]
fn a_run_that_fails_is_the_last_and_is_not_kept() {
    needs!(PerfEvents);
    let here = Here::new();
    let script =
        "n=$(cat n 2>/dev/null || echo 0); n=$((n + 1)); echo $n >n; test $n -lt 3 || exit 7";
    let run = here.rprof("record --runs 5 -- sh -c").arg(script).exits(7);
    run.says("stopped at run 3 of 5, which is not kept: it ended with status 7");
    let exists = |number: u32| here.path(format!("perf.data.{number}")).exists();
    assert_eq!([1, 2, 3, 4].map(exists), [true, true, false, false]);
    let run = here
        .rprof("record --runs 2 -o killed -- sh -c")
        .arg("kill -KILL $$")
        .exits(137);
    run.says("stopped at run 1 of 2, which is not kept");
    assert!(!here.path("killed.1").exists());
}

#[test]
fn several_runs_are_of_a_command_and_in_files() {
    let here = Here::new();
    for (arguments, message) in [
        ("record --runs 2 -a", "--runs needs a COMMAND"),
        ("record --runs 2 -o - -- true", "--runs makes several files"),
        (
            "record --runs 2 --switch-output -- true",
            "cannot be used with",
        ),
        (
            "record --runs 0 -- true",
            "expected a number from 1 to 1000",
        ),
    ] {
        here.rprof(arguments).exits(2).says(message);
    }
}

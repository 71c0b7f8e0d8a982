//! Filters without matches, and recordings without samples: equal errors in every command.

use crate::support::{Here, c, needs};

/// Commands, with an output option if they write files.
const COMMANDS: [&str; 13] = [
    "report",
    "report -g",
    "report --format json",
    "report --no-children",
    "html -o out -i perf.data",
    "flamegraph -o out -i perf.data",
    "export -o out --format pprof",
    "export -o out --format firefox",
    "export -o out --format folded",
    "collapse -o out",
    "script",
    "annotate",
    "diff perf.data perf.data",
];

#[test]
fn filters_that_leave_no_sample_fail_with_their_name_in_every_command() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-g", &c("shares.c"), "0.2");
    for filter in [
        "--comm nobody",
        "--pid 4194303",
        "-p 4194303",
        "--tid 4194303",
        "-t 4194303",
        "--cpu 4095",
        "-C 4095",
        "--dso nowhere.so",
        "--symbol no_such_function",
        "--focus no_such_function",
        "--time 0,0.5",
    ] {
        let (_, value) = filter.split_once(' ').expect("a flag and its value");
        for command in COMMANDS {
            let run = here.rprof(command).words(filter).exits(1);
            run.says("the filters leave no sample of perf.data")
                .says(value)
                .is_clean();
            assert_eq!(run.out(), "", "{run}");
            assert!(!here.path("out").exists(), "left behind by\n{run}");
        }
    }
    here.rprof("report --comm nobody --pid 1,2")
        .exits(1)
        .says("none passes --comm nobody and --pid 1,2");
    here.rprof("flamegraph -o out --symbol burn_sevent")
        .exits(1)
        .says("nearest: burn_seventy");
    let run = here
        .rprof("flamegraph -o out --comm nobody --")
        .arg(c("shares.c"))
        .words("0.1")
        .exits(1);
    run.says("--comm nobody");
    assert!(!here.path("out").exists());
}

#[test]
fn recordings_without_a_sample_fail_in_every_command() {
    needs!(PerfEvents);
    let here = Here::new();
    here.rprof("record -q -e alignment-faults -c 1 -- true")
        .ok();
    for command in COMMANDS {
        let run = here.rprof(command).exits(1);
        run.says("perf.data has no samples").is_clean();
        assert_eq!(run.out(), "", "{run}");
        assert!(!here.path("out").exists(), "left behind by\n{run}");
    }
    // Next to other recordings, it is a part without samples.
    std::fs::rename(here.path("perf.data"), here.path("empty.data")).expect("cannot rename");
    here.record("", &c("shares.c"), "0.1");
    here.rprof("report empty.data perf.data").ok();
}

#[test]
fn the_screen_is_not_taken_where_no_sample_is_left() {
    needs!(PerfEvents, Terminal);
    let here = Here::new();
    here.record("", &c("shares.c"), "0.1");
    let rprof = env!("CARGO_BIN_EXE_rprof");
    let line = format!("TERM=xterm script -qec '{rprof} report --tui --comm nobody' /dev/null");
    here.sh(&line).exits(1).prints("--comm nobody");
}

#[test]
fn memory_of_other_recordings_fails_with_the_way_to_record_it() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-g", &c("shares.c"), "0.2");
    for option in ["--memory", "--alloc", "--at end", "--at 50%"] {
        for command in ["report", "collapse", "flamegraph -o out -i perf.data"] {
            let run = here.rprof(command).words(option).exits(1);
            run.says("perf.data has no memory: `rprof record --memory`");
        }
    }
    for command in ["flamegraph -o out --memory", "html -o out --at peak"] {
        let run = here.rprof(command).words("-- true").exits(2);
        run.says("does not record memory: make a recording first");
    }
}

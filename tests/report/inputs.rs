//! Inputs of reading commands: FILE, several files, and a recording instead of a command.

use crate::support::{Here, c, needs};

fn two() -> Here {
    let here = Here::new();
    for name in ["a.data", "b.data"] {
        here.record("-F 999 -g -e cpu-clock", &c("threads.c"), "0.1");
        std::fs::rename(here.path("perf.data"), here.path(name)).unwrap();
    }
    here
}

#[test]
fn several_recordings_are_merged() {
    needs!(PerfEvents);
    let here = two();
    let [a, b, both, by_flag] =
        ["a.data", "b.data", "a.data b.data", "-i a.data -i b.data"].map(|f| here.report(f));
    assert_eq!(both.samples(), a.samples() + b.samples());
    let [own_a, own_b, own] =
        [&a, &b, &both].map(|report| report.only().row("work_left").self_samples);
    assert_eq!(own, own_a + own_b);
    let frames = |report: &crate::support::Report| report.quality["frames"]["total"].as_u64();
    assert_eq!(
        frames(&both),
        Some(frames(&a).unwrap() + frames(&b).unwrap())
    );
    assert_eq!(by_flag.only().rows.len(), both.only().rows.len());
    here.rprof("collapse a.data b.data")
        .ok()
        .prints("work_left");
    here.rprof("flamegraph -o - a.data b.data")
        .ok()
        .prints("work_left");
    here.rprof("header a.data b.data").ok().prints("b.data");
    here.rprof("script a.data").ok().prints("work_left");
    here.rprof("script a.data b.data")
        .exits(2)
        .says("one recording only");
    here.sh("echo 'main 1' > x.folded").ok();
    here.rprof("report a.data x.folded")
        .exits(2)
        .says("rprof collapse");
    here.rprof("report x.folded x.folded")
        .ok()
        .prints("2 samples");
}

#[test]
fn a_recording_given_as_command_is_not_run() {
    needs!(PerfEvents);
    let here = two();
    here.rprof("record a.data")
        .exits(2)
        .says("`rprof report a.data`");
    here.rprof("flamegraph -o - a.data").ok().prints("<svg");
    here.rprof("flamegraph a.data -o titled.svg --title Orders")
        .ok();
    let svg = std::fs::read_to_string(here.path("titled.svg")).expect("it was drawn");
    assert!(svg.contains(">Orders<"), "{svg}");
    // A shell would treat it as a script.
    here.sh("chmod 755 a.data").ok();
    here.rprof("record ./a.data").exits(2).says("not a command");
    // Any executable text may be a script.
    here.sh("printf 'true 1\\n' > run && chmod 755 run").ok();
    here.rprof("record -q ./run").ok();
}

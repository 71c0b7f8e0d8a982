//! Bases of `rprof gate`: their recordings and machines.

use crate::support::{Here, c, needs};

/// Runs once, unless the options set the number.
fn gate(here: &Here, options: &str, seconds: &str) -> crate::support::Shell {
    let runs = if options.contains("--runs") {
        ""
    } else {
        "--runs 1"
    };
    (here.rprof("gate").words(runs).words(options).arg("--"))
        .arg(c("knob.c"))
        .words(seconds)
}

const PLAIN: &str = "0.1 0.1 0.1";

#[test]
fn runs_that_were_moved_aside_are_no_base() {
    needs!(PerfEvents);
    let here = Here::new();
    // Slower earlier runs. If they were used, the new ones would be faster.
    gate(&here, "--save base --runs 2", "0.5 0.1 0.1").ok();
    gate(&here, "--save base --runs 1", PLAIN).ok();
    let exists = |name: &str| here.path("base").join(name).exists();
    assert!(exists("1.data") && exists("1.data.old") && exists("2.data.old"));
    assert!(!exists("2.data"));
    let run = gate(&here, "--base base --noise 5% --format json", PLAIN).run();
    let json: serde_json::Value = serde_json::from_str(&run.out()).unwrap();
    assert_eq!(json["old"]["runs"], 1, "{run}");
}

#[test]
fn recordings_of_record_are_a_base() {
    needs!(PerfEvents);
    let here = Here::new();
    let record = here
        .rprof("record -q --runs 2 -o base/ --")
        .arg(c("knob.c"));
    record.words(PLAIN).ok();
    let run = gate(&here, "--base base --noise 5%", "0.4 0.1 0.1").exits(3);
    run.prints("knob_f");
}

#[test]
fn a_base_of_another_machine_is_not_compared() {
    needs!(PerfEvents);
    let here = Here::new();
    gate(&here, "--save base", PLAIN).ok();
    let note = here.path("base/machine.json");
    let mut machine: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&note).unwrap()).unwrap();
    machine["cpu"] = "Z80 @ 4 MHz".into();
    std::fs::write(&note, machine.to_string()).unwrap();
    let run = gate(&here, "--base base", PLAIN).exits(2);
    run.says("cannot compare")
        .says("processor Z80 @ 4 MHz, here");
    assert!(!run.err().contains("run 1 of 1"), "{run}");
    // A damaged note must not count as this machine's.
    std::fs::write(&note, "{\"cpu\":").unwrap();
    let run = gate(&here, "--base base", PLAIN).exits(2);
    run.says("base/machine.json does not describe a machine");
    assert!(!run.err().contains("run 1 of 1"), "{run}");
}

#[test]
fn each_machine_has_a_base_of_its_own() {
    needs!(PerfEvents);
    let here = Here::new();
    let first = gate(&here, "--baseline-dir all", PLAIN).ok();
    first.says("had no base for this machine");
    let folders: Vec<_> = std::fs::read_dir(here.path("all")).unwrap().collect();
    assert_eq!(folders.len(), 1);
    let run = gate(&here, "--baseline-dir all --noise 5%", "0.4 0.1 0.1").exits(3);
    run.prints("knob_f");
    // A failed run does not become the base. Other runs do on request.
    gate(&here, "--baseline-dir all --noise 5%", "0.4 0.1 0.1").exits(3);
    let renewed = gate(&here, "--baseline-dir all --renew --strict", "0.4 0.1 0.1").ok();
    renewed.says("1 run is now the base for this machine");
    let run = gate(&here, "--baseline-dir all --noise 5%", "0.4 0.1 0.1").run();
    assert_ne!(run.code(), Some(3), "{run}");
    // With --strict, a gate without a base does not pass.
    gate(&here, "--baseline-dir none --strict", PLAIN).exits(4);
}

#[test]
fn equal_runs_are_calibrated() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = gate(
        &here,
        "--calibrate --runs 2 --splits 20 --save base",
        "0.2 0.1 0.1",
    )
    .ok();
    run.prints("machine: ")
        .prints("smallest rise detected in four of five cases, with 2 runs per side")
        .prints("knob_f");
    let json = here
        .rprof("gate --calibrate --base base --splits 20 --format json")
        .ok();
    let json: serde_json::Value = serde_json::from_str(&json.out()).unwrap();
    assert_eq!((&json["runs"], &json["splits"]), (&2.into(), &20.into()));
    assert_eq!(json["amounts"].as_array().unwrap().len(), 4);
    assert!(json["visible"].as_f64().unwrap() > 0.0);
    for (arguments, message) in [
        ("gate --calibrate", "give one COMMAND, or --base"),
        (
            "gate --calibrate -- true ::: true",
            "give one COMMAND, or --base",
        ),
        (
            "gate --calibrate --format csv -- true",
            "only --format text and json",
        ),
    ] {
        here.rprof(arguments).exits(2).says(message);
    }
}

#[test]
fn a_base_that_is_empty_or_damaged_is_told() {
    needs!(PerfEvents);
    let here = Here::new();
    gate(&here, "--save base", PLAIN).ok();
    let file = here.path("base/1.data");
    let whole = std::fs::read(&file).unwrap();
    // The missing part may contain a regression.
    std::fs::write(&file, &whole[..whole.len() * 9 / 10]).unwrap();
    let run = gate(&here, "--base base --noise 5% --strict", PLAIN).exits(4);
    run.prints("# 1 of the old recordings is damaged or cut off");
    std::fs::write(&file, &whole[..40]).unwrap();
    gate(&here, "--base base", PLAIN).exits(1);
    gate(&here, "--save base -e page-faults", PLAIN).ok();
    gate(&here, "--base base -e cpu-clock", PLAIN)
        .exits(2)
        .says("do not compare");
    // A program without samples: at 1 Hz, the first sample comes after a second of CPU time.
    gate(&here, "--save base -F 1", "0 0 0").ok();
    gate(&here, "--base base", PLAIN)
        .exits(1)
        .says("has no samples");
}

#[test]
fn a_command_that_fails_each_third_run_is_never_judged() {
    needs!(PerfEvents);
    let here = Here::new();
    let script =
        "n=$(cat n 2>/dev/null || echo 0); n=$((n + 1)); echo $n >n; test $((n % 3)) -ne 0";
    let run = here
        .rprof("gate --save base --runs 5 -- sh -c")
        .arg(script)
        .exits(1);
    run.says("no verdict: sh ended with exit status 1");
    assert!(!run.err().contains("run 4 of 5"), "{run}");
    let kept: Vec<_> = std::fs::read_dir(here.path("base")).unwrap().collect();
    assert!(kept.is_empty(), "{kept:?}");
}

//! `rprof gate` interrupted by signals: files and processes afterwards.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Here, Running, c, needs, wait_until};

/// Starts a gate of an endless command. Returns it and the command's pid. Temporary folders are in
/// `tmp`.
fn gate(here: &Here, options: &str, command_options: &str) -> (Running, Pid) {
    std::fs::create_dir_all(here.path("tmp")).unwrap();
    let tmp = here.path("tmp");
    let script = format!("echo $$ >pid.new; mv pid.new pid; exec \"$0\" {command_options}");
    let gate = (here.rprof("gate --runs 2").words(options))
        .env("TMPDIR", tmp.to_str().unwrap())
        .words("-- sh -c")
        .arg(script)
        .arg(c("endless.c"))
        .start();
    let mut pid = None;
    wait_until("the command runs", || {
        pid = std::fs::read_to_string(here.path("pid"))
            .ok()
            .and_then(|text| Pid::from_raw(text.trim().parse().ok()?));
        pid.is_some()
    });
    (gate, pid.unwrap())
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.collect()
}

fn has_ended(pid: Pid) -> bool {
    kill_process(pid, Signal::CONT).is_err()
}

#[test]
fn a_signal_ends_the_command_and_leaves_nothing() {
    needs!(PerfEvents);
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15), (Signal::HUP, 1)] {
        let here = Here::new();
        let (gate, command) = gate(&here, "--save base", "");
        gate.signal(signal);
        let run = gate.end();
        run.exits(128 + number).says("no verdict: a signal");
        assert!(has_ended(command), "the command is left by\n{run}");
        assert_eq!(entries(&here.path("base")), [""; 0], "{run}");
        assert_eq!(entries(&here.path("tmp")), [""; 0], "{run}");
    }
}

#[test]
fn the_second_signal_ends_a_command_that_does_not_heed_the_first() {
    needs!(PerfEvents);
    let here = Here::new();
    // Without `:::` and a base, gate needs a folder for the runs.
    let (gate, command) = gate(&here, "--save base", "ignore");
    gate.signal(Signal::TERM);
    // The recorder must forward the first signal before a second one counts, which is not visible
    // from outside.
    wait_until("the command is gone", || {
        kill_process(gate.pid(), Signal::TERM).ok();
        has_ended(command)
    });
    gate.end().exits(128 + 15);
    assert_eq!(entries(&here.path("base")), [""; 0]);
}

#[test]
fn what_was_kept_stays_when_a_signal_comes() {
    needs!(PerfEvents);
    let here = Here::new();
    let knob = c("knob.c");
    here.rprof("gate --save base --runs 1 --")
        .arg(&knob)
        .words("0.1 0.1 0.1")
        .ok();
    let before = std::fs::read(here.path("base/1.data")).unwrap();
    let (gate, _) = gate(&here, "--save base", "");
    gate.signal(Signal::TERM);
    gate.end().exits(128 + 15);
    assert_eq!(std::fs::read(here.path("base/1.data")).unwrap(), before);
    let mut names = entries(&here.path("base"));
    names.sort();
    assert_eq!(names, ["1.data", "machine.json"]);
}

#[test]
fn what_a_killed_gate_left_is_removed_by_the_next() {
    needs!(PerfEvents);
    let here = Here::new();
    let (gate, command) = gate(&here, "--save base", "");
    gate.signal(Signal::KILL);
    gate.end();
    kill_process(command, Signal::KILL).ok();
    wait_until("the command is gone", || has_ended(command));
    assert_eq!(entries(&here.path("base")).len(), 1);
    let next = here.rprof("gate --save base --runs 1 --").arg(c("knob.c"));
    let run = next.words("0.1 0.1 0.1").ok();
    run.says("left by a killed gate");
    let mut names = entries(&here.path("base"));
    names.sort();
    assert_eq!(names, ["1.data", "machine.json"]);
}

//! Signals to rprof while it records.

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Here, Need, Running, c, has, needs, perf_samples, wait_until};

/// Returns rprof and the program's pid, which it prints after its first work.
fn recording(here: &Here, options: &str) -> (Running, Pid) {
    let shell = here
        .rprof("record -F 999 -g -e cpu-clock --")
        .arg(c("endless.c"));
    let mut rprof = shell.words(options).start();
    let pid = rprof.line().parse().ok().and_then(Pid::from_raw);
    (rprof, pid.expect("the number of a process"))
}

fn assert_complete(here: &Here) {
    let run = here.rprof("report").ok();
    run.says_nothing();
    let report = here.report("");
    assert!(report.only().self_share("work_on") > 0.5, "{run}");
    if has(Need::Perf) {
        let script = here.perf("script --no-inline").ok();
        script.complains_of_losses_only();
        assert_eq!(
            perf_samples(&script).len() as u64,
            report.samples(),
            "samples by perf"
        );
    }
}

#[test]
fn signals_end_the_recording_and_finish_the_file() {
    needs!(PerfEvents);
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15), (Signal::HUP, 1)] {
        let here = Here::new();
        let (rprof, command) = recording(&here, "");
        rprof.signal(signal);
        let run = rprof.end();
        run.exits(128 + number).says("samples of cpu-clock");
        assert!(
            kill_process(command, Signal::CONT).is_err(),
            "the command is left by\n{run}"
        );
        assert_complete(&here);
    }
}

#[test]
fn an_interrupt_finishes_the_file_though_the_command_goes_on() {
    needs!(PerfEvents);
    let here = Here::new();
    let (rprof, command) = recording(&here, "ignore");
    rprof.signal(Signal::INT);
    wait_until("the file is finished", || here.is_finished());
    kill_process(command, Signal::KILL).expect("the command still runs");
    rprof.end().exits(128 + 9).says("samples of cpu-clock");
    assert_complete(&here);
}

#[test]
fn a_second_interrupt_leaves_the_command_at_once() {
    needs!(PerfEvents);
    let here = Here::new();
    let (rprof, command) = recording(&here, "ignore");
    rprof.signal(Signal::INT);
    wait_until("the file is finished", || here.is_finished());
    rprof.signal(Signal::INT);
    rprof.end().exits(128 + 2);
    kill_process(command, Signal::KILL).expect("the command still runs");
    assert_complete(&here);
}

#[test]
fn an_interrupt_ignored_at_the_start_stays_ignored() {
    needs!(PerfEvents);
    let here = Here::new();
    // Like a background command of a shell without job control.
    let ignoring = here.sh("trap '' INT HUP; exec \"$0\" \"$@\"");
    let rprof = ignoring.arg(env!("CARGO_BIN_EXE_rprof"));
    let command = "echo ready; until [ -e go ]; do sleep 0.01; done; exit 3";
    let mut rprof = (rprof.words("record -e cpu-clock -- sh -c").arg(command)).start();
    assert_eq!(rprof.line(), "ready");
    for signal in [Signal::INT, Signal::HUP] {
        rprof.signal(signal);
    }
    std::fs::write(here.path("go"), "").unwrap();
    rprof.end().exits(3).says("in perf.data");
    let ignoring = here.sh("trap '' INT; exec \"$0\" \"$@\"");
    let rprof = ignoring.arg(env!("CARGO_BIN_EXE_rprof"));
    let mut rprof = (rprof.words("record -q -e cpu-clock --").arg(c("endless.c"))).start();
    rprof.line();
    rprof.signal(Signal::TERM);
    rprof.end().exits(128 + 15);
}

#[test]
fn scripts_interrupt_a_recorder_without_command_in_the_background() {
    needs!(PerfEvents);
    for (ignored, signal) in [("INT", Signal::INT), ("TERM", Signal::TERM)] {
        let here = Here::new();
        let mut target = here.sh("exec \"$0\"").arg(c("endless.c")).start();
        target.line();
        // A shell without job control starts `&` with SIGINT ignored.
        let script = format!("trap '' {ignored}; exec \"$0\" \"$@\"");
        let ignoring = here.sh(&script).arg(env!("CARGO_BIN_EXE_rprof"));
        let pid = target.pid().as_raw_nonzero().to_string();
        let rprof = ignoring.words("record -e cpu-clock -p").arg(pid).start();
        wait_until("samples are in the file", || here.samples_so_far() > 100);
        rprof.signal(signal);
        let run = rprof.end();
        target.signal(Signal::KILL);
        target.end();
        run.says("samples of cpu-clock");
        assert_complete(&here);
    }
}

#[test]
fn a_killed_recorder_leaves_what_was_written() {
    needs!(PerfEvents);
    let here = Here::new();
    let (rprof, command) = recording(&here, "");
    wait_until("samples are in the file", || here.samples_so_far() > 100);
    rprof.signal(Signal::KILL);
    rprof.end();
    kill_process(command, Signal::KILL).ok();
    let run = here.rprof("report").ok();
    let report = here.report("");
    assert!(report.samples() > 0, "{run}");
    assert!(report.only().self_share("work_on") > 0.5, "{run}");
    let script = here.rprof("script").ok();
    assert_eq!(perf_samples(&script).len() as u64, report.samples());
    here.rprof("header").ok();
    here.rprof("flamegraph -q -o -").ok();
    if has(Need::Perf) {
        let script = here.perf("script --no-inline").ok();
        assert_eq!(
            perf_samples(&script).len() as u64,
            report.samples(),
            "samples by\n{script}"
        );
    }
}

#[test]
fn signals_to_the_command_are_its_own() {
    needs!(PerfEvents);
    let here = Here::new();
    let (rprof, command) = recording(&here, "");
    kill_process(command, Signal::TERM).expect("the command runs");
    rprof.end().exits(128 + 15);
    assert_complete(&here);
}

#[test]
fn an_interrupt_of_the_terminal_reaches_the_command_once() {
    needs!(PerfEvents, Terminal);
    let here = Here::new();
    // The command counts SIGINTs, and runs until a file exists.
    let command = "trap 'echo INT >>ints' INT; touch ready; \
                   until [ -e go ]; do sleep 0.01; done; exit 3";
    std::fs::write(here.path("command.sh"), command).unwrap();
    // script(1) has a status of its own.
    let inner = format!(
        "trap : INT; {} record -e cpu-clock -- sh command.sh; echo $? >status",
        env!("CARGO_BIN_EXE_rprof")
    );
    let typing = "(until [ -e ready ]; do sleep 0.01; done; printf '\\003'; \
                  until [ -e go ]; do sleep 0.01; done) | script -qfc \"$0\" typescript";
    let shell = here.command("sh").arg("-c").arg(typing).arg(inner).start();
    wait_until("the file is finished", || here.is_finished());
    std::fs::write(here.path("go"), "").unwrap();
    let run = shell.end();
    let read = |name| std::fs::read_to_string(here.path(name)).unwrap_or_default();
    let seen = read("typescript");
    assert_eq!(read("ints"), "INT\n", "{run}{seen}");
    assert_eq!(read("status"), "3\n", "{run}{seen}");
    here.rprof("report").ok();
}

#[test]
fn a_killed_command_gives_its_exit_status() {
    needs!(PerfEvents);
    let here = Here::new();
    let (rprof, command) = recording(&here, "");
    kill_process(command, Signal::KILL).expect("the command runs");
    rprof.end().exits(128 + 9).says("samples of cpu-clock");
    assert_complete(&here);
}

#[test]
fn signals_end_a_recording_without_command() {
    needs!(PerfEvents, Kernel);
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let here = Here::new();
        let mut running = here.command(c("endless.c")).start();
        running.line();
        let rprof = here.rprof("record -F 999 -g -e cpu-clock -a").start();
        wait_until("samples are in the file", || here.samples_so_far() > 1000);
        rprof.signal(signal);
        let run = rprof.end();
        run.exits(0).says("samples of cpu-clock");
        assert!(kill_process(running.pid(), Signal::CONT).is_ok(), "{run}");
        assert!(here.is_finished(), "{run}");
    }
}

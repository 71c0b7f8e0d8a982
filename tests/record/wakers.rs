//! Wakers (`record --off-cpu --wakers`), compared with the program's measurement, and with perf.

use std::io::Read;

use flate2::read::GzDecoder;
use rustix::process::Signal;
use serde_json::Value;

use super::waits::figures;
use crate::support::{Folded, Here, c, check, folded, measured, needs, wait_until};

fn stacks(here: &Here, options: &str) -> Folded {
    let shell = here.rprof("collapse --off-cpu --no-fold-idle -q");
    folded(&shell.words(options).ok())
}

/// Returns nanoseconds of stacks with a function and this end.
fn waited(stacks: &Folded, function: &str, end: &str) -> u64 {
    let is_it = |stack: &str| stack.ends_with(end) && stack.split(';').any(|f| f == function);
    let found = stacks.iter().filter(|(stack, _)| is_it(stack));
    found.map(|(_, ns)| ns).sum()
}

#[test]
fn waits_tell_who_ended_them_and_how_long_a_cpu_was_waited_for_then() {
    needs!(PerfEvents, Root);
    measured(|| {
        let here = Here::new();
        let shell = here.rprof("record --off-cpu --off-cpu-budget 100 --wakers -e cpu-clock -g --");
        let cpu = rustix::thread::sched_getcpu().to_string();
        let run = shell.arg(c("wakes.c")).arg(cpu).words("40").ok();
        let truth = figures(&run);
        let stacks = stacks(&here, "");
        let expected = [
            ("wait_for_alarm", ";[woken by alarm];[futex]", "alarm", 0.05),
            // The scheduler accounts for some waiting without a switch record.
            ("wait_for_alarm", ";[waiting for a CPU]", "queue", 0.2),
            (
                "wait_for_feeder",
                ";[woken by feeder];[pipe]",
                "feeder",
                0.05,
            ),
            (
                "wait_for_nobody",
                ";[woken by a timer or device];[futex]",
                "timer",
                0.05,
            ),
        ];
        for (function, end, name, most) in expected {
            let (found, truth) = (waited(&stacks, function, end), truth[name]);
            let off = (found as f64 / truth as f64 - 1.0).abs();
            check(off < most, || {
                format!("{name}: {found} of {truth} ns\n{run}")
            })?;
        }
        let report = here.report("--off-cpu --no-fold-idle");
        let row = report.only().row("[woken by feeder]");
        assert!(row.total > 0 && row.own == 0, "{row:?}");
        let focused = self::stacks(&here, "--focus [woken*feeder]");
        assert_eq!(focused.values().sum::<u64>(), row.total);
        let cpu = self::stacks(&here, "--reason cpu");
        let all: u64 = stacks
            .iter()
            .filter(|(s, _)| s.ends_with("a CPU]"))
            .map(|(_, ns)| ns)
            .sum();
        assert_eq!(cpu.values().sum::<u64>(), all);
        let made = here
            .rprof("export --format pprof -o waits.pb.gz --off-cpu")
            .ok();
        let imported = here.rprof("report --format json -i waits.pb.gz").ok();
        assert!(imported.out().contains("[woken by feeder]"), "{made}");
        here.rprof("flamegraph --off-cpu").ok();
        let svg = std::fs::read_to_string(here.path("flamegraph.svg")).expect("a picture");
        assert!(svg.contains("[woken by alarm]"));
        here.perf("report --stdio -g none")
            .ok()
            .prints("offcpu-time");
        Ok(())
    });
}

#[test]
fn who_wakes_without_being_watched_has_a_name() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    here.sh("mkfifo pipe").ok();
    let feeder = here
        .sh("exec >pipe; while :; do sleep 0.02; echo; done")
        .start();
    let reader = here.sh("exec cat <pipe >/dev/null").start();
    let pid = reader.pid().as_raw_nonzero().to_string();
    let comm = format!("/proc/{pid}/comm");
    wait_until("it reads", || {
        std::fs::read_to_string(&comm).is_ok_and(|name| name == "cat\n")
    });
    let run = here
        .rprof("record --off-cpu --wakers -d 0.4 -g -p")
        .arg(&pid)
        .ok();
    for program in [reader, feeder] {
        program.signal(Signal::KILL);
        program.end();
    }
    let stacks = stacks(&here, "");
    // The first wait may have no reason, as it began before the events.
    let is_of_feeder = |stack: &&String| stack.contains(";[woken by sh];");
    let woken: Vec<&String> = stacks.keys().filter(|s| s.contains("[woken by")).collect();
    assert!(woken.iter().all(is_of_feeder), "{stacks:#?}\n{run}");
    let has_reason = woken.iter().any(|stack| stack.ends_with(";[pipe]"));
    assert!(has_reason, "{stacks:#?}\n{run}");
    here.rprof("script --show-task-events").ok().prints(" sh ");
    let threads = here.rprof("script -G -F tid").ok().out();
    assert!(!threads.trim().is_empty());
    assert!(
        threads.split_whitespace().all(|tid| tid == pid),
        "{threads}"
    );
}

#[test]
fn whole_cpus_and_windows_tell_wakers_too() {
    needs!(PerfEvents, Root);
    // At load 13, half of the runs had too few switches.
    measured(|| {
        let here = Here::new();
        let shell = here
            .command("nice")
            .words("-n -20")
            .arg(env!("CARGO_BIN_EXE_rprof"))
            .words("record --off-cpu --off-cpu-budget 1 --wakers -g -a --");
        let run = shell.arg(c("pingpong.c")).words("2000 20").ok();
        let is_too_often = run.err().contains("switches came too often to record all");
        check(is_too_often, || run.to_string())?;
        let stacks = stacks(&here, "--comm pingpong");
        let [pipes, told] = ["[pipe]", "[woken by pingpong];[pipe]"].map(|end| {
            let of = |function| waited(&stacks, function, end);
            of("ping") + of("pong")
        });
        // A sampling window starts without a wakeup.
        check(told > 0 && told > pipes / 5, || {
            format!("{told} of {pipes}\n{run}")
        })
    });
}

#[test]
fn a_container_goes_without_wakers_and_says_so() {
    needs!(PerfEvents, Root, Tool("unshare"));
    let here = Here::new();
    let inside = here
        .command("unshare")
        .words("--pid --fork --mount-proc --");
    let inside = inside.arg(env!("CARGO_BIN_EXE_rprof"));
    let run = inside.words("record --off-cpu --wakers -- sleep 0.1").run();
    run.exits(0)
        .says("Record from outside")
        .says("of offcpu-time");
    let stacks = stacks(&here, "");
    assert!(
        stacks.keys().all(|stack| !stack.contains("[woken by")),
        "{stacks:?}"
    );
}

#[test]
fn waits_end_in_time_lines_where_they_were_woken() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    let shell = here.rprof("record --off-cpu --off-cpu-budget 100 --wakers -q -e cpu-clock -g --");
    let cpu = rustix::thread::sched_getcpu().to_string();
    shell.arg(c("wakes.c")).arg(cpu).words("20").ok();
    let export = here.rprof("export -q --format firefox --off-cpu -o -").ok();
    let mut text = String::new();
    GzDecoder::new(export.bytes())
        .read_to_string(&mut text)
        .expect("gzip");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let tables = &json["shared"];
    let names = |stack: &Value| {
        let at = stack.as_u64().expect("a stack") as usize;
        let stacks = &tables["stackTable"];
        let name = |at: usize| {
            let frame = stacks["frame"][at].as_u64().expect("a frame") as usize;
            let function = tables["frameTable"]["func"][frame]
                .as_u64()
                .expect("a function");
            let name = tables["funcTable"]["name"][function as usize].as_u64();
            &tables["stringArray"][name.expect("a name") as usize]
        };
        let caller = stacks["prefix"][at].as_u64().map(|at| name(at as usize));
        (name(at), caller)
    };
    let (mut ends, mut begins) = (Vec::new(), Vec::new());
    for thread in json["threads"].as_array().expect("threads") {
        let samples = &thread["samples"];
        let column = |name: &str| samples[name].as_array().expect("a column");
        let mut at = 0.0;
        let rows = column("stack")
            .iter()
            .zip(column("timeDeltas"))
            .zip(column("weight"));
        for ((stack, later), weight) in rows {
            at += later.as_f64().expect("a time");
            let weight = weight.as_f64().expect("a weight");
            match names(stack) {
                (leaf, _) if leaf == "[waiting for a CPU]" => begins.push(at),
                (_, Some(caller)) if caller == "[woken by alarm]" => ends.push(at + weight),
                _ => {}
            }
        }
    }
    // The woken thread waits about 2 ms for its CPU, unless it migrates.
    let meet = |end: &&f64| begins.iter().any(|begin| (*begin - **end).abs() < 0.001);
    let (met, all) = (ends.iter().filter(meet).count(), ends.len());
    assert!(
        all >= 15 && met >= all / 2,
        "{met} of {all}: {ends:?} {begins:?}"
    );
}

#[test]
fn other_programs_do_not_make_windows_of_a_quiet_one() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    let noise = here.command(c("pingpong.c")).words("4000 0").start();
    let run = here.rprof("record --off-cpu --wakers -g -- sleep 2.5").ok();
    noise.signal(Signal::KILL);
    noise.end();
    assert!(!run.err().contains("windows"), "{run}");
    // Millions of wakeups may exceed the limit.
    if run.err().contains("wakers were not recorded to the end") {
        let waits = stacks(&here, "");
        assert!(
            waits.keys().any(|stack| stack.ends_with("[sleep]")),
            "{waits:?}"
        );
    }
}

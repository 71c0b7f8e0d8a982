//! Who ends waits (`record --off-cpu --wakers`), beside a program that knows, and beside perf.

use std::collections::BTreeMap;

use rustix::process::Signal;

use crate::support::{Folded, Here, Run, c, check, folded, measured, needs, wait_until};

/// Figures that the fixture prints, by name.
fn figures(run: &Run) -> BTreeMap<String, u64> {
    let out = run.out();
    let pair = |line: &str| {
        let (name, number) = line.split_once(' ')?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    out.lines().filter_map(pair).collect()
}

fn stacks(here: &Here, options: &str) -> Folded {
    let shell = here.rprof("collapse --off-cpu --no-fold-idle -q");
    folded(&shell.words(options).ok())
}

/// Nanoseconds of stacks with a function that end so.
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
            ("wait_for_alarm", ";[woken by alarm];[futex]", "alarm"),
            ("wait_for_alarm", ";[waiting for a CPU]", "queue"),
            ("wait_for_feeder", ";[woken by feeder];[pipe]", "feeder"),
            (
                "wait_for_nobody",
                ";[woken by an interrupt];[futex]",
                "timer",
            ),
        ];
        for (function, end, name) in expected {
            let (found, truth) = (waited(&stacks, function, end), truth[name]);
            let off = (found as f64 / truth as f64 - 1.0).abs();
            check(off < 0.05, || {
                format!("{name}: {found} of {truth} ns\n{run}")
            })?;
        }
        // In all views of the same waits.
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
        // Where frames are addresses, and where they are text.
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
    let of_feeder = stacks
        .iter()
        .filter(|(stack, _)| stack.ends_with("[woken by sh];[pipe]"));
    let of_feeder: u64 = of_feeder.map(|(_, ns)| ns).sum();
    let all: u64 = stacks.values().sum();
    // The first and the last wait are cut.
    assert!(
        of_feeder > all / 2,
        "{of_feeder} of {all}\n{stacks:#?}\n{run}"
    );
    // Nothing else of it is there.
    let threads = here.rprof("script -G -F tid").ok().out();
    assert!(
        threads.split_whitespace().all(|tid| tid == pid),
        "{threads}"
    );
}

#[test]
fn whole_cpus_and_windows_tell_wakers_too() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    let shell = here.rprof("record --off-cpu --off-cpu-budget 1 --wakers -g -a --");
    let run = shell.arg(c("pingpong.c")).words("1000 20").ok();
    run.says("windows, which stand");
    let stacks = stacks(&here, "--comm pingpong");
    let [pipes, told] = ["[pipe]", "[woken by pingpong];[pipe]"].map(|end| {
        let found = stacks.iter().filter(|(stack, _)| stack.ends_with(end));
        found.map(|(_, ns)| ns).sum::<u64>()
    });
    assert!(told > 0 && told > pipes / 2, "{told} of {pipes}\n{run}");
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

//! CPUs that go offline and come online while they are recorded or counted.
//!
//! Taking a CPU offline would disturb every other test. So the commands see a list of their own:
//! `lab/run` checks real kernels.

use std::path::Path;

use crate::support::{Here, Need, Shell, c, folded, has, needs, skip};

/// Starts a command that sees the CPUs in the file `online`.
fn with_list(here: &Here, cpus: &str) -> Shell {
    std::fs::write(here.path("online"), cpus).unwrap();
    // Each reading of the list changes its access time.
    let script = "list=/sys/devices/system/cpu/online; mount --bind \"$0\" $list && \
                  mount -o remount,bind,strictatime $list && exec \"$@\"";
    let shell = here.command("unshare").words("-m sh -c").arg(script);
    shell.arg(here.path("online"))
}

fn rprof(shell: Shell, args: &str) -> Shell {
    shell.arg(env!("CARGO_BIN_EXE_rprof")).words(args)
}

/// Works on CPU 1 before, while and after it is gone. `-a` records other tests too, so each has
/// names of its own.
struct Stages {
    names: [String; 3],
    script: String,
}

impl Stages {
    fn new(here: &Here, test: &str) -> Stages {
        let names = ["before", "between", "after"].map(|stage| format!("{test}-{stage}"));
        for name in &names {
            here.copy(&c("shares.c"), name);
        }
        let [before, between, after] = &names;
        let script = format!(
            "set_list() {{ echo $1 >online; touch -a -d @0 online; \
             until [ $(stat -c %X online) -gt 0 ]; do sleep 0.01; done; }}; \
             taskset -c 1 ./{before} 0.5; set_list 0; \
             taskset -c 1 ./{between} 0.5; set_list 0-1; \
             taskset -c 1 ./{after} 0.5"
        );
        Stages { names, script }
    }
}

fn has_two_cpus() -> bool {
    let has_two = Path::new("/sys/devices/system/cpu/cpu1").exists();
    if !has_two {
        skip("needs a second CPU");
    }
    has_two
}

#[test]
fn a_cpu_that_comes_back_is_recorded_again_and_its_absence_reported() {
    needs!(PerfEvents, Root, Kernel, Tool("taskset"));
    if !has_two_cpus() {
        return;
    }
    let all = [
        "-a -g -e cpu-clock",
        "-a -g -e cpu-clock --off-cpu --wakers",
        // No event that others count too: Linux 6 may give a page fault the id of another recorder.
        "-C 1 --call-graph fp -e cpu-clock,task-clock",
    ];
    for options in all {
        let here = Here::new();
        let stages = Stages::new(&here, "record");
        let shell = rprof(with_list(&here, "0-1\n"), "record -F 499");
        let shell = shell.words(options).words("-- sh -c");
        let run = shell.arg(&stages.script).ok();
        run.says("CPU 1 was offline from");
        assert!(!run.err().contains("is not in the recording"), "{run}");
        assert!(!run.err().contains("out of order"), "{run}");
        let stacks = folded(&here.rprof("collapse --event cpu-clock -q").ok());
        let of = |comm: &str| -> u64 {
            let of_comm = |(stack, _): &(&String, &u64)| stack.split(';').next() == Some(comm);
            stacks
                .iter()
                .filter(of_comm)
                .map(|(_, weight)| weight)
                .sum()
        };
        let [before, between, after] = stages.names.each_ref().map(|name| of(name));
        assert!(
            before > 2 * between && after > 2 * between && after > before / 2,
            "{options}: {before} {between} {after}\n{run}"
        );
        here.rprof("header").ok().prints("CPU 1 was offline from");
        // New events have the ids of the old ones.
        if has(Need::Perf) {
            let perf = here.perf("script -F comm,event").ok();
            assert!(perf.out().contains(&stages.names[2]), "{options}");
        }
    }
}

#[test]
fn a_cpu_that_comes_back_is_counted_again() {
    needs!(PerfEvents, Root, Kernel, Tool("taskset"));
    if !has_two_cpus() {
        return;
    }
    let here = Here::new();
    let stages = Stages::new(&here, "stat");
    let shell = rprof(with_list(&here, "0-1\n"), "stat -a --per cpu --format json");
    let run = shell
        .words("-e {cpu-clock,page-faults} -- sh -c")
        .arg(&stages.script)
        .ok();
    run.says("CPU 1 was offline from");
    let document: serde_json::Value = serde_json::from_str(&run.out()).unwrap();
    let counts = document["commands"][0]["runs"][0]["counts"]
        .as_array()
        .unwrap();
    let ns = |cpu: &str| {
        let is_it = |count: &&serde_json::Value| {
            count["part"] == cpu && count["event"].as_str().unwrap().starts_with("cpu-clock")
        };
        counts
            .iter()
            .find(is_it)
            .and_then(|count| count["value"].as_u64())
            .unwrap()
    };
    // CPU 1 was away for at least 0.5 s, between at least as long on both sides.
    let (whole, part) = (ns("CPU 0"), ns("CPU 1"));
    assert!(
        part > 900_000_000 && part + 400_000_000 < whole,
        "{part} of {whole} {run}"
    );
}

#[test]
fn a_command_on_a_cpu_that_came_later_has_its_cpu_time_and_the_cause() {
    needs!(PerfEvents, Root, Tool("taskset"));
    if !has_two_cpus() {
        return;
    }
    let here = Here::new();
    here.copy(&c("shares.c"), "late");
    let shell = rprof(
        with_list(&here, "0\n"),
        "record -F 499 -e cpu-clock -- sh -c",
    );
    let run = shell.arg("echo 0-1 >online; taskset -c 1 ./late 1").ok();
    run.says("CPU 1 came online while recording");
    run.says("CPUs that came online while recording are not recorded");
    assert!(!run.err().contains("interrupts came late"), "{run}");
    let notes = here.rprof("header --format json").ok();
    let notes: serde_json::Value = serde_json::from_slice(notes.bytes()).unwrap();
    let used = (notes["quality"].as_array().unwrap().iter())
        .find(|pair| pair[0] == "cpu.used.ns")
        .and_then(|pair| pair[1].as_str()?.parse::<u64>().ok());
    assert!(
        used.is_some_and(|used| used > 900_000_000),
        "{used:?} {run}"
    );
}

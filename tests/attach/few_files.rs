//! Attaching to more threads than the limit of descriptors allows.

use std::collections::BTreeMap;

use crate::support::{Here, Running, c, needs};

fn number(running: &Running) -> i32 {
    running.pid().as_raw_nonzero().get()
}

#[test]
fn many_threads_are_recorded_by_events_of_whole_cpus() {
    needs!(PerfEvents, Root, Kernel);
    let here = Here::new();
    let endless = || {
        let mut running = here.command(c("endless.c")).start();
        running.line();
        running
    };
    let (target, other) = (endless(), endless());
    let idle: Vec<Running> = (0..40)
        .map(|_| here.command("sleep").arg("100").start())
        .collect();
    here.copy(&c("shares.c"), "child");
    let mut parent = here
        .sh("echo; while [ ! -e go ]; do sleep 0.1; done; ./child 1")
        .start();
    parent.line();
    let mut pids: Vec<String> = idle
        .iter()
        .map(|sleeper| number(sleeper).to_string())
        .collect();
    pids.extend([&target, &parent].map(|one| number(one).to_string()));
    // Each of 42 threads takes two descriptors on each CPU, of at least one.
    let script = "ulimit -n 100; exec \"$@\"";
    let rprof = here.command("sh").arg("-c").arg(script).arg("sh");
    let rprof = rprof
        .arg(env!("CARGO_BIN_EXE_rprof"))
        .words("record -F 499 -g -p");
    // The command makes the parent go on, and bounds the time.
    let command = "touch go; sleep 4";
    let run = rprof
        .arg(pids.join(","))
        .words("-- sh -c")
        .arg(command)
        .ok();
    run.says("whole CPUs are sampled, and other processes left out: 42 threads");
    run.says("the limit is 100");
    let mut counts = BTreeMap::<(i32, String), u64>::new();
    for line in here.rprof("script -G -F comm,pid").ok().out().lines() {
        let Some((comm, pid)) = line.trim().rsplit_once(' ') else {
            continue;
        };
        let key = (pid.trim().parse().unwrap(), comm.trim().to_owned());
        *counts.entry(key).or_default() += 1;
    }
    let of = |wanted: &dyn Fn(&(i32, String)) -> bool| -> u64 {
        let found = counts.iter().filter(|(key, _)| wanted(key));
        found.map(|(_, count)| count).sum()
    };
    let all = of(&|_| true);
    let (own, child) = (
        of(&|key| key.0 == number(&target)),
        of(&|key| key.1 == "child"),
    );
    assert!(own > 100 && child > 100, "{counts:?} {run}");
    assert_eq!(of(&|key| key.0 == number(&other)), 0, "{counts:?} {run}");
    assert!(own + child > all * 9 / 10, "{counts:?} {run}");
    let quality = here.report("").quality;
    assert!(
        quality["frames"]["unnamed_by_reason"]["unmapped"].is_null(),
        "{quality:#}"
    );
}

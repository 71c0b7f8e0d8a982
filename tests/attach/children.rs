//! Children of an attached process, started before the attach.

use std::collections::BTreeSet;

use crate::support::{Here, c, needs};

#[test]
fn children_that_run_already_are_named_and_recorded_on_request() {
    needs!(PerfEvents);
    let here = Here::new();
    // A waiting master with a worker, like a server.
    let mut master = (here.command("sh").arg("-c"))
        .arg("\"$0\" >/dev/null & echo $!; trap 'kill $!; exit' TERM; wait")
        .arg(c("endless.c"))
        .start();
    let worker = master.line().trim().to_owned();
    let pid = master.pid().as_raw_nonzero().to_string();
    let run = here.rprof("record -e cpu-clock -d 0.2 -p").arg(&pid).ok();
    run.says(&format!("{worker} ("))
        .says("--with-children")
        .says("slept");
    let run = here
        .rprof("record -e cpu-clock -d 0.3 --with-children -p")
        .arg(&pid)
        .ok();
    let pids = here.rprof("script -G -F pid").ok().out();
    let pids: BTreeSet<&str> = pids.split_whitespace().collect();
    here.sh(&format!("kill {worker}")).run();
    assert_eq!(pids, BTreeSet::from([worker.as_str()]), "{run}");
}

//! A file system that never responds (`fixtures/fuse.py`).

use std::path::Path;

use rustix::process::Signal;

use crate::support::{Here, c, check_share, inapplicable, needs, wait_until};

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/fuse.py");

/// Waits for the first thread. Others may hang.
fn wait_for_first_thread(pid: i32) {
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    };
    wait_until(
        "rprof has ended, and does not wait for the file system",
        || state().is_none_or(|state| state == 'Z'),
    );
}

/// Threads wait for the server's response, which alone can end them, and with it the recorder. If
/// the server hung, both would remain.
#[test]
#[ignore = "mounts a file system, in a namespace of its own, that never answers: see .ci/slow"]
fn a_file_system_that_never_answers_costs_nobody_else_anything() {
    needs!(PerfEvents, Root, Tool("python3"));
    if !Path::new("/dev/fuse").exists() {
        inapplicable("there is no /dev/fuse");
        return;
    }
    let here = Here::new();
    let folder = here.path("mounted");
    std::fs::create_dir(&folder).unwrap();
    let server = here.command("python3").arg(SERVER).arg(&folder);
    let mut server = server.arg(c("mallory.c")).start();
    let silent = server.line();
    let other = here.command(c("shares.c")).arg("600").start();
    let pids = format!("{silent},{}", other.pid().as_raw_nonzero());
    let rprof = here.rprof("record -F 499 -g -d 2 -p").arg(pids).start();
    wait_for_first_thread(rprof.pid().as_raw_nonzero().get());
    server.signal(Signal::KILL);
    let run = rprof.end();
    run.exits(0);
    run.says("limit: ");
    let report = here.report("--comm shares");
    let event = report.only();
    let shares = [
        ("burn_seventy", 0.7),
        ("burn_twenty", 0.2),
        ("burn_ten", 0.1),
    ];
    let known: f64 = shares.iter().map(|(name, _)| event.self_share(name)).sum();
    for (name, share) in shares {
        let found = event.self_share(name);
        let is_right = check_share(name, found, share, event.samples, 1.0 - known);
        is_right.unwrap_or_else(|wrong| panic!("{wrong}\n{run}"));
    }
}

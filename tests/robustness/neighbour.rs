//! A process beside the recorded one that does everything bad for a system-wide recorder
//! (`fixtures/neighbour.c`).

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::support::{Here, Report, c, check, check_share, measured, needs};

/// Maximum KiB without ring buffers.
const MAX_MEMORY: u64 = 128 << 10;

fn status(pid: Pid, key: &str) -> u64 {
    let path = format!("/proc/{}/status", pid.as_raw_nonzero());
    let status = std::fs::read_to_string(path).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok())
        .unwrap_or(0)
}

fn check_victim(report: &Report) -> Result<(), String> {
    let event = report.only();
    let own = |name| event.self_share(name);
    let shares = [
        ("burn_seventy", 0.7),
        ("burn_twenty", 0.2),
        ("burn_ten", 0.1),
    ];
    let other = 1.0 - shares.iter().map(|(name, _)| own(name)).sum::<f64>();
    for (name, share) in shares {
        check_share(name, own(name), share, event.samples, other)?;
    }
    let outside = 1.0 - event.total_share("main");
    check_share(
        "do_round",
        event.total_share("do_round"),
        0.999,
        event.samples,
        outside,
    )
}

#[allow(
    clippy::print_stdout,
    reason = "what a test prints is kept by the harness"
)]
fn tell(text: &str) {
    println!("{text}");
}

/// The ring buffer alone holds more than the limit, so the reader's speed does not matter.
#[test]
fn who_floods_loses_their_own_records_and_is_told() {
    needs!(Root, Kernel);
    let here = Here::new();
    here.rprof("record -a -g -F 99 --")
        .arg(c("flood.c"))
        .arg("2000000")
        .ok()
        .says("mapping or name records of processes that flood them");
}

/// RPROF_NEIGHBOUR sets the seconds (default 5).
#[test]
#[ignore = "wants an optimized recorder, and the machine for itself: see .ci/slow"]
fn a_hostile_neighbour_costs_others_nothing() {
    needs!(Root, Kernel);
    let seconds = std::env::var("RPROF_NEIGHBOUR").ok();
    let seconds: f64 = seconds.and_then(|n| n.parse().ok()).unwrap_or(5.0);
    measured(|| {
        let here = Here::new();
        let folder = here.path("neighbour");
        std::fs::create_dir(&folder).unwrap();
        let rprof = here.rprof("record -a -g -F 499").start();
        let neighbour = here.command(c("neighbour.c"));
        let neighbour = neighbour.arg(seconds.to_string()).arg(&folder).start();
        let victim = here
            .command(c("shares.c"))
            .arg((seconds / 20.0).to_string());
        victim.ok();
        neighbour.end().exits(0);
        let (rings, rss, peak) = (
            status(rprof.pid(), "RssShmem:"),
            status(rprof.pid(), "RssAnon:"),
            status(rprof.pid(), "VmHWM:"),
        );
        rprof.signal(Signal::INT);
        let began = Instant::now();
        let run = rprof.end();
        let ending = began.elapsed();
        tell(&format!(
            "{seconds} s: peak memory {peak} KiB, {rss} in the end, rings {rings}, ended in {ending:?}; {}",
            run.err()
        ));
        assert!(
            peak - rings < MAX_MEMORY,
            "{peak} KiB, rings {rings}\n{run}"
        );
        assert!(ending < Duration::from_secs(20), "{ending:?}\n{run}");
        run.says("limit: ");
        check(run.err().contains("lost 0 samples"), || run.to_string())?;
        check_victim(&here.report("--comm shares"))
    });
}

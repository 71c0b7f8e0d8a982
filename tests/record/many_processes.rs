//! Storms of processes and threads, and a recorder killed in the middle.

use std::collections::HashMap;

use rprof_perfdata::PerfData;
use rprof_records::{Endian, Record, SampleLayout};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{
    Here, Need, Running, c, check, has, measured, needs, perf_samples, wait_until,
};

fn peak_memory(pid: Pid) -> u64 {
    let path = format!("/proc/{}/status", pid.as_raw_nonzero());
    let status = std::fs::read_to_string(path).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok())
        .unwrap_or(0)
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Drops {
    born: u64,
    named: u64,
    ended: u64,
}

fn drops(here: &Here, parent: i32) -> Drops {
    let data = PerfData::open(&here.path("perf.data")).expect("perf.data");
    let event = &data.events().list()[0];
    let layout = SampleLayout::new(&event.attr, Endian::NATIVE);
    let mut drops = Drops::default();
    let mut alive: HashMap<i32, i32> = HashMap::new();
    for block in data.blocks() {
        for record in block.expect("whole records").walk() {
            let Ok(record) = Record::decode(&record.record, Some(&layout)) else {
                continue;
            };
            match record {
                Record::Fork(task) if task.ppid == parent && task.tid != parent => {
                    drops.born += 1;
                    alive.insert(task.tid, task.pid);
                }
                Record::Comm(comm) if alive.contains_key(&comm.tid) && *comm.name == *b"drop" => {
                    drops.named += 1;
                }
                Record::Exit(task) if alive.remove(&task.tid).is_some() => drops.ended += 1,
                _ => {}
            }
        }
    }
    drops
}

/// Returns the counts in the file, and peak memory in KiB.
fn storm(kind: &str, count: u64) -> (Drops, u64) {
    let here = Here::new();
    let mut rprof = (here.rprof("record -F 999 -g -e cpu-clock --"))
        .arg(c("storm.c"))
        .arg(kind)
        .arg(count.to_string())
        .start();
    let parent: i32 = rprof.line().parse().expect("the number of a process");
    let peak = peak_memory(rprof.pid());
    kill_process(Pid::from_raw(parent).unwrap(), Signal::TERM).unwrap();
    let run = rprof.end();
    // Samples may be lost on a busy machine; sideband records may not.
    run.exits(128 + 15).says("lost ");
    assert!(!run.err().contains("records of names"), "{run}");
    here.rprof("report").ok();
    (drops(&here, parent), peak)
}

#[allow(
    clippy::print_stdout,
    reason = "what a test prints is kept by the harness"
)]
fn tell(text: &str) {
    println!("{text}");
}

#[test]
fn thousands_of_processes_are_recorded_whole() {
    needs!(PerfEvents);
    let count = 20_000;
    let (seen, peak) = storm("fork", count);
    tell(&format!(
        "{count} processes: {seen:?}, peak memory {peak} KiB"
    ));
    let all = Drops {
        born: count,
        named: count,
        ended: count,
    };
    assert_eq!(seen, all);
    // A tenth of the tasks needs about as much memory. On a busy machine, more data may wait in
    // queues.
    let mut peak = Some(peak);
    measured(|| {
        let peak = peak.take().unwrap_or_else(|| storm("fork", count).1);
        let (_, of_fewer) = storm("fork", count / 10);
        tell(&format!(
            "{} processes: peak memory {of_fewer} KiB",
            count / 10
        ));
        check(peak < of_fewer + (16 << 10), || {
            format!("{peak} KiB, and {of_fewer} for a tenth")
        })
    });
}

#[test]
fn thousands_of_threads_are_recorded_whole() {
    needs!(PerfEvents);
    let count = 20_000;
    let (seen, peak) = storm("thread", count);
    tell(&format!(
        "{count} threads: {seen:?}, peak memory {peak} KiB"
    ));
    let all = Drops {
        born: count,
        named: count,
        ended: count,
    };
    assert_eq!(seen, all);
}

fn random(bound: usize) -> usize {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() as usize % bound
}

fn kill_at(here: &Here, mut rprof: Running, samples: usize) {
    let command: i32 = rprof.line().parse().expect("the number of a process");
    wait_until("the file is long enough", || {
        here.samples_so_far() >= samples
    });
    std::thread::sleep(std::time::Duration::from_micros(random(100_000) as u64));
    rprof.signal(Signal::KILL);
    rprof.end();
    end(command);
}

fn end(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        kill_process(pid, Signal::KILL).ok();
    }
}

/// RPROF_KILLS sets the number of kills (default 10).
#[test]
fn a_recorder_killed_at_any_moment_leaves_what_was_written() {
    needs!(PerfEvents);
    let kills = std::env::var("RPROF_KILLS")
        .ok()
        .and_then(|n| n.parse().ok());
    let mut figures = Vec::new();
    for round in 0..kills.unwrap_or(10) {
        let here = Here::new();
        let options = match round % 3 {
            2 => "record -F 4999 -g -e cpu-clock -z --",
            _ => "record -F 4999 -g -e cpu-clock --",
        };
        let rprof = here.rprof(options).arg(c("endless.c")).start();
        // Many of the first samples are of the program's start.
        kill_at(&here, rprof, 200 + random(800));
        let run = here.rprof("report").ok();
        let report = here.report("");
        assert!(report.samples() > 0, "{run}");
        assert!(report.only().self_share("work_on") > 0.5, "{run}");
        let said = run.out();
        assert!(said.contains("did not finish this file"), "{run}");
        assert!(said.contains("reach their root"), "{run}");
        let stacks = |key: &str| report.quality["stacks"][key].as_f64().expect("a count");
        assert!(stacks("complete") > 0.95 * stacks("total"), "{run}");
        let script = here.rprof("script").ok();
        assert_eq!(perf_samples(&script).len() as u64, report.samples());
        let mut figure = format!("{} samples", report.samples());
        if has(Need::Perf) {
            let perf = here.perf("script --no-inline").ok();
            let samples = perf_samples(&perf).len() as u64;
            assert_eq!(samples, report.samples(), "samples by\n{perf}");
            figure += ", and by perf";
        }
        figures.push(figure);
    }
    tell(&format!("{} kills: {}", figures.len(), figures.join("; ")));
}

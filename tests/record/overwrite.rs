//! `record --overwrite`: keeps the latest samples.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use rprof_perfdata::PerfData;
use rprof_records::{RecordType, Sample};

use crate::support::{
    Here, Need, Running, c, c_with, has, needs, perf_samples, wait_for_work, wait_until,
};

fn times(here: &Here, file: &str) -> Vec<u64> {
    let data = PerfData::open(&here.path(file)).unwrap();
    let mut times = Vec::new();
    for block in data.blocks() {
        for walked in block.unwrap().walk() {
            let record = &walked.record;
            if record.kind == RecordType::SAMPLE {
                let layout = data.events().layout_of(record).unwrap();
                times.push(Sample::parse(record.body, layout).unwrap().time().unwrap());
            }
        }
    }
    times
}

#[test]
fn only_the_last_samples_are_kept_and_they_are_in_order() {
    needs!(PerfEvents, Tool("taskset"));
    let here = Here::new();
    // One ring buffer holds about 600 samples, or 60 ms of CPU time. The program is in `late` for
    // the last second.
    let record = here.rprof("record --overwrite -m 32K --call-graph none -e cpu-clock:u -c 100000");
    let run = record
        .words("-- taskset -c 0")
        .arg(c_with("watched.c", &["-no-pie", "-pthread"]))
        .words("phases 1000")
        .ok();
    let times = times(&here, "perf.data");
    assert!(times.is_sorted(), "{times:?}");
    // taskset itself may have started on another CPU.
    let most = (32 << 10) / 48 + 50;
    assert!(
        (10..=most).contains(&times.len()),
        "{} samples\n{run}",
        times.len()
    );
    let report = here.report("");
    let rows = &report.only().rows;
    let of = |name| {
        let of_name = rows.iter().filter(|row| row.symbol == name);
        of_name.map(|row| row.self_samples).sum::<u64>()
    };
    assert_eq!(of("early"), 0, "{rows:?}");
    assert!(of("late") * 10 > times.len() as u64 * 9, "{rows:?}");
    if has(Need::Perf) {
        let perf = here.perf("script --no-inline -i perf.data").ok();
        assert_eq!(perf_samples(&perf).len(), times.len());
    }
}

#[test]
fn stacks_of_the_last_samples_reach_main() {
    needs!(PerfEvents, X86_64);
    let here = Here::new();
    let record = here.rprof("record -q --overwrite -F 999 -e cpu-clock:u --");
    let record = record.arg(c_with("watched.c", &["-no-pie", "-pthread"]));
    record.words("spin 200").ok();
    let folded = here.rprof("collapse").ok().out();
    assert!(folded.contains(";main;spin_here"), "{folded}");
}

fn ended(here: &Here) -> Vec<String> {
    let entries = std::fs::read_dir(here.path(".")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names
        .filter(|name| name.starts_with("perf.data."))
        .collect();
    names.sort();
    names
}

fn snapshot(here: &Here, rprof: &Running, command: i32, files: usize) {
    // About 100 samples.
    wait_for_work(command, Duration::from_millis(100));
    rprof.signal(Signal::USR2);
    wait_until("the file of the last samples is there", || {
        ended(here).len() == files && here.path("perf.data").exists()
    });
}

#[test]
fn a_signal_writes_what_led_to_it() {
    needs!(PerfEvents);
    let here = Here::new();
    let record =
        here.rprof("record --overwrite --switch-output --call-graph none -F 999 -e cpu-clock --");
    let mut rprof = record.arg(c("endless.c")).start();
    let command: i32 = rprof.line().parse().expect("the number of a process");
    snapshot(&here, &rprof, command, 1);
    snapshot(&here, &rprof, command, 2);
    kill_process(Pid::from_raw(command).unwrap(), Signal::TERM).unwrap();
    let run = rprof.end();
    run.exits(128 + 15);
    let files = ended(&here);
    assert_eq!(files.len(), 3, "{run}");
    let mut last = 0;
    for file in &files[..2] {
        let times = times(&here, file);
        assert!(
            !times.is_empty(),
            "{file}: nothing led to the signal\n{run}"
        );
        assert!(
            times.is_sorted() && times[0] > last,
            "{file}: samples are written once"
        );
        last = times[times.len() - 1];
        let report = here.rprof("report -i").arg(file).ok();
        report.prints("work_on");
    }
}

#[test]
fn a_size_or_a_time_is_no_reason_for_a_file_of_the_last_samples() {
    let here = Here::new();
    for at in ["1M", "10s"] {
        let record = here
            .rprof("record --overwrite")
            .arg(format!("--switch-output={at}"));
        let run = record.words("-- true").run();
        run.exits(2).says("--switch-output=signal");
    }
}

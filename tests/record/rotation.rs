//! `record --switch-output`: several files, each complete.

use std::collections::BTreeSet;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{
    Here, Need, Report, c, check, has, measured, needs, perf_samples, wait_until,
};

/// Returns the files, oldest first. None is named perf.data any more.
fn files(here: &Here) -> Vec<String> {
    let entries = std::fs::read_dir(here.path(".")).expect("the folder");
    let names = entries.map(|e| e.expect("an entry").file_name().into_string().unwrap());
    let names: BTreeSet<String> = names
        .filter(|name| name.starts_with("perf.data."))
        .collect();
    for name in &names {
        let stamp = &name["perf.data.".len()..];
        let is_stamp = stamp.len() == 16 && stamp.bytes().all(|b| b.is_ascii_digit());
        assert!(is_stamp, "{name} is not named as perf would");
    }
    names.into_iter().collect()
}

fn report(here: &Here, file: &str) -> Report {
    let run = here
        .rprof("report --format json --sort comm,symbol -i")
        .arg(file)
        .ok();
    run.says_nothing();
    Report::parse(&run)
}

fn share_of_work(report: &Report) -> f64 {
    let rows = &report.only().rows;
    let of_work = |row: &&crate::support::Row| row.symbol == "work_on" && row.comm == "endless";
    let work: u64 = rows
        .iter()
        .filter(of_work)
        .map(|row| row.self_samples)
        .sum();
    work as f64 / report.samples().max(1) as f64
}

fn assert_perf_agrees(here: &Here, file: &str, samples: u64) {
    if has(Need::Perf) {
        let script = here.perf("script --no-inline -i").arg(file).ok();
        assert_eq!(
            perf_samples(&script).len() as u64,
            samples,
            "samples by\n{script}"
        );
        let named = perf_samples(&script);
        let named = named
            .iter()
            .filter(|s| s.frames.first().is_some_and(|f| f.name == "work_on"));
        assert!(named.count() > 0, "perf names nothing in\n{script}");
    }
}

#[test]
fn rotation_by_signal_leaves_complete_files() {
    needs!(PerfEvents);
    let here = Here::new();
    let mut rprof = (here.rprof("record -F 999 -g -e cpu-clock --switch-output --"))
        .arg(c("endless.c"))
        .start();
    let command: i32 = rprof.line().parse().expect("the number of a process");
    for n in 1..=2 {
        rprof.signal(Signal::USR2);
        wait_until("there is another file", || {
            files(&here).len() == n && here.path("perf.data").exists()
        });
        wait_until("samples are in it", || here.samples_so_far() > 50);
    }
    kill_process(Pid::from_raw(command).unwrap(), Signal::TERM).unwrap();
    let run = rprof.end();
    run.exits(128 + 15)
        .says("3 files are kept, the last is perf.data.");
    assert!(!here.path("perf.data").exists(), "{run}");
    let files = files(&here);
    assert_eq!(files.len(), 3, "{run}");
    let mut last = 0;
    for file in &files {
        let report = report(&here, file);
        assert!(
            share_of_work(&report) > 0.5,
            "{file}: {:?}",
            report.only().rows
        );
        assert_perf_agrees(&here, file, report.samples());
        let header = here.rprof("header --format json -i").arg(file).ok();
        let header: serde_json::Value = serde_json::from_slice(header.bytes()).unwrap();
        let (first, end) = (&header["first_sample_ns"], &header["last_sample_ns"]);
        assert!(
            first.as_u64().unwrap() > last,
            "{file} begins before the last one ends"
        );
        last = end.as_u64().unwrap();
        assert!(
            header["images"].as_array().unwrap().len() > 2,
            "{file}: {header}"
        );
    }
}

#[test]
fn rotation_by_size_loses_no_sample() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here
        .rprof("record -c 1000000 -g -e cpu-clock --switch-output=20K --")
        .arg(c("shares.c"))
        .arg("0.8")
        .ok();
    let files = files(&here);
    assert!(files.len() > 2, "{files:?} by\n{run}");
    run.says(&format!("{} files are kept", files.len()))
        .says("lost ");
    let samples: u64 = files.iter().map(|file| report(&here, file).samples()).sum();
    run.says(&format!("{samples} samples of cpu-clock"));
    for file in &files[..files.len() - 1] {
        let header = here.rprof("header --format json -i").arg(file).ok();
        let header: serde_json::Value = serde_json::from_slice(header.bytes()).unwrap();
        let bytes = header["data_bytes"].as_u64().unwrap();
        assert!(
            (20 << 10..24 << 10).contains(&bytes),
            "{bytes} bytes in {file}"
        );
    }
}

#[test]
fn rotation_by_time_keeps_the_last_files() {
    needs!(PerfEvents);
    // A file may be empty if the machine was busy.
    measured(keep_the_last_ones);
}

fn keep_the_last_ones() -> Result<(), String> {
    let here = Here::new();
    std::fs::write(here.path("perf.data"), "precious").unwrap();
    let run = here
        .rprof("record -F 999 -g -e cpu-clock:u --switch-output=100ms --switch-max-files 2 --")
        .arg(c("shares.c"))
        .arg("0.8")
        .ok();
    run.says("2 files are kept");
    assert_eq!(
        std::fs::read(here.path("perf.data.old")).unwrap(),
        b"precious"
    );
    std::fs::remove_file(here.path("perf.data.old")).unwrap();
    let files = files(&here);
    assert_eq!(files.len(), 2, "{run}");
    // The process is older than these files, but known.
    let whole = report(&here, &files[0]);
    check(whole.samples() > 3, || {
        format!("{} samples in {}", whole.samples(), files[0])
    })?;
    let named = whole
        .only()
        .rows
        .iter()
        .filter(|r| r.symbol.starts_with("burn_"));
    let named: u64 = named.map(|r| r.self_samples).sum();
    assert!(named * 2 > whole.samples(), "{:?}", whole.only().rows);
    Ok(())
}

#[test]
fn rotation_of_compressed_files_leaves_complete_files() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here
        .rprof("record -F 4999 -g -e cpu-clock -z --switch-output=200ms --")
        .arg(c("shares.c"))
        .arg("0.8")
        .ok();
    let files = files(&here);
    assert!(files.len() > 2, "{run}");
    let samples: u64 = files.iter().map(|file| report(&here, file).samples()).sum();
    let said = run.err();
    let said: String = said.chars().filter(|c| *c != ',').collect();
    assert!(
        said.contains(&format!("{samples} samples of cpu-clock")),
        "{samples}: {run}"
    );
}

#[test]
fn sigusr2_without_switch_output_is_not_handled() {
    needs!(PerfEvents);
    let here = Here::new();
    here.rprof("record --switch-output=100M -o - -- true")
        .exits(2)
        .says("several files");
    here.rprof("record --switch-output=soon -- true")
        .exits(2)
        .says("30s");
    here.rprof("record --switch-max-files 2 -- true")
        .exits(2)
        .says("--switch-output");
    assert!(files(&here).is_empty());
}

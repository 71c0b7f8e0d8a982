//! Tests with this machine's processes, and with a synthetic /proc.

use super::*;
use rprof_records::{Attr, RawBytes, RawRecord, SampleType};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};

fn layout() -> SampleLayout {
    let attr = Attr {
        sample_type: SampleType::IDENTIFIER | SampleType::TID | SampleType::TIME,
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..Attr::default()
    };
    SampleLayout::new(&attr, Endian::NATIVE)
}

fn reading(proc: Procfs) -> Reading {
    Reading::new(proc, layout())
}

fn these(pids: &[u32], inherit: bool) -> Scope {
    Scope::These {
        pids: pids.to_vec(),
        since: Duration::ZERO,
        inherit,
    }
}

fn decoded<'a>(existing: &'a Existing, layout: &'a SampleLayout) -> Vec<(Record<'a>, Misc, u64)> {
    let mut records = Vec::new();
    let mut at = 0;
    while at < existing.records.len() {
        let raw = RawRecord::parse(RawBytes::from(&existing.records[at..]), Endian::NATIVE);
        let raw = raw.unwrap();
        let time = layout.trailer_time(&raw).unwrap();
        at += raw.size();
        let record = Record::decode(&raw, Some(layout)).unwrap();
        records.push((record, raw.misc, time));
    }
    records
}

#[test]
fn a_process_is_told_with_its_threads_and_mappings() {
    let me = std::process::id();
    let before = Clock::MONOTONIC.now_ns();
    // Threads of this process are other tests, which may end meanwhile.
    let mut readings = (0..1000).map(|_| reading(Procfs::default()).run(&these(&[me], false)));
    let existing = readings.find(|existing| existing.vanished == 0);
    let existing = existing.expect("once nothing has vanished");
    assert_eq!(existing.processes, 1);
    assert!(existing.refused.is_empty());
    let layout = layout();
    let records = decoded(&existing, &layout);
    assert_eq!(
        records.len(),
        2 * existing.threads + existing.mappings,
        "{existing:?}"
    );
    let Some((Record::Fork(first), misc, _)) = records.first() else {
        panic!("the process comes first");
    };
    assert_eq!((first.pid, first.tid), (me as i32, me as i32));
    assert!(misc.has(Misc::FORK_EXEC));
    assert!(matches!(&records[1].0, Record::Comm(comm) if comm.tid == me as i32));
    let here = these as fn(&[u32], bool) -> Scope as usize as u64;
    let covers = |record: &Record<'_>| matches!(record, Record::Mmap2(m) if (m.start..m.start + m.len).contains(&here));
    assert_eq!(records.iter().filter(|(r, ..)| covers(r)).count(), 1);
    let now = Clock::MONOTONIC.now_ns();
    assert!(
        records
            .iter()
            .all(|(_, _, time)| (before..now).contains(time))
    );
}

#[test]
fn all_processes_take_little_time() {
    let existing = reading(Procfs::default()).run(&Scope::All);
    let forked: BTreeSet<i32> = (decoded(&existing, &layout()).iter())
        .filter_map(|(record, ..)| match record {
            Record::Fork(task) if task.pid == task.tid => Some(task.pid),
            _ => None,
        })
        .collect();
    assert!(forked.contains(&(std::process::id() as i32)));
    assert!(forked.contains(&1));
}

#[test]
fn what_was_started_since_is_read_as_well() {
    let tether = rprof_testing::Tether::new();
    let mut command = Command::new("sh");
    command
        .args(["-c", "sleep 100 & wait"])
        .stdin(Stdio::null());
    let mut child = tether.tie(&mut command).spawn().unwrap();
    let me = std::process::id();
    let sleeps = |existing: &Existing| {
        let layout = layout();
        let records = decoded(existing, &layout);
        let is_it =
            |record: &Record<'_>| matches!(record, Record::Comm(comm) if &*comm.name == b"sleep");
        records.iter().any(|(record, ..)| is_it(record))
    };
    let patience = Instant::now() + Duration::from_secs(60);
    while !sleeps(&reading(Procfs::default()).run(&these(&[me], true))) {
        assert!(Instant::now() < patience, "the grandchild is not found");
        std::thread::yield_now();
    }
    assert!(!sleeps(
        &reading(Procfs::default()).run(&these(&[me], false))
    ));
    let later = Scope::These {
        pids: vec![me],
        since: Duration::MAX,
        inherit: true,
    };
    assert!(!sleeps(&reading(Procfs::default()).run(&later)));
    drop(tether);
    child.wait().unwrap();
}

#[test]
fn what_vanishes_or_is_denied_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    // A partial process: it ended while it was read.
    std::fs::create_dir_all(folder.path().join("4000000/task/4000000")).unwrap();
    let stat = "4000000 (a) S 1 1 1 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 5 2 3 4\n";
    std::fs::write(folder.path().join("4000000/stat"), stat).unwrap();
    std::fs::create_dir(folder.path().join("4000001")).unwrap();
    let existing = reading(Procfs::new(folder.path())).run(&Scope::All);
    assert_eq!((existing.processes, existing.threads), (1, 1));
    assert_eq!(existing.vanished, 2);
    assert!(existing.degradations().next().is_none());
    let refused = Existing {
        refused: vec![7, 8],
        ..Existing::default()
    };
    let told = refused.degradations().next().unwrap().to_string();
    assert!(
        told.contains("2 running processes") && told.contains("7"),
        "{told}"
    );
}

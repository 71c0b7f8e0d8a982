//! Records in time order.

use std::io::Cursor;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use rprof_perfdata::{FileWriter, PerfData, RecordWriter, WriteOptions};
use rprof_records::{Endian, Misc, RecordType, put_record};
use rprof_testing::{needs, skip};

use crate::made;
use crate::perf::perf;

/// Time, CPU, and number among the CPU's records.
type Name = (u64, u64, u64);

fn end_round(out: &mut Vec<u8>) {
    let kind = RecordType::FINISHED_ROUND;
    put_record(out, kind, Misc(0), Endian::NATIVE, |_| ()).unwrap();
}

/// Writes a sample whose address encodes its [`Name`].
fn sample(out: &mut Vec<u8>, (time, cpu, number): Name) {
    let endian = Endian::NATIVE;
    put_record(out, RecordType::SAMPLE, Misc::USER, endian, |out| {
        out.extend(
            [100, cpu << 32 | number]
                .map(|v| endian.put_u64(v))
                .concat(),
        );
        out.extend([7, 7].map(|v| endian.put_u32(v)).concat());
        out.extend(endian.put_u64(time));
    })
    .unwrap();
}

fn file(records: &[u8], options: WriteOptions) -> PerfData {
    let mut bytes = Cursor::new(Vec::new());
    let mut writer = FileWriter::create_with(&mut bytes, made::events(), options).unwrap();
    writer.write_records(records).unwrap();
    writer.finish(made::features(Endian::NATIVE)).unwrap();
    made::read(bytes.get_ref()).unwrap()
}

/// Returns samples in time order, the number of late ones, and the maximum number of waiting ones.
fn in_order(data: &PerfData) -> (Vec<Name>, u64, usize) {
    let mut records = data.records_by_time();
    let (mut names, mut most) = (Vec::new(), 0);
    while let Some(record) = records.next_record().unwrap() {
        let body = record.at.record.body;
        let address = body.u64(8, Endian::NATIVE).unwrap();
        names.push((record.time.unwrap(), address >> 32, address & 0xffff_ffff));
        most = most.max(records.waiting());
    }
    (names, records.late(), most)
}

/// Returns records as a recorder writes them. `cpus` has the times of each CPU's records. Each
/// round reads all ring buffers, at the times in `reads`, one for each CPU and round.
fn recorded(cpus: &[Vec<u64>], reads: &[u64]) -> (Vec<u8>, Vec<Name>) {
    let (mut out, mut names) = (Vec::new(), Vec::new());
    let mut next = vec![0; cpus.len()];
    let last = vec![u64::MAX; cpus.len()];
    for round in reads.chunks_exact(cpus.len()).chain([&last[..]]) {
        for (cpu, (times, read_at)) in cpus.iter().zip(round).enumerate() {
            while let Some(time) = times.get(next[cpu]).filter(|time| *time <= read_at) {
                let name = (*time, cpu as u64, next[cpu] as u64);
                sample(&mut out, name);
                names.push(name);
                next[cpu] += 1;
            }
        }
        end_round(&mut out);
    }
    (out, names)
}

fn sorted_times() -> impl Strategy<Value = Vec<u64>> {
    // Many are equal.
    prop::collection::vec(1..400u64, 0..60).prop_map(|mut times| {
        times.sort_unstable();
        times
    })
}

proptest! {
    #[test]
    fn shuffled_streams_of_cpus_come_out_sorted_and_stable(
        cpus in prop::collection::vec(sorted_times(), 1..5),
        mut reads in prop::collection::vec(1..400u64, 0..60),
        compress in any::<bool>(),
    ) {
        reads.sort_unstable();
        let (records, mut names) = recorded(&cpus, &reads);
        let options = if compress { made::compressed() } else { WriteOptions::default() };
        let (found, late, _) = in_order(&file(&records, options));
        names.sort_by_key(|name| name.0);
        prop_assert_eq!(found, names);
        prop_assert_eq!(late, 0);
    }

    #[test]
    fn without_rounds_the_whole_file_is_sorted(times in prop::collection::vec(1..100u64, 0..200)) {
        let mut records = Vec::new();
        let mut names: Vec<Name> = (0..).zip(&times).map(|(n, time)| (*time, 0, n)).collect();
        names.iter().for_each(|name| sample(&mut records, *name));
        let (found, late, _) = in_order(&file(&records, WriteOptions::default()));
        names.sort_by_key(|name| name.0);
        prop_assert_eq!(found, names);
        prop_assert_eq!(late, 0);
    }

    #[test]
    fn no_record_is_lost_however_rounds_are_broken(
        rounds in prop::collection::vec(prop::collection::vec(1..100u64, 0..20), 0..12),
    ) {
        let (mut records, mut names) = (Vec::new(), Vec::new());
        for (number, times) in (0..).zip(&rounds) {
            for (n, time) in (0..).zip(times) {
                names.push((*time, number, n));
                sample(&mut records, (*time, number, n));
            }
            end_round(&mut records);
        }
        let (mut found, late, _) = in_order(&file(&records, WriteOptions::default()));
        // A late record causes each step back.
        let steps_back = found.windows(2).filter(|two| two[0].0 > two[1].0).count() as u64;
        prop_assert!(steps_back <= late, "{steps_back} steps back, {late} late");
        found.sort_unstable();
        names.sort_unstable();
        prop_assert_eq!(found, names);
    }
}

#[test]
fn a_record_two_rounds_too_late_is_counted() {
    let mut records = Vec::new();
    for (round, times) in [&[10, 14][..], &[12, 20], &[11, 30], &[29]]
        .into_iter()
        .enumerate()
    {
        for (n, time) in (0..).zip(times) {
            sample(&mut records, (*time, round as u64, n));
        }
        end_round(&mut records);
    }
    let (found, late, _) = in_order(&file(&records, WriteOptions::default()));
    let times: Vec<u64> = found.iter().map(|name| name.0).collect();
    // 12 is one round late, which is allowed; 11 comes after 14 was returned.
    assert_eq!(times, [10, 12, 14, 11, 20, 29, 30]);
    assert_eq!(late, 1);
}

#[test]
fn two_rounds_wait_and_no_more() {
    let mut records = Vec::new();
    for round in 0..200u64 {
        for n in 0..50 {
            sample(&mut records, (1 + round * 50 + n, 0, n));
        }
        end_round(&mut records);
    }
    for options in [WriteOptions::default(), made::compressed()] {
        let (found, late, most) = in_order(&file(&records, options));
        assert_eq!((found.len(), late), (10_000, 0));
        assert!((50..=150).contains(&most), "{most} records waited");
    }
}

#[test]
fn records_without_a_time_stand_where_they_were() {
    let mut records = Vec::new();
    sample(&mut records, (5, 0, 0));
    // The initial state must precede the first sample.
    sample(&mut records, (0, 0, 1));
    sample(&mut records, (3, 0, 2));
    let kind = RecordType(71);
    put_record(&mut records, kind, Misc(0), Endian::NATIVE, |out| {
        out.extend([0; 8]);
    })
    .unwrap();
    end_round(&mut records);
    let data = file(&records, WriteOptions::default());
    let mut by_time = data.records_by_time();
    let mut found = Vec::new();
    while let Some(record) = by_time.next_record().unwrap() {
        found.push((record.at.record.kind.0, record.time));
    }
    assert_eq!(found, [(9, None), (71, None), (9, Some(3)), (9, Some(5))]);
}

#[test]
fn damage_follows_all_that_stands_before_it() {
    let mut records = Vec::new();
    for time in [8, 6, 7] {
        sample(&mut records, (time, 0, time));
    }
    let whole = records.len();
    sample(&mut records, (1, 0, 1));
    records[whole + 6..whole + 8].fill(0);
    let data = file(&records, WriteOptions::default());
    let mut by_time = data.records_by_time();
    let mut times = Vec::new();
    let damage = loop {
        match by_time.next_record() {
            Ok(Some(record)) => times.extend(record.time),
            Ok(None) => panic!("no damage was found"),
            Err(damage) => break damage,
        }
    };
    assert_eq!(times, [6, 7, 8]);
    assert!(damage.what.contains("less than its header"), "{damage}");
    assert!(by_time.next_record().unwrap().is_none());
}

fn shown_by_perf(path: &Path) -> Vec<(u64, &'static str)> {
    let arguments = ["script", "-f", "--ns", "-F", "tid,time", "-i"];
    let side = [
        "--show-mmap-events",
        "--show-task-events",
        "--show-switch-events",
    ];
    let arguments = [&arguments[..], &[path.to_str().unwrap()], &side].concat();
    let Some((out, _)) = perf(&arguments, None) else {
        return Vec::new();
    };
    let line = |line: &str| {
        let time = line.split_whitespace().nth(1)?.strip_suffix(':')?;
        let (seconds, nanoseconds) = time.split_once('.')?;
        let time =
            seconds.parse::<u64>().ok()? * 1_000_000_000 + nanoseconds.parse::<u64>().ok()?;
        let kind = [
            "MMAP2",
            "MMAP",
            "COMM",
            "FORK",
            "EXIT",
            "SWITCH_CPU_WIDE",
            "SWITCH",
        ];
        let kind = kind
            .into_iter()
            .find(|kind| line.contains(&format!(" PERF_RECORD_{kind}")));
        Some((time, kind.unwrap_or("SAMPLE")))
    };
    out.lines().filter_map(line).collect()
}

#[test]
fn records_come_in_the_order_in_which_perf_script_shows_them() {
    needs!(Perf, PerfEvents);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("perf.data");
    // Small buffers cause more rounds.
    let busy = "for i in 1 2 3 4; do (for j in 1 2 3 4 5 6 7 8; do ls -lR /usr/include; done) & done; wait";
    let mut command = Command::new("perf");
    command.args(["record", "-q", "-e", "cpu-clock", "-F", "4999", "-m", "8"]);
    command.args(["--switch-events", "-o"]).arg(&path);
    command.args(["--", "sh", "-c", busy]);
    let output = command.output().unwrap();
    if !output.status.success() {
        skip(format!(
            "perf cannot record: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
        return;
    }
    let perfs = shown_by_perf(&path);
    let data = PerfData::open(&path).unwrap();
    let mut by_time = data.records_by_time();
    let (mut ours, mut most) = (Vec::new(), 0);
    while let Some(record) = by_time.next_record().unwrap() {
        let kind = record.at.record.kind;
        let shown = matches!(kind.0, 1 | 3 | 4 | 7 | 9 | 10 | 14 | 15);
        if shown {
            ours.push((record.time.unwrap_or(0), kind.name().unwrap()));
        }
        most = most.max(by_time.waiting());
    }
    let differing = perfs.iter().zip(&ours).position(|(perf, our)| perf != our);
    assert_eq!(
        differing,
        None,
        "{:?}",
        differing.map(|at| (perfs[at], ours[at]))
    );
    assert_eq!(perfs.len(), ours.len());
    assert!(perfs.iter().filter(|one| one.1 == "SAMPLE").count() > 100);
    assert_eq!(by_time.late(), 0);
    assert!(
        most < ours.len(),
        "rounds let nothing go: {most} records waited"
    );
}

//! The crate `linux-perf-data` reads the same data, as far as it supports it.
//!
//! Known differences of 0.13:
//!
//! - It asserts on some damaged input, so it runs under `catch_unwind`.
//! - It sorts records into rounds. This drops none but changes their order, so only counts are
//!   compared.
//! - It hides FINISHED_ROUND and the header records of a stream.
//! - It supports neither the magic of version 1 nor folders.
//! - It reads nothing from a stream with tracepoint formats, which follow their record.
//! - It finds no ids in a file without EVENT_DESC.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use linux_perf_data::linux_perf_event_reader::RecordType;
use linux_perf_data::{PerfFileReader, PerfFileRecord};
use rprof_perfdata::{Feature, Mode, PerfData, WriteOptions};

use crate::made;

/// Record counts by type, host name, and number of ids by event.
type Reading = (BTreeMap<u32, u64>, Option<String>, Vec<(u32, usize)>);

fn theirs(bytes: &[u8], mode: Mode) -> Option<Reading> {
    catch_unwind(AssertUnwindSafe(|| match mode {
        Mode::File => collect(PerfFileReader::parse_file(Cursor::new(bytes)).ok()?),
        Mode::Pipe => collect(PerfFileReader::parse_pipe(Cursor::new(bytes)).ok()?),
    }))
    .ok()?
}

fn collect<R: std::io::Read>(reader: PerfFileReader<R>) -> Option<Reading> {
    let PerfFileReader {
        mut record_iter,
        mut perf_file,
    } = reader;
    let mut counts = BTreeMap::new();
    while let Some(record) = record_iter.next_record(&mut perf_file).ok()? {
        let kind = match &record {
            PerfFileRecord::EventRecord { record, .. } => record.record_type.0,
            PerfFileRecord::UserRecord(user) => RecordType::from(user.record_type).0,
        };
        *counts.entry(kind).or_default() += 1;
    }
    let attrs = perf_file.event_attributes();
    let attrs = (attrs.iter()).map(|a| (a.attr.type_.into_number(), a.event_ids.len()));
    let host = perf_file.hostname().ok()?.map(str::to_owned);
    Some((counts, host, attrs.collect()))
}

trait Number {
    fn into_number(self) -> u32;
}

impl Number for linux_perf_data::linux_perf_event_reader::PerfEventType {
    fn into_number(self) -> u32 {
        use linux_perf_data::linux_perf_event_reader::PerfEventType;
        match self {
            PerfEventType::Hardware(..) => 0,
            PerfEventType::Software(..) => 1,
            PerfEventType::Tracepoint(..) => 2,
            PerfEventType::HwCache(..) => 3,
            PerfEventType::Breakpoint(..) => 5,
            // Raw events, and those of the machine's PMUs.
            _ => 4,
        }
    }
}

fn ours(data: &PerfData) -> Reading {
    let attrs = data.events().list().iter();
    (
        made::counts(data),
        data.features().string(Feature::HOSTNAME),
        attrs.map(|e| (e.attr.kind.0.min(5), e.ids.len())).collect(),
    )
}

fn hidden(kind: u32) -> bool {
    [64, 65, 66, 67, 68, 80, 81, 83].contains(&kind)
}

/// Captures that it cannot read.
const ASTRAY: [&str; 1] = ["probe.data.stream"];

fn agree(bytes: &[u8], name: &str) -> bool {
    if ASTRAY.iter().any(|astray| name.ends_with(astray)) {
        return false;
    }
    let Ok(data) = PerfData::read(bytes, std::path::Path::new(name)) else {
        return false;
    };
    let Some((mut counts, host, attrs)) = theirs(bytes, data.mode()) else {
        return false;
    };
    let (mut our_counts, our_host, our_attrs) = ours(&data);
    counts.retain(|kind, _| !hidden(*kind));
    our_counts.retain(|kind, _| !hidden(*kind));
    assert_eq!(our_counts, counts, "{name}");
    assert_eq!(our_host, host, "{name}");
    assert_eq!(our_attrs.len(), attrs.len(), "{name}");
    for (ours, theirs) in our_attrs.iter().zip(&attrs) {
        // In file mode, it has only the ids of EVENT_DESC.
        if theirs.1 > 0 {
            assert_eq!(ours.1, theirs.1, "{name}: ids");
        }
        if ours.0 < 4 {
            assert_eq!(ours.0, theirs.0, "{name}: kind");
        }
    }
    true
}

#[test]
fn made_recordings() {
    let plain = WriteOptions::default();
    assert!(agree(&made::file(500, plain), "file"));
    assert!(agree(&made::stream(500, plain), "stream"));
    assert!(agree(
        &made::file(500, made::compressed()),
        "compressed file"
    ));
    assert!(agree(
        &made::stream(500, made::compressed()),
        "compressed stream"
    ));
}

#[test]
fn captures() {
    let files = rprof_testing::recordings();
    let agreeing = (files.iter())
        .filter(|path| {
            let bytes = std::fs::read(path).unwrap();
            agree(&bytes, &path.display().to_string())
        })
        .count();
    assert!(agreeing * 2 >= files.len(), "{agreeing} of {}", files.len());
}

//! Builders of recordings for tests.

use std::borrow::Cow;
use std::io::Cursor;
use std::path::Path;

use rprof_perfdata::{EventDescription, FeatureSections, FileWriter, PerfData, RecordWriter};
use rprof_records::{Attr, Mmap2, MmapIdentity};

pub(crate) fn mapping(pid: i32, start: u64, len: u64, pgoff: u64, path: &str) -> Mmap2<'static> {
    Mmap2 {
        pid,
        tid: pid,
        start,
        len,
        pgoff,
        identity: MmapIdentity::Inode {
            major: 0,
            minor: 0,
            inode: 0,
            generation: 0,
        },
        prot: 5,
        flags: 2,
        path: Cow::Owned(path.as_bytes().to_vec()),
    }
}

pub(crate) fn file_of(attr: Attr, records: &[u8]) -> PerfData {
    let events = vec![EventDescription {
        attr,
        name: "cpu-clock".into(),
        ids: Vec::new(),
    }];
    file_of_events(events, records)
}

pub(crate) fn file_of_events(events: Vec<EventDescription>, records: &[u8]) -> PerfData {
    file_with(events, records, FeatureSections::default())
}

pub(crate) fn file_with(
    events: Vec<EventDescription>,
    records: &[u8],
    features: FeatureSections,
) -> PerfData {
    let mut bytes = Cursor::new(Vec::new());
    let mut writer = FileWriter::create(&mut bytes, events).unwrap();
    writer.write_records(records).unwrap();
    writer.finish(features).unwrap();
    PerfData::read(&bytes.get_ref()[..], Path::new("made up")).unwrap()
}

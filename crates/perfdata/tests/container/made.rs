//! Builders of test files.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

use rprof_perfdata::{
    Damage, EventDescription, Feature, FeatureSections, FileWriter, PerfData, PipeWriter,
    RecordWriter, WriteOptions,
};
use rprof_records::{Attr, AttrFlags, Endian, Misc, RecordType, SampleType, put_record};

/// Two events whose samples contain id, address, thread and time.
pub(crate) fn events() -> Vec<EventDescription> {
    [("cpu-clock", 0), ("page-faults", 2)]
        .map(|(name, config)| EventDescription {
            attr: Attr {
                kind: rprof_records::EventKind::SOFTWARE,
                config,
                period_or_freq: 1000,
                sample_type: SampleType::IDENTIFIER
                    | SampleType::IP
                    | SampleType::TID
                    | SampleType::TIME,
                flags: AttrFlags::SAMPLE_ID_ALL,
                ..Attr::default()
            },
            name: name.into(),
            ids: vec![100 + config, 200 + config],
        })
        .to_vec()
}

pub(crate) fn sample(out: &mut Vec<u8>, id: u64, time: u64, endian: Endian) {
    put_record(out, RecordType::SAMPLE, Misc::USER, endian, |out| {
        out.extend([id, 0x1000 + time].map(|v| endian.put_u64(v)).concat());
        out.extend([7, 7].map(|v| endian.put_u32(v)).concat());
        out.extend(endian.put_u64(time));
    })
    .unwrap();
}

/// Returns a COMM record, `count` samples, and a FINISHED_ROUND.
pub(crate) fn records(count: u64, endian: Endian) -> Vec<u8> {
    let mut out = Vec::new();
    put_record(&mut out, RecordType::COMM, Misc(0), endian, |out| {
        out.extend([7, 7].map(|v| endian.put_u32(v)).concat());
        out.extend(b"worker\0\0");
        out.extend([7, 7].map(|v| endian.put_u32(v)).concat());
        out.extend([1, 100].map(|v| endian.put_u64(v)).concat());
    })
    .unwrap();
    for i in 0..count {
        sample(&mut out, [100, 202][i as usize % 2], 2 + i, endian);
    }
    put_record(
        &mut out,
        RecordType::FINISHED_ROUND,
        Misc(0),
        endian,
        |_| (),
    )
    .unwrap();
    out
}

pub(crate) fn features(endian: Endian) -> FeatureSections {
    let mut f = FeatureSections::new(endian);
    f.insert_string(Feature::HOSTNAME, "somewhere");
    f.insert_string(Feature::ARCH, "x86_64");
    f.insert_cpu_counts(2, 2);
    f.insert_command_line(&["rprof".into(), "record".into()]);
    f.insert_rprof_notes(&[("lost".into(), "3".into())]);
    f
}

pub(crate) fn file(count: u64, options: WriteOptions) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    let mut writer = FileWriter::create_with(&mut bytes, events(), options).unwrap();
    writer
        .write_records(&records(count, options.endian))
        .unwrap();
    writer.finish(features(options.endian)).unwrap();
    bytes.into_inner()
}

pub(crate) fn stream(count: u64, options: WriteOptions) -> Vec<u8> {
    let mut bytes = Vec::new();
    let features = features(options.endian);
    let mut writer = PipeWriter::create(&mut bytes, events(), &features, options).unwrap();
    writer
        .write_records(&records(count, options.endian))
        .unwrap();
    writer.finish(features).unwrap();
    bytes
}

pub(crate) fn compressed() -> WriteOptions {
    WriteOptions {
        compression: Some(1),
        ..WriteOptions::default()
    }
}

pub(crate) fn read(bytes: &[u8]) -> Result<PerfData, rprof_perfdata::Error> {
    PerfData::read(bytes, Path::new("test"))
}

/// Returns the records, without a stream's header records.
pub(crate) fn all_records(data: &PerfData) -> Vec<Vec<u8>> {
    let header = [64, 65, 66, 67, 80].map(RecordType);
    let mut all = Vec::new();
    for block in data.blocks().filter_map(Result::ok) {
        let kept = block.walk().filter(|w| {
            data.mode() == rprof_perfdata::Mode::File || !header.contains(&w.record.kind)
        });
        all.extend(kept.map(|w| w.bytes.to_vec()));
    }
    all
}

pub(crate) fn counts(data: &PerfData) -> BTreeMap<u32, u64> {
    let mut counts = BTreeMap::new();
    for block in data.blocks().filter_map(Result::ok) {
        for walked in block.walk() {
            *counts.entry(walked.record.kind.0).or_default() += 1;
        }
    }
    counts
}

pub(crate) fn damage(data: &PerfData) -> Option<Damage> {
    data.blocks().find_map(Result::err)
}

pub(crate) fn exhaust(bytes: &[u8]) -> Option<u64> {
    let data = read(bytes).ok()?;
    let mut records = 0;
    for block in data.blocks().filter_map(Result::ok) {
        for walked in block.walk() {
            records += 1;
            let _ = rprof_perfdata::UserRecord::decode(&walked.record);
            let _ = data.events().layout_of(&walked.record);
        }
    }
    let f = data.features();
    f.event_descriptions();
    f.build_ids();
    f.cpu_topology();
    f.caches();
    f.rprof_notes();
    f.command_line();
    Some(records)
}

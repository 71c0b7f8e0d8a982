//! AUX traces (Intel PT, Arm SPE): missing parts are reported, without decoding.

use std::io::Cursor;

use rprof_perfdata::{EventDescription, Feature, FeatureSections, FileWriter, RecordWriter};
use rprof_records::{
    Attr, Endian, EventKind, Misc, Record, SampleFields, SampleId, SampleLayout, SampleType,
};

use crate::support::Here;

/// Writes one sample, and pieces of a trace with these flags.
fn recording(here: &Here, flags: &[u64]) {
    let endian = Endian::NATIVE;
    let attr = Attr {
        kind: EventKind::SOFTWARE,
        sample_type: SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::PERIOD,
        ..Attr::default()
    };
    let layout = SampleLayout::new(&attr, endian);
    let mut records = Vec::new();
    let sample = SampleFields {
        ip: 0x1000,
        pid: 7,
        tid: 7,
        time: 5,
        period: 1,
        ..SampleFields::default()
    };
    sample.encode(Misc::USER, &layout, &mut records).unwrap();
    for flags in flags {
        let record = Record::Aux {
            offset: 0,
            size: 4096,
            flags: *flags,
        };
        let id = SampleId::default();
        record.encode(Misc(0), &layout, &id, &mut records).unwrap();
    }
    let event = EventDescription {
        attr,
        name: "cpu-clock".into(),
        ids: vec![1],
    };
    let mut bytes = Vec::new();
    let mut writer = FileWriter::create(Cursor::new(&mut bytes), vec![event]).unwrap();
    writer.write_records(&records).unwrap();
    let mut features = FeatureSections::new(endian);
    features.insert(Feature::AUXTRACE, Vec::new());
    writer.finish(features).unwrap();
    std::fs::write(here.path("perf.data"), bytes).unwrap();
}

#[test]
fn a_truncated_trace_is_told_by_report_and_header() {
    let here = Here::new();
    recording(&here, &[0, 1, 0]);
    let said = "1 of 3 pieces of the AUX trace end early: its buffer was full";
    let run = here.rprof("report").ok();
    assert!(
        format!("{}{}", run.out(), run.err()).contains(said),
        "{run}"
    );
    here.rprof("header").ok().prints(said);
    recording(&here, &[0, 0]);
    let run = here.rprof("report").ok();
    assert!(
        !format!("{}{}", run.out(), run.err()).contains("AUX trace"),
        "{run}"
    );
    here.rprof("header")
        .ok()
        .prints("2 pieces of an AUX trace, 8192 bytes");
}

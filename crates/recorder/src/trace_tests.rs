//! Tests of AUX traces in files, with a synthetic trace and its records.

use super::*;
use crate::backlog::Backlog;
use crate::output::{Embedding, OutputConfig, RotatingOutput, Sink};
use crate::pipeline::deferred::RecordSink;
use crate::pipeline::layouts::Layouts;
use crate::pipeline::merge::Released;
use crate::progress::LiveCounts;
use rprof_perfdata::{
    AuxTally, EventDescription, Feature, FeatureSections, PerfData, UserRecord, WriteOptions,
};
use rprof_records::{Attr, AttrFlags, Misc, Record, SampleId, SampleLayout, SampleType};
use rprof_sampler::{Clock, Stream};
use rprof_testing::needs;
use std::fs::File;
use std::process::Command;
use std::sync::Arc;

const KIND: EventKind = EventKind(9);

fn attr() -> Attr {
    Attr {
        kind: KIND,
        sample_type: SampleType::IDENTIFIER
            | SampleType::IP
            | SampleType::TID
            | SampleType::TIME
            | SampleType::CPU,
        flags: AttrFlags::SAMPLE_ID_ALL,
        period_or_freq: 1,
        ..Attr::default()
    }
}

fn config(unit: TraceUnit, compression: Option<i32>) -> OutputConfig {
    let layout = SampleLayout::new(&attr(), Endian::NATIVE);
    let mut features = FeatureSections::new(Endian::NATIVE);
    features.insert_words(Feature::AUXTRACE, &[0]);
    OutputConfig {
        events: vec![EventDescription {
            attr: attr(),
            name: "arm_spe_0//".into(),
            ids: vec![1],
        }],
        write: WriteOptions {
            compression,
            ..WriteOptions::default()
        },
        features,
        notes: Vec::new(),
        layouts: Arc::new(Layouts {
            samples: layout.clone(),
            sideband: layout,
        }),
        rotation: None,
        command: None,
        max_bytes: None,
        embedding: Embedding::default(),
        unwinds: false,
        backlog: Backlog::default(),
        unsorted: false,
        clock: Clock::MONOTONIC,
        trace: info(unit, KIND, true).unwrap(),
        contexts: Vec::new(),
        cgroups: false,
        counts_idle: false,
        names: rprof_jit::InterpretedNames::default(),
    }
}

/// Returns a trace of SPE timestamp packets, each padded to 16 bytes (Arm ARM, D17.2.6): 1, 2, 3, …
fn timestamps(range: std::ops::Range<u64>) -> Vec<u8> {
    let packet = |number: u64| {
        let mut packet = vec![0x71];
        packet.extend(number.to_le_bytes());
        packet.resize(16, 0);
        packet
    };
    range.flat_map(packet).collect()
}

/// Writes a file with these pieces of a trace, each followed by its AUX record; returns the tally.
fn written(
    unit: TraceUnit,
    compression: Option<i32>,
    pieces: &[TracePiece],
) -> (tempfile::TempDir, AuxTally) {
    let folder = tempfile::tempdir().unwrap();
    let file = File::create(folder.path().join("perf.data")).unwrap();
    let config = config(unit, compression);
    let layout = config.layouts.samples.clone();
    let sink = Sink::file(file, config.events.clone(), &config.features, config.write).unwrap();
    let mut output = RotatingOutput::new(config, None, sink, Arc::new(LiveCounts::default()));
    output.begin().unwrap();
    for (nth, piece) in pieces.iter().enumerate() {
        output.put_trace(piece).unwrap();
        let record = Record::Aux {
            offset: piece.offset,
            size: piece.bytes.len() as u64,
            flags: u64::from(nth + 1 == pieces.len()),
        };
        let time = 1000 + nth as u64;
        let id = SampleId {
            id: Some(1),
            time: Some(time),
            cpu: Some(piece.cpu),
            ..SampleId::default()
        };
        let mut bytes = Vec::new();
        record.encode(Misc(0), &layout, &id, &mut bytes).unwrap();
        let released = Released {
            time,
            cpu: piece.cpu,
            stream: Stream::Samples,
            bytes: &bytes,
        };
        output.put(&released, None).unwrap();
        output.end_round().unwrap();
    }
    let tally = output.total().trace;
    output.finish(&[]).unwrap();
    (folder, tally)
}

fn pieces() -> Vec<TracePiece> {
    let piece = |cpu, index, offset, range| TracePiece {
        cpu,
        index,
        offset,
        bytes: timestamps(range),
    };
    vec![
        piece(4, 0, 0, 1..8001),
        piece(6, 1, 4096, 100_001..100_003),
        piece(4, 0, 128_000, 8001..8011),
    ]
}

#[test]
fn the_trace_of_each_cpu_is_read_back_whole() {
    for compression in [None, Some(1)] {
        let (folder, tally) = written(TraceUnit::ArmSpe, compression, &pieces());
        assert_eq!((tally.pieces, tally.truncated), (3, 1));
        let data = PerfData::open(&folder.path().join("perf.data")).unwrap();
        assert_eq!(AuxTally::of(&data), tally);
        let mut traces = std::collections::BTreeMap::<i32, Vec<u8>>::new();
        let mut told = Vec::new();
        for block in data.blocks() {
            let block = block.unwrap();
            for walked in block.walk() {
                match UserRecord::decode(&walked.record) {
                    Ok(UserRecord::AuxtraceInfo(info)) => {
                        assert_eq!((info.kind, &info.settings[..]), (4, &[9, 1][..]));
                        assert!(traces.is_empty());
                    }
                    Ok(UserRecord::Auxtrace(record)) => {
                        let payload = &walked.bytes[walked.record.size()..];
                        let trace = traces.entry(record.cpu).or_default();
                        let begin = if record.cpu == 6 { 4096 } else { 0 };
                        assert_eq!(record.offset, begin + trace.len() as u64);
                        assert_eq!((record.size, record.tid), (payload.len() as u64, -1));
                        assert_eq!(record.index, u32::from(record.cpu == 6));
                        trace.extend_from_slice(payload);
                    }
                    _ => {
                        if let Ok(Record::Aux { offset, size, .. }) =
                            Record::decode(&walked.record, None)
                        {
                            told.push((offset, size, traces.values().map(Vec::len).sum::<usize>()));
                        }
                    }
                }
            }
        }
        assert_eq!(traces[&4], timestamps(1..8011));
        assert_eq!(traces[&6], timestamps(100_001..100_003));
        assert_eq!(
            told,
            [
                (0, 128_000, 128_000),
                (4096, 32, 128_032),
                (128_000, 160, 128_192)
            ]
        );
    }
}

#[test]
fn perf_decodes_every_packet() {
    needs!(Tool("perf"));
    let (folder, _) = written(TraceUnit::ArmSpe, None, &pieces());
    let out = Command::new("perf")
        .args(["report", "-D", "-i", "perf.data"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{errors}");
    assert!(
        text.contains("PERF_RECORD_AUXTRACE_INFO type: 4"),
        "{errors}"
    );
    assert!(
        text.contains("PERF_RECORD_AUX offset: 0x1f400 size: 0xa0 flags: 0x1 [T]"),
        "{errors}"
    );
    let stamps: Vec<u64> = (text.lines())
        .filter_map(|line| line.split_once(" TS ")?.1.trim().parse().ok())
        .collect();
    let wanted: Vec<u64> = (1..8001)
        .chain(100_001..100_003)
        .chain(8001..8011)
        .collect();
    assert_eq!(stamps, wanted);
}

#[test]
fn perf_reads_the_settings_of_processor_trace() {
    needs!(Tool("perf"));
    let zeroes = TracePiece {
        cpu: 0,
        index: 0,
        offset: 0,
        // PAD packets; perf prints eight per line.
        bytes: vec![0; 64],
    };
    let (folder, _) = written(TraceUnit::IntelPt, None, &[zeroes]);
    for arguments in [&["report", "-D"][..], &["script", "-D"], &["script"]] {
        let out = Command::new("perf")
            .args(arguments)
            .args(["-i", "perf.data"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{arguments:?}: {errors}");
        let text = String::from_utf8_lossy(&out.stdout);
        let is_dump = arguments.contains(&"-D");
        assert!(
            !is_dump || text.contains("PMU Type            9"),
            "{text}{errors}"
        );
        assert!(!is_dump || text.matches(" PAD").count() == 8, "{text}");
    }
}

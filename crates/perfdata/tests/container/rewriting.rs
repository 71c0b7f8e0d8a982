//! Read, write, read: the same records, events and features.

use std::io::Cursor;

use proptest::prelude::*;
use rprof_perfdata::{
    EventDescription, Feature, FeatureSections, FileWriter, PerfData, RecordWriter, WriteOptions,
    rewrite, rewrite_pipe,
};
use rprof_records::{Attr, Endian, Misc, RecordType, SampleType, put_record};

use crate::made;

fn events(data: &PerfData) -> Vec<(Attr, String, Vec<u64>)> {
    (data.events().list().iter())
        .map(|e| (e.attr.clone(), e.name.clone(), e.ids.clone()))
        .collect()
}

/// Omits those that depend on the file's form.
fn features(data: &PerfData) -> Vec<(Feature, Vec<u8>)> {
    let own = [
        Feature::COMPRESSED,
        Feature::EVENT_DESC,
        Feature::AUXTRACE,
        Feature::DIR_FORMAT,
    ];
    (data.features().iter())
        .filter(|(f, _)| !own.contains(f))
        .map(|(f, b)| (f, b.to_vec()))
        .collect()
}

fn check(data: &PerfData) {
    let (records, wanted) = (made::all_records(data), features(data));
    for compression in [None, Some(1)] {
        let mut out = Cursor::new(Vec::new());
        let written = rewrite(data, &mut out, compression).unwrap();
        let bytes = out.into_inner();
        assert_eq!(written.len, bytes.len() as u64);
        assert_eq!(written.records, records.len() as u64);
        let again = made::read(&bytes).unwrap();
        assert_eq!(made::all_records(&again), records);
        assert_eq!(events(&again), events(data));
        assert_eq!(features(&again), wanted);
        assert_eq!(again.endian(), data.endian());

        let mut bytes = Vec::new();
        let left_out = match rewrite_pipe(data, &mut bytes, compression) {
            Ok(written) => written.left_out,
            // More ids than a record can hold.
            Err(e) => {
                assert_eq!(e.kind(), std::io::ErrorKind::InvalidInput);
                continue;
            }
        };
        let again = made::read(&bytes).unwrap();
        let mut kept = made::all_records(&again);
        // Names were added; simpleperf's files have formats among the records.
        let other = |r: &Vec<u8>| {
            let kind = data.endian().u32(r[..4].try_into().unwrap());
            ![
                RecordType::EVENT_UPDATE.0,
                RecordType::HEADER_TRACING_DATA.0,
            ]
            .contains(&kind)
        };
        kept.retain(other);
        let mut plain = records.clone();
        plain.retain(other);
        assert_eq!(kept, plain);
        assert_eq!(events(&again), events(data));
        // Rewritten build-ids have an explicit length, and tracepoint formats have padding.
        let mut wanted = wanted.clone();
        wanted.retain(|(f, _)| !left_out.contains(f) && !rewritten_in_pipes(*f));
        let mut got = features(&again);
        got.retain(|(f, _)| !rewritten_in_pipes(*f));
        assert_eq!(got, wanted);
        let ids = |data: &PerfData| data.features().build_ids().unwrap_or_default();
        assert_eq!(ids(&again), ids(data));
        if let Some(formats) = data.features().get(Feature::TRACING_DATA) {
            let got = again.features().get(Feature::TRACING_DATA).unwrap();
            assert!(got.starts_with(formats) && got.len() - formats.len() < 8);
        }
    }
}

fn rewritten_in_pipes(feature: Feature) -> bool {
    [Feature::BUILD_ID, Feature::TRACING_DATA].contains(&feature)
}

#[test]
fn made_recordings_come_out_as_they_went_in() {
    for endian in [Endian::Little, Endian::Big] {
        let options = WriteOptions {
            endian,
            ..WriteOptions::default()
        };
        check(&made::read(&made::file(100, options)).unwrap());
        check(&made::read(&made::stream(100, options)).unwrap());
    }
}

#[test]
fn a_compressed_recording_comes_out_as_it_went_in() {
    check(&made::read(&made::file(20_000, made::compressed())).unwrap());
}

#[test]
fn the_aux_index_points_to_the_records() {
    let mut out = Cursor::new(Vec::new());
    let mut writer = FileWriter::create(&mut out, made::events()).unwrap();
    writer
        .write_records(&made::records(3, Endian::NATIVE))
        .unwrap();
    let mut aux = Vec::new();
    put_record(
        &mut aux,
        RecordType::AUXTRACE,
        Misc(0),
        Endian::NATIVE,
        |o| {
            o.extend(64u64.to_ne_bytes());
            o.extend([0; 32]);
        },
    )
    .unwrap();
    aux.extend([5; 64]);
    let at = writer.write_uncompressed(&aux).unwrap();
    let mut f = FeatureSections::new(Endian::NATIVE);
    f.insert_auxtrace_index(&[rprof_perfdata::features::run::AuxtraceEntry {
        offset: at,
        size: 48,
    }]);
    writer.finish(f).unwrap();
    let data = made::read(&out.into_inner()).unwrap();
    check(&data);
    let mut out = Cursor::new(Vec::new());
    rewrite(&data, &mut out, Some(1)).unwrap();
    let bytes = out.into_inner();
    let entry = made::read(&bytes)
        .unwrap()
        .features()
        .auxtrace_index()
        .unwrap()[0];
    let at = entry.offset as usize;
    assert_eq!(bytes[at..at + aux.len()], aux);
}

#[test]
fn captures_come_out_as_they_went_in() {
    for path in rprof_testing::recordings() {
        if let Ok(data) = PerfData::open(&path) {
            check(&data);
        }
    }
}

fn any_event() -> impl Strategy<Value = EventDescription> {
    let attr = (any::<u32>(), any::<u64>(), any::<u64>(), any::<bool>());
    let ids = prop::collection::vec(any::<u64>(), 0..5);
    (attr, "[a-z:/]{1,70}", ids).prop_map(|((kind, config, period, new), name, ids)| {
        EventDescription {
            attr: Attr {
                kind: rprof_records::EventKind(kind),
                config,
                period_or_freq: period,
                sample_type: SampleType::IDENTIFIER | SampleType::IP,
                config3: if new { config } else { 0 },
                ..Attr::default()
            },
            name,
            ids,
        }
    })
}

fn any_records(endian: Endian) -> impl Strategy<Value = Vec<u8>> {
    // Kernel records, simple user records, and unknown types.
    let kind = prop_oneof![1..22u32, Just(68u32), Just(73), Just(79), 90..200u32];
    let body = prop::collection::vec(any::<u8>(), 0..300);
    let record = (kind, any::<u16>(), body);
    prop::collection::vec(record, 0..60).prop_map(move |all| {
        let mut out = Vec::new();
        for (kind, misc, body) in all {
            put_record(&mut out, RecordType(kind), Misc(misc), endian, |out| {
                out.extend_from_slice(&body);
            })
            .unwrap();
        }
        out
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn any_recording_comes_out_as_it_went_in(
        mut events in prop::collection::vec(any_event(), 1..5),
        little in any_records(Endian::Little),
        big in any_records(Endian::Big),
        order in any::<bool>(),
        sections in prop::collection::btree_map(3..32u32, prop::collection::vec(any::<u8>(), 1..200), 0..8),
        compress in any::<bool>(),
    ) {
        for (i, id) in events.iter_mut().flat_map(|e| &mut e.ids).enumerate() {
            *id = (*id << 8) | i as u64;
        }
        let (endian, records) = match order {
            true => (Endian::Little, little),
            false => (Endian::Big, big),
        };
        let options = WriteOptions { endian, compression: compress.then_some(3) };
        let mut out = Cursor::new(Vec::new());
        let mut writer = FileWriter::create_with(&mut out, events, options).unwrap();
        writer.write_records(&records).unwrap();
        let mut f = FeatureSections::new(endian);
        for (number, bytes) in sections {
            // EVENT_DESC names the events; another test covers AUXTRACE.
            if ![12, 18].contains(&number) {
                f.insert(Feature(number), bytes);
            }
        }
        writer.finish(f).unwrap();
        let data = made::read(&out.into_inner()).unwrap();
        prop_assert_eq!(made::all_records(&data).concat(), records);
        check(&data);
    }
}

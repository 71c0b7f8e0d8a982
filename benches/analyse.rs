//! Analysis of an in-memory recording: from bytes to a profile.

use std::borrow::Cow;
use std::hint::black_box;
use std::io::Cursor;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rprof_analysis::{Index, Options};
use rprof_perfdata::{EventDescription, FileWriter, PerfData, RecordWriter};
use rprof_records::{
    Attr, AttrFlags, BuildId, Comm, Endian, EventKind, Misc, Mmap2, MmapIdentity, Record,
    SampleFields, SampleId, SampleLayout, SampleType,
};
use rprof_symbols::Symbolizer;

const SAMPLES: u64 = 100_000;

/// Returns a recording of `SAMPLES` samples with 20 frames each, and `distinct` different stacks.
fn recording(distinct: u64) -> Vec<u8> {
    let attr = Attr {
        kind: EventKind::SOFTWARE,
        sample_type: SampleType::IDENTIFIER
            | SampleType::IP
            | SampleType::TID
            | SampleType::TIME
            | SampleType::CPU
            | SampleType::PERIOD
            | SampleType::CALLCHAIN,
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..Attr::default()
    };
    let layout = SampleLayout::new(&attr, Endian::NATIVE);
    let events = vec![EventDescription {
        attr,
        name: "cpu-clock".into(),
        ids: vec![1],
    }];
    let mut bytes = Cursor::new(Vec::new());
    let mut writer = FileWriter::create(&mut bytes, events).expect("memory takes all");
    let mut out = Vec::new();
    let id = SampleId {
        id: Some(1),
        time: Some(1),
        ..SampleId::default()
    };
    let comm = Record::Comm(Comm {
        pid: 7,
        tid: 7,
        name: Cow::Borrowed(b"bench"),
    });
    let map = Record::Mmap2(Mmap2 {
        pid: 7,
        tid: 7,
        start: 0x1000,
        len: 1 << 30,
        pgoff: 0,
        identity: MmapIdentity::BuildId(BuildId::new(&[1; 20]).expect("20 bytes")),
        prot: 5,
        flags: 2,
        path: Cow::Borrowed(b"/nonexistent/bench"),
    });
    for record in [comm, map] {
        record
            .encode(Misc::USER, &layout, &id, &mut out)
            .expect("short records");
    }
    for i in 0..SAMPLES {
        let stack = i * 7919 % distinct;
        let sample = SampleFields {
            id: 1,
            ip: 0x2000 + stack,
            pid: 7,
            tid: 7,
            time: 2 + i,
            period: 1_001_001,
            callchain: (0..20)
                .map(|depth| 0x2000 + (stack >> depth) * 64 + depth)
                .collect(),
            ..SampleFields::default()
        };
        sample
            .encode(Misc::USER, &layout, &mut out)
            .expect("short records");
    }
    writer.write_records(&out).expect("memory takes all");
    writer.finish(Default::default()).expect("memory takes all");
    bytes.into_inner()
}

fn analyse(c: &mut Criterion) {
    let mut group = c.benchmark_group("analyse");
    group
        .throughput(Throughput::Elements(SAMPLES))
        .sample_size(20);
    for distinct in [1_000, 100_000] {
        let bytes = recording(distinct);
        let data = PerfData::read(&bytes[..], Path::new("bench")).expect("a good recording");
        group.bench_function(format!("index, {distinct} stacks"), |b| {
            b.iter(|| black_box(Index::build(&data)));
        });
        for threads in [1, 2] {
            let options = Options {
                threads,
                ..Options::default()
            };
            let name = format!("profile, {distinct} stacks, {threads} threads");
            group.bench_function(name, |b| {
                b.iter(|| {
                    let symbolizer = Symbolizer::builder().build();
                    black_box(rprof_analysis::analyse(&data, &symbolizer, &options))
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, analyse);
criterion_main!(benches);

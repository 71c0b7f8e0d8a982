//! Exports of a profile: folded stacks, flame graph, top functions.

use std::hint::black_box;
use std::io::Cursor;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rprof_analysis::{Options, analyse};
use rprof_export::ReportOptions;
use rprof_export::folded;
use rprof_export::svg::{self, SvgOptions};
use rprof_export::table;
use rprof_perfdata::{EventDescription, FileWriter, PerfData, RecordWriter};
use rprof_profile::{Profile, WeighBy};
use rprof_records::{
    Attr, AttrFlags, Endian, EventKind, Misc, Record, SampleFields, SampleId, SampleLayout,
    SampleType,
};
use rprof_symbols::Symbolizer;

const STACKS: u64 = 20_000;

/// Returns a profile with many stacks. Its functions are JIT code in the kernel, so their names are
/// in the recording.
fn profile() -> Profile {
    let attr = Attr {
        kind: EventKind::SOFTWARE,
        sample_type: SampleType::IP
            | SampleType::TID
            | SampleType::TIME
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
    let start = 0xffff_ffff_c000_0000u64;
    for n in 0..2000u64 {
        let symbol = Record::Ksymbol {
            addr: start + n * 64,
            len: 64,
            ksym_type: 1,
            flags: 0,
            name: format!("bpf_prog_{n:016x}_function_{n}")
                .into_bytes()
                .into(),
        };
        symbol
            .encode(Misc::KERNEL, &layout, &SampleId::default(), &mut out)
            .expect("short records");
    }
    for i in 0..STACKS {
        // A tree: there are few outer functions.
        let at = |depth: u64| start + ((i * 7919) >> (depth * 2)) % 2000 * 64 + 8;
        let sample = SampleFields {
            ip: at(0),
            pid: 7,
            tid: 7,
            time: 2 + i,
            period: 1,
            callchain: (0..12).map(at).collect(),
            ..SampleFields::default()
        };
        sample
            .encode(Misc::KERNEL, &layout, &mut out)
            .expect("short records");
    }
    writer.write_records(&out).expect("memory takes all");
    writer.finish(Default::default()).expect("memory takes all");
    let bytes = bytes.into_inner();
    let data = PerfData::read(&bytes[..], Path::new("bench")).expect("a good recording");
    let symbolizer = Symbolizer::builder().build();
    analyse(&data, &symbolizer, &Options::default())
}

fn exports(c: &mut Criterion) {
    let profile = profile();
    assert_eq!(profile.quality.named, profile.quality.frames);
    let mut group = c.benchmark_group("export");
    group
        .throughput(Throughput::Elements(profile.aggregated.len() as u64))
        .sample_size(20);
    group.bench_function("folded", |b| {
        b.iter(|| black_box(folded::fold(&profile, 0, WeighBy::Period)));
    });
    group.bench_function("svg", |b| {
        b.iter(|| {
            let mut out = Vec::new();
            svg::write(&profile, 0, &SvgOptions::default(), &mut out).expect("it has samples");
            out
        });
    });
    let options = ReportOptions::default();
    group.bench_function("table", |b| {
        b.iter(|| {
            let mut out = Vec::new();
            table::write(&profile, &options, &mut out).expect("memory takes all");
            out
        });
    });
    group.finish();
}

criterion_group!(benches, exports);
criterion_main!(benches);

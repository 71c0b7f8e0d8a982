//! The recorder's merge: sorts batches of two CPUs by time.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rprof_recorder::Merge;
use rprof_records::{Attr, AttrFlags, Endian, Misc, SampleFields, SampleLayout, SampleType};
use rprof_sampler::{Batch, Stream};

fn merge(c: &mut Criterion) {
    let attr = Attr {
        sample_type: SampleType::IDENTIFIER | SampleType::TIME | SampleType::CALLCHAIN,
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..Attr::default()
    };
    let layout = SampleLayout::new(&attr, Endian::NATIVE);
    let mut batches = Vec::new();
    for round in 0..50u64 {
        for cpu in [0, 1] {
            let mut bytes = Vec::new();
            for i in 0..100 {
                let sample = SampleFields {
                    time: round * 1000 + i * 10 + u64::from(cpu),
                    callchain: vec![0x1234; 20],
                    ..SampleFields::default()
                };
                sample
                    .encode(Misc::USER, &layout, &mut bytes)
                    .expect("short records");
            }
            batches.push(Batch {
                cpu,
                stream: Stream::Samples,
                bytes,
                watermark: (round + 1) * 1000,
            });
        }
    }
    let mut group = c.benchmark_group("merge");
    group.throughput(Throughput::Elements(50 * 2 * 100));
    group.bench_function("two CPUs, 20 frames", |b| {
        b.iter(|| {
            let mut merge = Merge::new(&[0, 1], layout.clone(), layout.clone(), 0);
            let mut bytes = 0;
            for batch in &batches {
                merge.push(batch.clone());
                let count = |r: rprof_recorder::pipeline::merge::Released<'_>| {
                    bytes += r.bytes.len();
                    Ok::<(), ()>(())
                };
                merge.release(count).expect("the sink takes all");
            }
            black_box(bytes)
        });
    });
    group.finish();
}

criterion_group!(benches, merge);
criterion_main!(benches);

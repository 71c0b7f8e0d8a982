//! Single steps of an analysis: reading records, one unwinding step, symbol lookup. `analyse`
//! measures the whole passes, with interning.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rprof_perfdata::Walk;
use rprof_records::{
    Attr, AttrFlags, Endian, Header, Misc, RawBytes, RawRecord, Sample, SampleFields, SampleLayout,
    SampleType,
};
use rprof_symbols::{ImageKey, Symbolizer};
use rprof_unwind::{Arch, Module, Modules, Registers, StackDump, UnwindTable, Unwinder};

const RECORDS: u64 = 10_000;
const ADDRESSES: u64 = 10_000;

fn samples(layout: &SampleLayout) -> Vec<u8> {
    let mut out = Vec::new();
    for i in 0..RECORDS {
        let sample = SampleFields {
            ip: 0x2000 + i,
            pid: 7,
            tid: 7,
            time: i,
            period: 1,
            callchain: vec![0x1234; (i % 20) as usize],
            ..SampleFields::default()
        };
        sample
            .encode(Misc::USER, layout, &mut out)
            .expect("short records");
    }
    out
}

fn use_of(body: RawBytes<'_>, layout: &SampleLayout) -> u64 {
    let sample = Sample::parse(body, layout).expect("good samples");
    let leaf = sample.callchain().and_then(|c| c.iter().next());
    sample.time().unwrap_or(0) ^ leaf.unwrap_or(0)
}

fn records(c: &mut Criterion) {
    let attr = Attr {
        sample_type: SampleType::IP
            | SampleType::TID
            | SampleType::TIME
            | SampleType::CPU
            | SampleType::PERIOD
            | SampleType::CALLCHAIN,
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..Attr::default()
    };
    let layout = SampleLayout::new(&attr, Endian::NATIVE);
    let bytes = samples(&layout);
    let mut group = c.benchmark_group("records");
    group.throughput(Throughput::Elements(RECORDS));
    group.bench_function("walked over", |b| {
        b.iter(|| Walk::new(black_box(&bytes), 0, Endian::NATIVE).count());
    });
    group.bench_function("of a file, samples parsed", |b| {
        b.iter(|| {
            Walk::new(black_box(&bytes), 0, Endian::NATIVE)
                .map(|walked| use_of(walked.record.body, &layout))
                .fold(0, |a, b| a ^ b)
        });
    });
    // The worst case in a ring buffer: every record wraps around the end.
    group.bench_function("of a ring's end, samples parsed", |b| {
        b.iter(|| {
            let (mut at, mut sum) = (0, 0);
            while at < bytes.len() {
                let raw = RawBytes::from(&bytes[at..]);
                let header = Header::parse(&raw, Endian::NATIVE).expect("good records");
                let whole = &bytes[at..at + usize::from(header.size)];
                let (head, tail) = whole[Header::SIZE..].split_at(24);
                let record = RawRecord {
                    kind: header.kind,
                    misc: header.misc,
                    body: RawBytes::split(head, tail),
                    endian: Endian::NATIVE,
                };
                sum ^= use_of(record.body, &layout);
                at += whole.len();
            }
            sum
        });
    });
    group.finish();
}

/// Returns the path of this process's C library, and the file range of its code.
fn c_library() -> Option<(String, u64, u64)> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = (maps.lines()).find(|l| l.contains("r-xp") && l.contains("/libc.so"))?;
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let offset = hex(words.nth(1)?)?;
    let path = words.nth(2)?.to_owned();
    Some((path, offset, hex(end)? - hex(start)?))
}

struct OneImage(UnwindTable);

impl Modules for OneImage {
    fn find(&self, _: u64) -> Option<Module<'_>> {
        Some(Module {
            table: Some(&self.0),
            bias: 0,
        })
    }
}

fn c_library_steps(c: &mut Criterion) {
    // Nothing to measure if the C library is linked statically.
    let Some((path, start, len)) = c_library() else {
        return;
    };
    let addresses: Vec<u64> = (0..ADDRESSES)
        .map(|i| start + i * (len / ADDRESSES))
        .collect();
    let mut group = c.benchmark_group("C library");
    group.throughput(Throughput::Elements(ADDRESSES));

    let bytes = std::fs::read(&path).expect("it is mapped");
    let image = OneImage(UnwindTable::parse(&bytes).expect("it has unwind information"));
    let stack: Vec<u8> = (0..512).flat_map(|_| addresses[99].to_le_bytes()).collect();
    let mut unwinder = Unwinder::new(Arch::X86_64);
    let mut frames = Vec::new();
    group.bench_function("one step of unwinding", |b| {
        b.iter(|| {
            for address in &addresses {
                // Instruction, stack and frame pointer: registers 8, 7 and 6 of perf_regs.h.
                let values = [0x7000_0800, 0x7000_0000, *address];
                let registers = Registers::from_perf(Arch::X86_64, 0b1_1100_0000, &values)
                    .expect("the mask has what it takes");
                let dump = StackDump::new(0x7000_0000, &stack);
                black_box(unwinder.unwind(&registers, &dump, &image, 2, &mut frames));
            }
        });
    });
    for inlines in [false, true] {
        let symbolizer = Symbolizer::builder().inlines(inlines).lines(false).build();
        let key = ImageKey::file(&path);
        let name = match inlines {
            false => "symbols, by address",
            true => "symbols and inlined calls, by address",
        };
        group.bench_function(name, |b| {
            b.iter(|| symbolizer.resolve_image(&key, black_box(&addresses)));
        });
    }
    group.finish();
}

criterion_group!(benches, records, c_library_steps);
criterion_main!(benches);

//! The code page cache agrees with a list of mappings over time.

use rprof_analysis::Samples;
use rprof_profile::Filter;
use rprof_records::{
    Attr, AttrFlags, ContextMarker, Endian, EventKind, Misc, Record, SampleFields, SampleId,
    SampleLayout, SampleType,
};
use rprof_symbols::Symbolizer;
use rprof_testing::Random;

/// Process, time, first address, length, file offset, path. Later entries win. Some start or end
/// within a page, which other recorders than the kernel may write.
const MAPPINGS: [(i32, u64, u64, u64, u64, &str); 7] = [
    (7, 0, 0x10_0000, 0x4000, 0, "/seven"),
    (8, 0, 0x10_0000, 0x4000, 0x9000, "/eight"),
    (7, 0, 0x20_0000, 0x1800, 0x100, "/below"),
    (7, 0, 0x20_1800, 0x2800, 0, "/above"),
    (7, 1000, 0x10_1000, 0x1000, 0x5000, "/later"),
    (7, 2000, 0x10_1400, 0x100, 0, "/within"),
    (8, 1500, 0x30_0000, 0x1000, 0, "//anon"),
];

fn expected(pid: i32, time: u64, address: u64) -> Option<(&'static str, u64)> {
    let found = MAPPINGS.iter().rfind(|(p, since, start, len, ..)| {
        *p == pid && *since <= time && (*start..start + len).contains(&address)
    });
    found.map(|(_, _, start, _, offset, path)| (*path, address - start + offset))
}

#[test]
fn each_leaf_lies_where_it_was_mapped() {
    let attr = Attr {
        kind: EventKind::SOFTWARE,
        sample_type: SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::CALLCHAIN,
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..Attr::default()
    };
    let layout = SampleLayout::new(&attr, Endian::NATIVE);
    let mut records = Vec::new();
    for (pid, time, start, len, pgoff, path) in MAPPINGS {
        let map = crate::common::mapping(pid, start, len, pgoff, path);
        let id = SampleId {
            pid: Some(pid),
            tid: Some(pid),
            time: Some(time),
            ..SampleId::default()
        };
        (Record::Mmap2(map))
            .encode(Misc::USER, &layout, &id, &mut records)
            .unwrap();
    }
    let mut numbers = Random::new(1);
    let mut random = |below: u64| numbers.below(below);
    let mut leaves = Vec::new();
    for time in 0..3000 {
        let pid = 7 + random(2) as i32;
        let address = [0x10_0000, 0x20_0000, 0x30_0000][random(3) as usize] + random(0x4800);
        leaves.push((pid, time, address));
        let sample = SampleFields {
            time,
            pid,
            tid: pid,
            ip: address,
            callchain: vec![ContextMarker::USER.0, address],
            ..SampleFields::default()
        };
        sample.encode(Misc::USER, &layout, &mut records).unwrap();
    }
    let data = crate::common::file_of(attr, &records);
    let symbolizer = Symbolizer::builder().build();
    let samples = Samples::read(&data, &symbolizer, &Filter::default());

    let mut seen = std::collections::BTreeMap::new();
    for (sample, (pid, time, address)) in samples.iter().zip(&leaves) {
        assert_eq!((sample.pid, sample.time), (*pid, *time));
        let frame = sample.frames().next().unwrap();
        let (path, offset) = match expected(*pid, *time, *address) {
            Some(("//anon", _)) => ("/tmp/perf-8.map", *address),
            Some(found) => found,
            None => ("[unknown]", *address),
        };
        let found = (&*frame.object.name, frame.address);
        assert_eq!(found, (path, offset), "{pid} at {time}: {address:#x}");
        *seen.entry(path).or_insert(0) += 1;
    }
    assert_eq!(samples.iter().count(), leaves.len());
    assert_eq!(seen.len(), 8, "{seen:?}");
}

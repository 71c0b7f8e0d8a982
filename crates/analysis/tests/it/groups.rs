//! Group reads: one event samples, and each sample has the counts of all members.

use std::io::Cursor;
use std::path::Path;

use rprof_analysis::{Options, Samples, analyse};
use rprof_perfdata::{EventDescription, FileWriter, PerfData, RecordWriter, WriteOptions};
use rprof_profile::Filter;
use rprof_records::{
    Attr, AttrFlags, Endian, EventKind, Misc, ReadFormat, ReadValue, ReadValues, SampleFields,
    SampleLayout, SampleType,
};
use rprof_symbols::Symbolizer;

fn attr(flags: AttrFlags, read_format: ReadFormat, period_or_freq: u64) -> Attr {
    Attr {
        kind: EventKind::SOFTWARE,
        period_or_freq,
        sample_type: SampleType::IP
            | SampleType::TID
            | SampleType::TIME
            | SampleType::READ
            | SampleType::ID
            | SampleType::PERIOD,
        read_format,
        flags: flags | AttrFlags::SAMPLE_ID_ALL,
        ..Attr::default()
    }
}

/// Time, thread, and counts by id.
type Made<'a> = (u64, i32, &'a [(u64, u64)]);

/// Events `a` (ids 1 and 2, for two CPUs), which samples, and `b` (3 and 4).
fn recording(flags: AttrFlags, format: ReadFormat, samples: &[Made<'_>], zip: bool) -> PerfData {
    let events =
        [("a", 1000, [1, 2]), ("b", 0, [3, 4])].map(|(name, period, ids)| EventDescription {
            attr: attr(flags, format, period),
            name: name.into(),
            ids: ids.to_vec(),
        });
    let layout = SampleLayout::new(&events[0].attr, Endian::NATIVE);
    let mut records = Vec::new();
    for (time, tid, counts) in samples {
        let value = |(id, value): &(u64, u64)| ReadValue {
            value: *value,
            id: Some(*id),
            lost: None,
        };
        let sample = SampleFields {
            id: 1,
            ip: 0x1000,
            pid: 7,
            tid: *tid,
            time: *time,
            period: 1000,
            read: ReadValues {
                values: counts.iter().map(value).collect(),
                ..ReadValues::default()
            },
            ..SampleFields::default()
        };
        sample.encode(Misc::USER, &layout, &mut records).unwrap();
    }
    let mut out = Cursor::new(Vec::new());
    let options = WriteOptions {
        compression: zip.then_some(1),
        ..WriteOptions::default()
    };
    let mut writer = FileWriter::create_with(&mut out, events.to_vec(), options).unwrap();
    writer.write_records(&records).unwrap();
    writer.finish(Default::default()).unwrap();
    PerfData::read(&out.get_ref()[..], Path::new("made up")).unwrap()
}

fn counts(data: &PerfData, filter: Filter) -> Vec<(u64, u64)> {
    let options = Options {
        filter,
        threads: 2,
        ..Options::default()
    };
    let profile = analyse(data, &Symbolizer::builder().build(), &options);
    let events = profile.events.iter();
    events.map(|e| (e.samples, e.weight)).collect()
}

fn group() -> ReadFormat {
    ReadFormat::GROUP | ReadFormat::ID
}

/// On two CPUs, out of time order.
const SAMPLES: [Made<'_>; 4] = [
    (30, 7, &[(1, 3000), (3, 50)]),
    (10, 7, &[(1, 1000), (3, 50)]),
    (20, 8, &[(2, 1000), (4, 0), (99, 5)]),
    (40, 8, &[(2, 2500), (4, 7)]),
];

#[test]
fn a_member_counts_what_it_counted_since_the_sample_before() {
    for zip in [false, true] {
        let data = recording(AttrFlags::empty(), group(), &SAMPLES, zip);
        // b counted at 10 and at 40, but not at 30.
        let all = counts(&data, Filter::default());
        assert_eq!(all, [(4, 3000 + 2500), (2, 57)]);
        let only = Filter {
            events: vec!["b".into()],
            ..Filter::default()
        };
        assert_eq!(counts(&data, only), [(0, 0), (2, 57)]);
    }
}

#[test]
fn one_by_one_they_stand_in_the_order_of_the_group() {
    let data = recording(AttrFlags::empty(), group(), &SAMPLES, false);
    let symbolizer = Symbolizer::builder().build();
    let samples = Samples::read(&data, &symbolizer, &Filter::default());
    let seen: Vec<_> = (samples.iter())
        .map(|s| (s.time, s.event, s.period))
        .collect();
    let expected = [
        (10, "a", 1000),
        (10, "b", 50),
        (20, "a", 1000),
        (30, "a", 2000),
        (40, "a", 1500),
        (40, "b", 7),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn inherited_counts_are_of_each_thread() {
    let samples: [Made<'_>; 3] = [
        (1, 7, &[(1, 1000), (3, 10)]),
        (2, 8, &[(1, 1200), (3, 30)]),
        (3, 7, &[(1, 2000), (3, 11)]),
    ];
    let data = recording(AttrFlags::INHERIT, group(), &samples, false);
    assert_eq!(counts(&data, Filter::default()), [(3, 3200), (3, 41)]);
}

#[test]
fn a_count_that_goes_down_began_anew() {
    let samples: [Made<'_>; 2] = [(1, 7, &[(1, 1000)]), (2, 7, &[(1, 5)])];
    let data = recording(AttrFlags::empty(), group(), &samples, false);
    assert_eq!(counts(&data, Filter::default()), [(2, 1005), (0, 0)]);
}

#[test]
fn counts_without_ids_are_nobodys() {
    let data = recording(AttrFlags::empty(), ReadFormat::GROUP, &SAMPLES, false);
    assert_eq!(counts(&data, Filter::default()), [(4, 4000), (0, 0)]);
}

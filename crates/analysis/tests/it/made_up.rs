//! Profiles of recordings made in memory, with known results.

use std::borrow::Cow;

use rprof_analysis::{Options, Samples, analyse};
use rprof_perfdata::{EventDescription, Feature, FeatureSections, PerfData, Walk};
use rprof_profile::{Filter, Profile};
use rprof_records::{
    Attr, AttrFlags, Comm, ContextMarker, Endian, EventKind, Lost, Misc, RawBytes, Record,
    RecordType, RegisterValues, Sample, SampleFields, SampleId, SampleLayout, SampleType, Task,
    put_record,
};
use rprof_symbols::{Reason, Symbolizer};

const EVENTS: [&str; 3] = ["cpu-clock", "page-faults", "context-switches"];

/// Id of the event with deferred user callchains.
const DEFERRED: u64 = 2;

fn attr(config: u64) -> Attr {
    Attr {
        kind: EventKind::SOFTWARE,
        config,
        sample_type: SampleType::IDENTIFIER
            | SampleType::IP
            | SampleType::TID
            | SampleType::TIME
            | SampleType::CPU
            | SampleType::PERIOD
            | SampleType::CALLCHAIN,
        flags: match config {
            DEFERRED => AttrFlags::SAMPLE_ID_ALL | AttrFlags::DEFER_CALLCHAIN,
            _ => AttrFlags::SAMPLE_ID_ALL,
        },
        ..Attr::default()
    }
}

/// Event N has the id N + 1.
#[derive(Default)]
struct Made {
    records: Vec<u8>,
}

impl Made {
    fn layout() -> SampleLayout {
        SampleLayout::new(&attr(0), Endian::NATIVE)
    }

    fn record(&mut self, time: u64, misc: Misc, record: &Record<'_>) -> &mut Self {
        let id = SampleId {
            time: Some(time),
            id: Some(1),
            ..SampleId::default()
        };
        record
            .encode(misc, &Self::layout(), &id, &mut self.records)
            .unwrap();
        self
    }

    fn comm(&mut self, time: u64, pid: i32, name: &str) -> &mut Self {
        let name = Cow::Owned(name.as_bytes().to_vec());
        self.record(
            time,
            Misc(0),
            &Record::Comm(Comm {
                pid,
                tid: pid,
                name,
            }),
        )
    }

    fn map(&mut self, time: u64, pid: i32, start: u64, path: &str) -> &mut Self {
        let map = crate::common::mapping(pid, start, 0x1000, 0, path);
        self.record(time, Misc::USER, &Record::Mmap2(map))
    }

    fn sample(&mut self, id: u64, time: u64, pid: i32, chain: &[u64]) -> &mut Self {
        let sample = SampleFields {
            id,
            time,
            pid,
            tid: pid,
            ip: chain
                .iter()
                .copied()
                .find(|a| !ContextMarker::is_marker(*a))
                .unwrap_or(0),
            cpu: (time % 2) as u32,
            period: 10,
            callchain: chain.to_vec(),
            ..SampleFields::default()
        };
        sample
            .encode(Misc::USER, &Self::layout(), &mut self.records)
            .unwrap();
        self
    }

    fn deferred(&mut self, time: u64, tid: i32, cookie: u64, user: &[u64]) -> &mut Self {
        let kind = RecordType::CALLCHAIN_DEFERRED;
        put_record(
            &mut self.records,
            kind,
            Misc::USER,
            Endian::NATIVE,
            |body| {
                let ids = u64::from(tid as u32) * ((1 << 32) + 1);
                let trailer = [ids, time, 0, DEFERRED + 1];
                let list = [cookie, user.len() as u64];
                let words = (list.iter()).chain(user).chain(&trailer);
                words.for_each(|word| body.extend(word.to_ne_bytes()));
            },
        )
        .unwrap();
        self
    }

    fn data(&self) -> PerfData {
        let events = (EVENTS.iter().zip(0..))
            .map(|(name, i)| EventDescription {
                attr: attr(i),
                name: (*name).into(),
                ids: vec![i + 1],
            })
            .collect();
        crate::common::file_of_events(events, &self.records)
    }

    fn profile(&self, filter: Filter, threads: usize) -> Profile {
        let options = Options {
            filter,
            threads,
            ..Options::default()
        };
        analyse(&self.data(), &Symbolizer::builder().build(), &options)
    }
}

/// Returns the stacks of an event as text: comm, frames from root to leaf (a name, or the object in
/// brackets), samples.
fn stacks(profile: &Profile, event: usize) -> Vec<String> {
    let mut all: Vec<String> = (profile.aggregated.iter().filter(|e| e.event == event))
        .map(|entry| {
            let mut text = profile.comm(entry.thread).to_owned();
            for id in profile.stack(entry.stack) {
                let function = profile.function(id);
                text.push(';');
                match &function.name {
                    Ok(name) => text.push_str(name),
                    Err(_) => text += &format!("[{}]", profile.object(function.object).name),
                }
            }
            format!("{text} {}", entry.samples)
        })
        .collect();
    all.sort();
    all
}

#[test]
fn a_lookup_names_the_time_of_its_sample() {
    let mut made = Made::default();
    // Order in the file does not matter.
    made.sample(1, 15, 7, &[ContextMarker::USER.0, 0x1010])
        .sample(1, 25, 7, &[ContextMarker::USER.0, 0x1010])
        .sample(1, 5, 7, &[ContextMarker::USER.0, 0x1010])
        .map(20, 7, 0x1000, "/new")
        .map(10, 7, 0x1000, "/old")
        .comm(22, 7, "later")
        .comm(1, 7, "first");
    let profile = made.profile(Filter::default(), 1);
    assert_eq!(
        stacks(&profile, 0),
        ["first;[/old] 1", "first;[[unknown]] 1", "later;[/new] 1"]
    );
    assert_eq!(profile.quality.unnamed[&Reason::Unmapped], 1);
    assert_eq!(profile.quality.frames, 3);
}

#[test]
fn events_are_told_apart_by_id_and_an_unknown_id_is_told() {
    let mut made = Made::default();
    made.map(0, 7, 0x1000, "/bin/x");
    for (id, n) in [(1, 3), (2, 2), (99, 1)] {
        for time in 0..n {
            made.sample(id, time, 7, &[ContextMarker::USER.0, 0x1010]);
        }
    }
    let profile = made.profile(Filter::default(), 1);
    let counts: Vec<_> = profile
        .events
        .iter()
        .map(|e| (e.samples, e.weight))
        .collect();
    assert_eq!(counts, [(3, 30), (2, 20), (0, 0)]);
    assert!(
        profile
            .quality
            .warnings
            .iter()
            .any(|w| w.starts_with("skipped 1 sample: the file does not describe the event"))
    );
    let only = Filter {
        events: vec!["page-faults".into()],
        ..Filter::default()
    };
    let profile = made.profile(only, 1);
    assert_eq!(profile.main_event(), Some(1));
    assert_eq!(profile.events[0].samples, 0);
}

#[test]
fn kernel_symbols_come_from_the_recording() {
    let mut made = Made::default();
    let symbol = Record::Ksymbol {
        addr: 0xffff_ffff_c000_1000,
        len: 0x100,
        ksym_type: 1,
        flags: 0,
        name: Cow::Borrowed(b"bpf_prog_1234_count"),
    };
    let chain = [
        ContextMarker::KERNEL.0,
        0xffff_ffff_c000_1010,
        ContextMarker::USER.0,
        0x1010,
    ];
    made.comm(0, 7, "x")
        .record(1, Misc::KERNEL, &symbol)
        .sample(1, 2, 7, &chain)
        .sample(1, 3, 7, &[ContextMarker::GUEST_KERNEL.0, 0x5000]);
    let profile = made.profile(Filter::default(), 1);
    assert_eq!(
        stacks(&profile, 0),
        [
            "x;[[guest.kernel]] 1",
            "x;[[unknown]];bpf_prog_1234_count 1"
        ]
    );
    assert_eq!(profile.quality.unnamed[&Reason::Guest], 1);
}

#[test]
fn deferred_user_parts_are_joined_by_thread_and_cookie() {
    let mut made = Made::default();
    let kernel = [ContextMarker::KERNEL.0, 0xffff_ffff_c000_1010];
    let deferred = |cookie| [ContextMarker::USER_DEFERRED.0, cookie];
    let id = DEFERRED + 1;
    let of = |cookie| [kernel, deferred(cookie)].concat();
    made.comm(0, 7, "x")
        .comm(0, 8, "y")
        .map(1, 7, 0x1000, "/program")
        .map(1, 8, 0x2000, "/other")
        // One record serves all samples of a stay in the kernel, per thread.
        .sample(id, 2, 7, &of(0x1010))
        .sample(id, 3, 7, &of(0x1010))
        .sample(id, 3, 8, &of(0x1010))
        .sample(id, 3, 8, &of(0x99))
        // A sample in user mode has no kernel part: its cookie must not become an address.
        .sample(id, 4, 7, &deferred(0x1020))
        .sample(1, 4, 7, &of(0x1010))
        .sample(1, 5, 7, &deferred(0x1010))
        .deferred(6, 7, 0x1010, &[ContextMarker::USER.0, 0x1010, 0x1020])
        .deferred(6, 8, 0x1010, &[ContextMarker::USER.0, 0x2010])
        .deferred(6, 7, 0x1020, &[ContextMarker::USER.0, 0x1040]);
    for threads in [1, 2] {
        let profile = made.profile(Filter::default(), threads);
        assert_eq!(
            stacks(&profile, DEFERRED as usize),
            [
                "x;[/program] 1",
                "x;[/program];[/program];[[kernel.kallsyms]] 2",
                "y;[/other];[[kernel.kallsyms]] 1",
                "y;[[kernel.kallsyms]] 1",
            ]
        );
        let stacks = &profile.quality.stacks;
        assert!(stacks.truncated >= 1, "{stacks:?}");
    }
}

#[test]
fn losses_and_throttling_are_totalled() {
    let mut made = Made::default();
    made.record(1, Misc(0), &Record::Lost(Lost { id: 1, lost: 5 }))
        .record(2, Misc(0), &Record::LostSamples { lost: 2 });
    let throttle = Record::Throttle {
        time: 3,
        id: 1,
        stream_id: 1,
    };
    made.record(3, Misc(0), &throttle).sample(1, 4, 7, &[1]);
    let profile = made.profile(Filter::default(), 1);
    assert_eq!((profile.quality.lost, profile.quality.throttled), (7, 1));
    assert_eq!(profile.events[0].lost, 7);
}

#[test]
fn filters_select() {
    let mut made = Made::default();
    made.comm(0, 7, "left").comm(0, 8, "right");
    for time in 1..=10 {
        made.sample(
            1,
            time,
            7 + (time % 2) as i32,
            &[ContextMarker::USER.0, 0x1010],
        );
    }
    let samples = |filter| made.profile(filter, 1).events[0].samples;
    let none = Filter::default;
    assert_eq!(samples(none()), 10);
    assert_eq!(
        samples(Filter {
            comms: vec!["left".into()],
            ..none()
        }),
        5
    );
    assert_eq!(
        samples(Filter {
            pids: vec![8],
            ..none()
        }),
        5
    );
    assert_eq!(
        samples(Filter {
            tids: vec![8, 7],
            ..none()
        }),
        10
    );
    assert_eq!(
        samples(Filter {
            cpus: vec![0],
            time: Some((3, 7)),
            ..none()
        }),
        2
    );
    let nobody = made.profile(
        Filter {
            comms: vec!["nobody".into()],
            ..none()
        },
        1,
    );
    assert_eq!(nobody.events[0].samples, 0);
    assert!(nobody.quality.warnings.iter().any(|w| w.contains("nobody")));
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let mut made = Made::default();
    for pid in 1..20 {
        made.comm(1, pid, &format!("p{}", pid % 5))
            .map(1, pid, 0x1000, &format!("/bin/{pid}"));
        let fork = Task {
            pid: pid + 100,
            ppid: pid,
            tid: pid + 100,
            ptid: pid,
            time: 2,
        };
        made.record(2, Misc(0), &Record::Fork(fork));
    }
    for i in 0..60_000u64 {
        let pid = 1 + (i % 19) as i32 + if i % 3 == 0 { 100 } else { 0 };
        let chain: Vec<u64> = std::iter::once(ContextMarker::USER.0)
            .chain((0..i % 7).map(|d| 0x1000 + d * 16 + i % 50))
            .collect();
        made.sample(1 + i % 2, 3 + i, pid, &chain);
    }
    let one = made.profile(Filter::default(), 1);
    for threads in [2, 5] {
        let other = made.profile(Filter::default(), threads);
        for event in 0..2 {
            assert_eq!(stacks(&one, event), stacks(&other, event));
        }
        assert_eq!(one.quality, other.quality);
        assert_eq!(one.time, other.time);
    }
    assert_eq!(one.events[0].samples + one.events[1].samples, 60_000);
}

#[test]
fn losses_are_those_of_what_filters_want() {
    let mut made = Made::default();
    for (time, tid, cpu, lost) in [(10, 7, 0, 5), (20, 8, 1, 3)] {
        let id = SampleId {
            time: Some(time),
            id: Some(1),
            pid: Some(tid),
            tid: Some(tid),
            cpu: Some(cpu),
            ..SampleId::default()
        };
        let record = Record::Lost(Lost { id: 1, lost });
        record
            .encode(Misc(0), &Made::layout(), &id, &mut made.records)
            .unwrap();
        made.sample(1, time + 1, tid, &[1]);
    }
    let lost = |filter| {
        let profile = made.profile(filter, 1);
        assert_eq!(profile.events[0].lost, profile.quality.lost);
        (profile.quality.lost, profile.quality.recorded)
    };
    let all = Filter::default;
    assert_eq!(lost(all()), (8, 2));
    assert_eq!(
        lost(Filter {
            tids: vec![7],
            ..all()
        }),
        (5, 1)
    );
    assert_eq!(
        lost(Filter {
            pids: vec![8],
            ..all()
        }),
        (3, 1)
    );
    assert_eq!(
        lost(Filter {
            time: Some((15, 30)),
            ..all()
        }),
        (3, 1)
    );
    assert_eq!(
        lost(Filter {
            symbols: vec!["none".into()],
            ..all()
        }),
        (8, 2)
    );
}

fn warnings_on(attr: &Attr, records: &[u8], features: FeatureSections) -> Vec<String> {
    let events = vec![EventDescription {
        attr: attr.clone(),
        name: "cpu-clock".into(),
        ids: vec![1],
    }];
    let data = crate::common::file_with(events, records, features);
    let symbolizer = Symbolizer::builder().build();
    let profile = analyse(&data, &symbolizer, &Options::default());
    let samples = Samples::read(&data, &symbolizer, &Filter::default());
    assert_eq!(profile.quality.warnings, samples.warnings());
    profile.quality.warnings
}

fn records_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    Walk::new(bytes, 0, Endian::NATIVE)
        .map(|walked| walked.bytes.to_vec())
        .collect()
}

#[test]
fn records_of_unknown_types_are_told() {
    let mut made = Made::default();
    for time in 0..9 {
        made.sample(1, time, 7, &[ContextMarker::USER.0, 0x1010]);
    }
    assert_eq!(
        warnings_on(&attr(0), &made.records, FeatureSections::default()),
        [""; 0]
    );
    let mut records = records_of(&made.records);
    let types = [0, 63, 87, 255, 0x7fff_ffff, u32::MAX];
    for (record, kind) in records.iter_mut().zip(types) {
        record[..4].copy_from_slice(&u32::to_ne_bytes(kind));
    }
    let warnings = warnings_on(&attr(0), &records.concat(), FeatureSections::default());
    assert_eq!(
        warnings,
        ["skipped 6 records of unknown type (0, 63, 87, 255): from a newer recorder, or damaged"]
    );
}

#[test]
fn a_record_without_a_size_is_told_with_its_offset() {
    let mut made = Made::default();
    for time in 0..3 {
        made.sample(1, time, 7, &[ContextMarker::USER.0, 0x1010]);
    }
    let mut records = records_of(&made.records);
    records[1][6..8].fill(0);
    let warnings = warnings_on(&attr(0), &records.concat(), FeatureSections::default());
    let [warning] = &warnings[..] else {
        panic!("{warnings:?}");
    };
    assert!(warning.contains("damaged at byte"), "{warning}");
}

#[test]
fn fields_that_contradict_the_size_of_a_sample_are_told() {
    let mut made = Made::default();
    for time in 0..3 {
        made.sample(1, time, 7, &[ContextMarker::USER.0, 0x1010, 0x1020]);
    }
    // One address fewer than recorded.
    let mut records = records_of(&made.records);
    let count = records[1].len() - 4 * 8;
    records[1][count..count + 8].copy_from_slice(&2u64.to_ne_bytes());
    let inconsistent =
        "1 sample whose fields contradict the size: they count, but their stacks may be wrong";
    assert_eq!(
        warnings_on(&attr(0), &records.concat(), FeatureSections::default()),
        [inconsistent]
    );

    let copies = Attr {
        sample_type: SampleType::IP
            | SampleType::TID
            | SampleType::TIME
            | SampleType::REGS_USER
            | SampleType::STACK_USER,
        sample_regs_user: 1,
        sample_stack_user: 4096,
        ..attr(0)
    };
    let layout = SampleLayout::new(&copies, Endian::NATIVE);
    let sample = SampleFields {
        stack_user: vec![0; 4096],
        stack_user_reserved: 4096,
        regs_user: RegisterValues {
            abi: 2,
            values: vec![0],
        },
        ..SampleFields::default()
    };
    let mut whole = Vec::new();
    sample.encode(Misc::USER, &layout, &mut whole).unwrap();
    assert_eq!(
        warnings_on(&copies, &whole, FeatureSections::default()),
        [""; 0]
    );
    for size in [1u64, 4088] {
        let mut record = whole.clone();
        let at = layout_of_dump(&whole, &layout);
        record[at..at + 8].copy_from_slice(&size.to_ne_bytes());
        assert_eq!(
            warnings_on(&copies, &record, FeatureSections::default()),
            [inconsistent]
        );
    }
}

fn layout_of_dump(record: &[u8], layout: &SampleLayout) -> usize {
    let sample = Sample::parse(RawBytes::from(&record[8..]), layout).unwrap();
    8 + sample.stack_user_offset().unwrap()
}

#[test]
fn samples_without_fields_are_told() {
    let mut made = Made::default();
    made.sample(1, 1, 7, &[ContextMarker::USER.0, 0x1010]);
    for (fields, told) in [
        (SampleType::empty(), "any field"),
        (SampleType::TID | SampleType::TIME, "an address"),
    ] {
        let attr = Attr {
            sample_type: fields,
            ..attr(0)
        };
        let warnings = warnings_on(&attr, &made.records, FeatureSections::default());
        let expected = format!("1 sample of cpu-clock without {told}: unknown code");
        assert!(warnings.contains(&expected), "{warnings:?}");
    }
}

#[test]
fn sections_of_unknown_kinds_are_told() {
    let mut made = Made::default();
    made.sample(1, 1, 7, &[ContextMarker::USER.0, 0x1010]);
    let mut features = FeatureSections::default();
    for number in [40, 99] {
        features.insert(Feature(number), vec![1; 8]);
    }
    assert_eq!(
        warnings_on(&attr(0), &made.records, features.clone()),
        ["skipped 2 header sections of unknown type (40, 99): from a newer recorder"]
    );
    // They are no cause of missing samples.
    assert_eq!(
        warnings_on(&attr(0), &Made::default().records, features),
        [""; 0]
    );
}

//! Read, write, read: the profile does not depend on the file's form.

mod made;

use std::io::{Cursor, ErrorKind};
use std::path::Path;

use proptest::prelude::*;
use rprof_analysis::{Options, analyse};
use rprof_perfdata::{
    EventDescription, Feature, FeatureSections, FileWriter, PerfData, RecordAt, RecordWriter,
    RecordedEvent, WriteOptions, rewrite, rewrite_pipe,
};
use rprof_profile::{EventSummary, Quality};
use rprof_records::{Endian, Record, SampleFields, SampleLayout, SampleType};
use rprof_symbols::Symbolizer;

use made::{Made, any_made, file};

const KERNEL: &[u8] = b"\
ffffffff81000000 T _text
ffffffff81000000 T f
ffffffff81000800 t g
ffffffff82000000 T _etext
";

fn symbolizer() -> Symbolizer {
    let builder = Symbolizer::builder().kernel_list(KERNEL.to_vec());
    builder.debug_dirs(Vec::new()).perf_cache(None).build()
}

#[derive(Debug, PartialEq)]
struct Seen {
    events: Vec<EventSummary>,
    /// Event, thread name, process, thread, stack, samples, weight.
    entries: Vec<(usize, String, i32, i32, String, u64, u64)>,
    quality: Quality,
    time: Option<(u64, u64)>,
    has_callchains: bool,
}

fn seen(data: &PerfData, symbolizer: &Symbolizer) -> Seen {
    let options = Options {
        by_thread: true,
        threads: 1,
        ..Options::default()
    };
    let profile = analyse(data, symbolizer, &options);
    let frame = |id| {
        let function = profile.function(id);
        let object = profile.object(function.object);
        format!("{:?} {:?} {object:?}", function.name, function.position)
    };
    let mut entries: Vec<_> = (profile.aggregated.iter())
        .map(|e| {
            let stack: Vec<_> = profile.stack(e.stack).map(frame).collect();
            let comm = profile.comm(e.thread).to_owned();
            let stack = stack.join(";");
            let thread = profile.thread(e.thread);
            let (pid, tid) = (thread.pid.unwrap_or(-1), thread.tid.unwrap_or(-1));
            (e.event, comm, pid, tid, stack, e.samples, e.weight)
        })
        .collect();
    entries.sort();
    Seen {
        events: profile.events,
        entries,
        quality: profile.quality,
        time: profile.time,
        has_callchains: profile.has_callchains,
    }
}

fn check(data: &PerfData, symbolizer: &Symbolizer, with_warnings: bool) {
    let see = |data: &PerfData| {
        let mut seen = seen(data, symbolizer);
        if !with_warnings {
            seen.quality.warnings.clear();
            seen.quality.damaged = false;
        }
        seen
    };
    let expected = see(data);
    let again = |way: &str, bytes: &[u8]| {
        let again = PerfData::read(bytes, data.path()).expect("as it was written");
        let name = data.path().display();
        assert_eq!(see(&again), expected, "{name} as {way}");
    };
    for (way, compression) in [("plain", None), ("compressed", Some(1))] {
        let mut out = Cursor::new(Vec::new());
        rewrite(data, &mut out, compression).expect("memory takes all");
        again(&format!("a {way} file"), out.get_ref());
        let mut out = Vec::new();
        match rewrite_pipe(data, &mut out, compression) {
            Ok(_) => again(&format!("a {way} stream"), &out),
            Err(e) => assert_eq!(e.kind(), ErrorKind::InvalidInput, "{e}"),
        }
    }
    // Stack dumps have their machine's byte order.
    let has_dumps = |event: &RecordedEvent| event.attr.sample_type.contains(SampleType::STACK_USER);
    if !data.events().list().iter().any(has_dumps) {
        again("a file in the other byte order", &swapped(data));
    }
}

/// Returns the recording in the other byte order, as far as the profile depends on it.
fn swapped(data: &PerfData) -> Vec<u8> {
    let endian = match data.endian() {
        Endian::Little => Endian::Big,
        Endian::Big => Endian::Little,
    };
    let events = (data.events().list().iter())
        .map(|event| EventDescription {
            attr: event.attr.clone(),
            name: event.name.clone(),
            ids: event.ids.clone(),
        })
        .collect();
    let options = WriteOptions {
        endian,
        compression: None,
    };
    let mut out = Cursor::new(Vec::new());
    let mut writer = FileWriter::create_with(&mut out, events, options).expect("memory");
    for block in data.blocks().filter_map(Result::ok) {
        for walked in block.walk().filter(|w| !w.record.kind.is_user()) {
            let records = swapped_record(data, &walked, endian);
            writer.write_records(&records).expect("memory");
        }
    }
    let mut features = FeatureSections::new(endian);
    features.insert_build_ids(&data.features().build_ids().unwrap_or_default());
    for feature in [Feature::HOSTNAME, Feature::OSRELEASE] {
        if let Some(text) = data.features().string(feature) {
            features.insert_string(feature, &text);
        }
    }
    writer.finish(features).expect("memory");
    out.into_inner()
}

fn swapped_record(data: &PerfData, walked: &RecordAt<'_>, endian: Endian) -> Vec<u8> {
    let record = &walked.record;
    let mut out = Vec::new();
    let layout = data.events().layout_of(record);
    let event = (data.events().list().iter()).find(|e| Some(&e.layout) == layout);
    let (Some(event), Ok(decoded)) = (event, Record::decode(record, layout)) else {
        return out;
    };
    let other = SampleLayout::new(&event.attr, endian);
    let id = event.layout.sample_id(record);
    let encoded = match &decoded {
        Record::Sample(sample) => SampleFields::from(sample).encode(record.misc, &other, &mut out),
        _ => decoded.encode(record.misc, &other, &id, &mut out),
    };
    encoded.expect("no longer than it was");
    out
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn a_made_up_recording_has_the_same_profile_however_it_is_written(
        all in prop::collection::vec((0..50u64, any_made()), 1..60),
        count in 1..4usize,
        here in any::<bool>(),
        compress in any::<bool>(),
    ) {
        let symbolizer = symbolizer();
        let read = |endian| {
            let compression = compress.then_some(1);
            let bytes = file(count, &all, here, WriteOptions { endian, compression });
            PerfData::read(&bytes[..], Path::new("made up")).expect("as it was written")
        };
        let (little, big) = (read(Endian::Little), read(Endian::Big));
        let (first, second) = (seen(&little, &symbolizer), seen(&big, &symbolizer));
        prop_assert_eq!(&first, &second);
        let samples = all.iter().filter(|(_, m)| matches!(m, Made::Sample { .. })).count() as u64;
        prop_assert_eq!(first.events.iter().map(|e| e.samples).sum::<u64>(), samples);
        check(&little, &symbolizer, true);
        check(&big, &symbolizer, true);
    }
}

#[test]
fn a_capture_has_the_same_profile_however_it_is_written() {
    let symbolizer = symbolizer();
    for path in rprof_testing::recordings() {
        if let Ok(data) = PerfData::open(&path) {
            // Damage warnings contain positions, and the rewritten file has no damage.
            check(&data, &symbolizer, false);
        }
    }
}

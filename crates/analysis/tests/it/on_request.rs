//! Optional addresses and columns of a profile equal the single samples.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rprof_analysis::{Options, Samples, analyse};
use rprof_perfdata::PerfData;
use rprof_profile::{FrameAddress, Profile, ProfileSample, ThreadId};
use rprof_records::{
    Attr, AttrFlags, ContextMarker, Endian, EventKind, Misc, Record, SampleFields, SampleId,
    SampleLayout, SampleType,
};
use rprof_symbols::Symbolizer;
use rprof_testing::Random;

const BASE: u64 = 0x5500_0000_0000;

/// More samples than the threshold for canonical addresses.
const SAMPLES: u64 = 24_000;

fn recording() -> PerfData {
    let attr = Attr {
        kind: EventKind::SOFTWARE,
        sample_type: SampleType::IP
            | SampleType::TID
            | SampleType::TIME
            | SampleType::CPU
            | SampleType::CALLCHAIN
            | SampleType::PERIOD,
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..Attr::default()
    };
    let layout = SampleLayout::new(&attr, Endian::NATIVE);
    let program = std::env::current_exe().unwrap();
    let len = std::fs::metadata(&program).unwrap().len();
    let mut records = Vec::new();
    let map = crate::common::mapping(7, BASE, len, 0, program.to_str().unwrap());
    (Record::Mmap2(map))
        .encode(Misc::USER, &layout, &SampleId::default(), &mut records)
        .unwrap();
    let mut random = Random::new(1);
    for n in 0..SAMPLES {
        let mut callchain = vec![ContextMarker::USER.0];
        callchain.extend((0..1 + n % 3).map(|_| BASE + random.below(len / 6)));
        let sample = SampleFields {
            time: n ^ 5,
            pid: 7,
            tid: 7 + (n % 2) as i32,
            cpu: (n % 4) as u32,
            ip: callchain[1],
            period: 1 + random.below(5),
            callchain,
            ..SampleFields::default()
        };
        sample.encode(Misc::USER, &layout, &mut records).unwrap();
    }
    crate::common::file_of(attr, &records)
}

/// Name or reason, object, address, inlined, line.
type Frame = (String, String, u64, bool, Option<(String, u32)>);

fn frames_of(profile: &Profile, stack: rprof_profile::StackId) -> Vec<Frame> {
    let frames = profile.frames(stack).rev().map(|id| {
        let frame = profile.frame(id);
        let function = profile.function(frame.function);
        let line = frame.line.map(|line| {
            let file = profile.files[line.file.0 as usize].to_string();
            (file, line.line)
        });
        (
            format!("{:?}", function.name),
            profile.object(function.object).name.to_string(),
            frame.address.unwrap().address(),
            frame.inline_depth > 0,
            line,
        )
    });
    frames.collect()
}

#[test]
fn columns_with_addresses_are_the_samples_one_by_one() {
    let data = recording();
    let symbolizer = Symbolizer::builder().root(Some(PathBuf::from("/"))).build();
    let options = Options {
        by_thread: true,
        addresses: true,
        columns: true,
        streams: true,
        threads: 2,
        ..Options::default()
    };
    let profile = analyse(&data, &symbolizer, &options);
    let samples = Samples::read(&data, &symbolizer, &options.filter);
    let columns = profile.samples.as_ref().unwrap();
    assert_eq!(columns.len() as u64, SAMPLES);
    assert!(columns.times().is_sorted());
    let mut inlined = 0;
    let mut returns = 0;
    for (column, sample) in columns.iter().zip(samples.iter()) {
        let thread = profile.thread(column.thread);
        let found = (
            column.time,
            column.cpu,
            thread.pid,
            thread.tid,
            column.weight,
        );
        let expected = (
            sample.time,
            sample.cpu,
            Some(sample.pid),
            Some(sample.tid),
            sample.period,
        );
        assert_eq!(found, expected);
        let expected: Vec<Frame> = (sample.frames())
            .map(|f| {
                let line = f.line.map(|line| (line.file.to_owned(), line.line));
                let name = format!("{:?}", f.function.name);
                (name, f.object.name.to_string(), f.address, f.inlined, line)
            })
            .collect();
        let found = frames_of(&profile, column.stack);
        assert_eq!(found, expected, "at {}", column.time);
        inlined += expected.iter().filter(|f| f.3).count();
        let callers = profile
            .frames(column.stack)
            .map(|id| profile.frame(id).address);
        returns += callers
            .filter(|a| matches!(a, Some(FrameAddress::ReturnAddress(_))))
            .count();
    }
    assert!(inlined > 1000 && returns > 1000, "{inlined} {returns}");

    let streams = profile.streams.as_ref().unwrap();
    assert_eq!(streams.len(), columns.len());
    for thread in (0..profile.threads.len() as u32).map(ThreadId) {
        let streamed = streams.of(thread).map(|sample| {
            let entry = &profile.aggregated[sample.entry as usize];
            ProfileSample {
                time: sample.time,
                cpu: sample.cpu,
                thread: entry.thread,
                stack: entry.stack,
                event: entry.event,
                weight: sample.weight,
            }
        });
        let expected = columns.iter().filter(|sample| sample.thread == thread);
        assert!(streamed.eq(expected), "{thread:?}");
    }

    let mut sums = BTreeMap::new();
    for sample in columns.iter() {
        let sum: &mut (u64, u64) = sums.entry((sample.thread, sample.stack)).or_default();
        *sum = (sum.0 + 1, sum.1 + sample.weight);
    }
    for entry in &profile.aggregated {
        let sum = sums.remove(&(entry.thread, entry.stack));
        assert_eq!(sum, Some((entry.samples, entry.weight)));
    }
    assert!(sums.is_empty());
}

#[test]
fn inlined_calls_are_told_apart_without_addresses() {
    let data = recording();
    let symbolizer = Symbolizer::builder().root(Some(PathBuf::from("/"))).build();
    let shown = |addresses, inlined| {
        let options = Options {
            addresses,
            inlined,
            ..Options::default()
        };
        let profile = analyse(&data, &symbolizer, &options);
        let mut shown: BTreeMap<Vec<(String, bool)>, u64> = BTreeMap::new();
        for entry in &profile.aggregated {
            let frames = profile.frames(entry.stack).map(|id| profile.frame(id));
            let name = |id| format!("{:?}", profile.function(id).name);
            let frames = frames.map(|frame| (name(frame.function), frame.inline_depth > 0));
            *shown.entry(frames.collect()).or_default() += entry.samples;
        }
        (profile.has_addresses(), shown)
    };
    let (_, expected) = shown(true, false);
    let (has_addresses, found) = shown(false, true);
    assert!(!has_addresses);
    assert_eq!(found, expected);
    assert!(found.keys().flatten().any(|(_, inlined)| *inlined));
    let (_, plain) = shown(false, false);
    assert!(!plain.keys().flatten().any(|(_, inlined)| *inlined));
}

#[test]
fn without_being_asked_for_neither_is_kept() {
    let data = recording();
    let symbolizer = Symbolizer::builder().root(Some(PathBuf::from("/"))).build();
    let plain = analyse(&data, &symbolizer, &Options::default());
    assert!(plain.samples.is_none() && !plain.has_addresses());
    let options = Options {
        columns: true,
        ..Options::default()
    };
    let columns = analyse(&data, &symbolizer, &options);
    assert_eq!(
        columns.samples.as_ref().map(|c| c.len() as u64),
        Some(SAMPLES)
    );
    assert!(!columns.has_addresses());
    assert_eq!(columns.aggregated.len(), plain.aggregated.len());
    assert_eq!(columns.events, plain.events);
    assert_eq!(columns.quality, plain.quality);
}

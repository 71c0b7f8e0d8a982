//! Profiles with canonical addresses equal those with all addresses.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rprof_analysis::{Options, Samples, analyse};
use rprof_perfdata::PerfData;
use rprof_records::{
    Attr, AttrFlags, ContextMarker, Endian, EventKind, Misc, Record, SampleFields, SampleId,
    SampleLayout, SampleType,
};
use rprof_symbols::{Reason, Symbolizer};
use rprof_testing::Random;

/// Enough samples for canonical addresses.
const SAMPLES: u64 = 24_000;

const BASE: u64 = 0x5500_0000_0000;

fn recording(sample_type: SampleType) -> PerfData {
    let attr = Attr {
        kind: EventKind::SOFTWARE,
        sample_type,
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..Attr::default()
    };
    let layout = SampleLayout::new(&attr, Endian::NATIVE);
    let program = std::env::current_exe().unwrap();
    let len = std::fs::metadata(&program).unwrap().len();
    let mut records = Vec::new();
    let mut map = |start, len, path: &str| {
        let map = crate::common::mapping(7, start, len, 0, path);
        (Record::Mmap2(map))
            .encode(Misc::USER, &layout, &SampleId::default(), &mut records)
            .unwrap();
    };
    map(BASE, len, program.to_str().unwrap());
    map(0x1000, 0x1000, "//anon");
    map(0x8000, 0x1000, "/nowhere/to/be/found");
    let mut random = Random::new(1);
    for time in 0..SAMPLES {
        let mut address = || match random.below(8) {
            0 => random.below(0x10_000),
            _ => BASE + random.below(len / 6),
        };
        let mut callchain = vec![ContextMarker::USER.0];
        callchain.extend((0..1 + time % 4).map(|_| address()));
        let sample = SampleFields {
            time,
            pid: 7,
            tid: 7 + (time / 3000) as i32,
            ip: callchain[1],
            period: 1 + random.below(5),
            callchain,
            ..SampleFields::default()
        };
        sample.encode(Misc::USER, &layout, &mut records).unwrap();
    }
    crate::common::file_of(attr, &records)
}

/// Sums by thread and stack of names, leaf first.
type Stacks = BTreeMap<(String, Vec<Result<Box<str>, Reason>>), (u64, u64)>;

fn add(
    stacks: &mut Stacks,
    comm: &str,
    names: impl Iterator<Item = Result<Box<str>, Reason>>,
    amount: (u64, u64),
) {
    let sum = stacks
        .entry((comm.to_owned(), names.collect()))
        .or_default();
    *sum = (sum.0 + amount.0, sum.1 + amount.1);
}

#[test]
fn functions_are_the_same_with_and_without_addresses() {
    let usual = SampleType::IP
        | SampleType::TID
        | SampleType::TIME
        | SampleType::CALLCHAIN
        | SampleType::PERIOD;
    let here = Some(PathBuf::from("/"));
    let symbolizer = Symbolizer::builder().root(here).inlines(false).lines(false);
    let symbolizer = symbolizer.build();
    // The second form disables the fast parser.
    for sample_type in [usual, usual | SampleType::CGROUP] {
        let data = recording(sample_type);
        let options = Options {
            threads: 2,
            ..Options::default()
        };
        let profile = analyse(&data, &symbolizer, &options);
        let mut of_profile = Stacks::new();
        for entry in &profile.aggregated {
            let functions = profile.stack(entry.stack).rev();
            let names = functions.map(|f| profile.function(f).name.clone());
            let comm = profile.comm(entry.thread);
            add(&mut of_profile, comm, names, (entry.samples, entry.weight));
        }
        let mut of_samples = Stacks::new();
        for sample in Samples::read(&data, &symbolizer, &options.filter).iter() {
            let names = sample.frames().map(|frame| frame.function.name.clone());
            add(&mut of_samples, sample.comm, names, (1, sample.period));
        }
        assert!(of_profile == of_samples);
        assert_eq!(profile.comms.len(), 8);
        assert_eq!(profile.events[0].samples, SAMPLES);
        let named = of_samples
            .keys()
            .flat_map(|(_, stack)| stack)
            .filter(|name| name.is_ok());
        assert!(named.count() > 1000);
        let leaves: std::collections::BTreeSet<_> = of_samples
            .keys()
            .filter_map(|(_, stack)| stack.first())
            .collect();
        assert!(
            leaves.len() > 200 && leaves.len() < 10_000,
            "{}",
            leaves.len()
        );
    }
}

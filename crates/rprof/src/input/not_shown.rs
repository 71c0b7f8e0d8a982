//! Data in a recording that rprof does not show, with the command that does.

use rprof_perfdata::{Feature, PerfData, RecordedEvent};
use rprof_records::words::data_source::MemoryOperation;
use rprof_records::{Attr, AttrFlags, BranchSampleType, RecordType, Sample, SampleType};

use crate::cli::SampleFilterArgs;
use crate::wording::messages::say;

pub(crate) fn tell(data: &PerfData, filter: &SampleFilterArgs, quiet: bool) {
    if quiet {
        return;
    }
    let file = data.path().display().to_string();
    let events = data.events().list();
    let attrs: Vec<(&str, &Attr)> = events.iter().map(|e| (&*e.name, &e.attr)).collect();
    let beside = Beside {
        traces: data.features().has(Feature::AUXTRACE),
        data_sources: holds_data_sources(data),
        shows_switches: filter.needs_switches(),
    };
    for (what, command) in unshown(&attrs, beside) {
        say(format_args!(
            "{file} holds {what}, not shown here: use `{command} -i {file}`"
        ));
    }
}

/// Properties of a recording beyond its events.
#[derive(Clone, Copy, Debug, Default)]
struct Beside {
    traces: bool,
    data_sources: bool,
    /// Weights or filters use the records of context switches.
    shows_switches: bool,
}

/// Returns unshown data of these events, with the command that shows it.
fn unshown(events: &[(&str, &Attr)], beside: Beside) -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    let has = |wanted: SampleType| {
        let mut attrs = events.iter().map(|(_, attr)| attr.sample_type);
        attrs.any(|fields| fields.intersects(wanted))
    };
    if beside.traces {
        found.push(("traces of the processor", "perf script --itrace=i1us"));
    }
    // Call branches form stacks.
    let branches = |(_, attr): &(&str, &Attr)| {
        attr.sample_type.contains(SampleType::BRANCH_STACK)
            && !attr
                .branch_sample_type
                .contains(BranchSampleType::CALL_STACK)
    };
    if events.iter().any(branches) {
        found.push((
            "branches taken before each sample",
            "perf report --branch-history",
        ));
    }
    if beside.data_sources {
        found.push(("addresses and sources of data", "perf mem report"));
    }
    if has(SampleType::TRANSACTION) {
        found.push(("transactions", "perf report --sort transaction,symbol"));
    }
    let is_named = |prefix: &str| events.iter().any(|(name, _)| name.starts_with(prefix));
    for (prefix, what, command) in [
        (
            "sched:sched_wakeup",
            "wake-ups with their delays",
            "perf sched latency",
        ),
        (
            "lock:",
            "locks with their waiting times",
            "perf lock report",
        ),
        ("kmem:", "allocations of the kernel", "perf kmem stat"),
    ] {
        if is_named(prefix) {
            found.push((what, command));
        }
    }
    let switches = |(_, attr): &(&str, &Attr)| attr.flags.contains(AttrFlags::CONTEXT_SWITCH);
    if events.iter().any(switches) && !beside.shows_switches {
        found.push(("context switches", "rprof report --latency"));
    }
    found
}

/// Maximum number of records searched for data sources.
const LOOKED_AT: usize = 100_000;

/// Returns true if samples have data sources. The field alone proves nothing: perf requests it in
/// each recording with stack dumps (`--call-graph dwarf`), and the kernel writes `PERF_MEM_NA` for
/// events without one.
fn holds_data_sources(data: &PerfData) -> bool {
    let events = data.events();
    let has_field = |event: &RecordedEvent| event.attr.sample_type.contains(SampleType::DATA_SRC);
    if !events.list().iter().any(has_field) {
        return false;
    }
    let mut left = LOOKED_AT;
    for block in data.blocks().map_while(Result::ok) {
        for walked in block.walk() {
            if left == 0 {
                return false;
            }
            left -= 1;
            if walked.record.kind != RecordType::SAMPLE {
                continue;
            }
            let layout = events.layout_of(&walked.record);
            let sample = layout.and_then(|layout| Sample::parse(walked.record.body, layout).ok());
            let source = sample.and_then(|sample| sample.data_src());
            let known = MemoryOperation::all() - MemoryOperation::NOT_AVAILABLE;
            if source.is_some_and(|source| source.operation().intersects(known)) {
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::path::Path;

    use rprof_perfdata::{EventDescription, FeatureSections, FileWriter, RecordWriter};
    use rprof_records::{Endian, Misc, SampleFields, SampleLayout};

    use super::*;

    fn of(name: &str, attr: &Attr, traces: bool) -> Vec<&'static str> {
        let beside = Beside {
            traces,
            ..Beside::default()
        };
        let found = unshown(&[(name, attr)], beside);
        found.into_iter().map(|(_, command)| command).collect()
    }

    #[test]
    fn what_is_recorded_and_not_shown_is_named_with_its_command() {
        let fields = |sample_type| Attr {
            sample_type,
            ..Attr::default()
        };
        let plain = SampleType::IP | SampleType::TID | SampleType::CALLCHAIN;
        assert_eq!(of("cpu-clock", &fields(plain), false), [""; 0]);
        assert_eq!(
            of("cycles", &fields(plain), true),
            ["perf script --itrace=i1us"]
        );
        let branches = fields(plain | SampleType::BRANCH_STACK);
        assert_eq!(
            of("cycles", &branches, false),
            ["perf report --branch-history"]
        );
        let stacks = Attr {
            branch_sample_type: BranchSampleType::CALL_STACK,
            ..branches
        };
        assert_eq!(of("cycles", &stacks, false), [""; 0]);
        assert_eq!(
            of("sched:sched_wakeup", &fields(plain), false),
            ["perf sched latency"]
        );
        assert_eq!(
            of("lock:contention_begin:u", &fields(plain), false),
            ["perf lock report"]
        );
        let switches = Attr {
            flags: AttrFlags::CONTEXT_SWITCH,
            ..Attr::default()
        };
        assert_eq!(of("dummy", &switches, false), ["rprof report --latency"]);
    }

    /// Returns whether a recording with these data sources counts as having some.
    fn is_told(sources: &[u64]) -> bool {
        let attr = Attr {
            sample_type: SampleType::IP | SampleType::ADDR | SampleType::DATA_SRC,
            ..Attr::default()
        };
        let layout = SampleLayout::new(&attr, Endian::NATIVE);
        let mut records = Vec::new();
        for source in sources {
            let sample = SampleFields {
                data_src: *source,
                ..SampleFields::default()
            };
            let written = sample.encode(Misc::USER, &layout, &mut records);
            written.expect("it fits");
        }
        let events = vec![EventDescription {
            attr,
            name: "cycles".into(),
            ids: Vec::new(),
        }];
        let mut bytes = Cursor::new(Vec::new());
        let mut writer = FileWriter::create(&mut bytes, events).expect("memory takes it");
        writer.write_records(&records).expect("memory takes it");
        let written = writer.finish(FeatureSections::default());
        written.expect("memory takes it");
        let data = PerfData::read(&bytes.get_ref()[..], Path::new("x")).expect("it is right");
        holds_data_sources(&data)
    }

    #[test]
    fn data_sources_that_are_not_available_are_none() {
        // `PERF_MEM_NA`, with and without the level number.
        let none = [0x0005_0800_2100_0021, 0x5_0810_0021, 0x1, 0];
        assert!(!is_told(&none));
        assert!(!is_told(&[]));
        // A load from the L1 cache: `PERF_MEM_OP_LOAD`, `PERF_MEM_LVL_L1 | PERF_MEM_LVL_HIT`.
        let load = 0x2 | (0x8 | 0x2) << 5;
        assert!(is_told(&[none[0], load]));
    }
}

//! Tests of the syntax, on a machine simulated by folders.

mod lookups;
mod places;

use crate::generic;
use crate::{Event, EventError, EventParser, EventStacks, Ignored, Resolver, SamplingRate};
use places::Functions;
use rprof_records::{Attr, AttrFlags, ReadFormat, SampleType};
use std::fs;

/// A fictional machine, in a temporary folder.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Machine {
        let machine = Machine {
            folder: tempfile::tempdir().unwrap(),
        };
        for (path, text) in [
            ("pmu/cpu/type", "4\n"),
            ("pmu/cpu/format/event", "config:0-7,32-35\n"),
            ("pmu/cpu/format/umask", "config:8-15\n"),
            ("pmu/cpu/format/edge", "config:18\n"),
            ("pmu/cpu/format/ldlat", "config1:0-15\n"),
            ("pmu/cpu/format/frontend", "config3:0-23\n"),
            ("pmu/cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"),
            ("pmu/cpu/events/cycles-t", "event=0x3c\n"),
            ("pmu/cpu/events/topdown", "event=0x1,umask=?\n"),
            ("pmu/cpu/events/topdown.scale", "2\n"),
            ("pmu/uncore_imc_0/type", "20\n"),
            ("pmu/uncore_imc_0/cpumask", "0,2\n"),
            ("pmu/uncore_imc_0/format/event", "config:0-7\n"),
            ("pmu/uncore_imc_0/events/reads", "event=0x4\n"),
            ("pmu/uncore_imc_1/type", "21\n"),
            ("pmu/uncore_imc_1/cpumask", "0\n"),
            ("pmu/uncore_imc_1/events/reads", "event=0x4\n"),
            ("pmu/uncore_imc_1/format/event", "config:0-7\n"),
            ("pmu/uprobe/type", "8\n"),
            ("pmu/uprobe/format/retprobe", "config:0\n"),
            ("trace/events/sched/sched_switch/id", "316\n"),
            ("trace/events/sched/sched_wakeup/id", "318\n"),
            ("trace/events/sched/enable", "0\n"),
            ("trace/events/irq/softirq_entry/id", "50\n"),
            ("trace/events/ftrace/function/format", "name: function\n"),
        ] {
            machine.put(path, text);
        }
        machine
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn parser(&self) -> EventParser<'_> {
        EventParser::new()
            .pmus(self.folder.path().join("pmu"))
            .tracefs(self.folder.path().join("trace"))
    }

    fn list(&self, text: &str) -> Vec<Event> {
        (self.parser().parse_list(text)).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn attr(&self, text: &str) -> Attr {
        let mut attr = Attr::default();
        let event = self.parser().parse(text);
        event
            .unwrap_or_else(|e| panic!("{text}: {e}"))
            .apply(&mut attr);
        attr
    }

    fn error(&self, text: &str) -> EventError {
        self.parser().parse_list(text).unwrap_err()
    }
}

fn numbers(text: &str) -> (u32, u64) {
    let event = Event::parse(text).unwrap();
    (event.kind().0, event.config())
}

#[test]
fn generic_names_have_the_numbers_of_the_kernel() {
    assert_eq!(numbers("cycles"), (0, 0));
    assert_eq!(numbers("cpu-cycles"), (0, 0));
    assert_eq!(numbers("CACHE-MISSES"), (0, 3));
    assert_eq!(numbers("cpu-clock"), (1, 0));
    assert_eq!(numbers("faults"), (1, 2));
    assert_eq!(numbers("cs"), (1, 3));
    assert_eq!(numbers("r1a8"), (4, 0x1a8));
    assert_eq!(numbers("rffffffffffffffff"), (4, u64::MAX));
    assert_eq!(numbers("L1-dcache-load-misses"), (3, 0x1_0000));
    assert_eq!(numbers("LLC-stores"), (3, 0x0_0102));
}

#[test]
fn the_canonical_name_is_kept_with_its_modifiers() {
    let describe = |text| Event::parse(text).unwrap().describe();
    assert_eq!(describe("faults"), "page-faults");
    assert_eq!(describe("cpu-cycles:u"), "cycles:u");
    assert_eq!(describe("cycles:ku"), "cycles:uk");
    assert_eq!(describe("cycles:Dpp"), "cycles:ppD");
    assert_eq!(describe(" cs "), "context-switches");
    assert_eq!(describe("cs/freq=7/k"), "context-switches/freq=7/k");
    assert_eq!(describe("cs/name=mine/k"), "mine");
}

#[test]
fn errors_suggest_similar_names() {
    let Err(EventError::Unknown { near, .. }) = Event::parse("cache-mises") else {
        panic!("should not be known");
    };
    assert_eq!(near[0], "cache-misses");
    let shown = Event::parse("cpuclock").unwrap_err().to_string();
    assert!(shown.contains("cpu-clock"), "{shown}");
    let shown = Event::parse("cycles:q").unwrap_err().to_string();
    assert!(shown.contains("`q`"), "{shown}");
    for text in [
        "cycles:",
        "",
        "rxyz",
        "r",
        "r11112222333344445",
        "cycles:u:k",
        "cycles,cs",
    ] {
        assert!(Event::parse(text).is_err(), "{text}");
    }
    assert!(matches!(
        Event::parse("user_time"),
        Err(EventError::CountedOnly { .. })
    ));
    let twice = Event::parse("cycles:uku").unwrap_err().to_string();
    assert!(
        twice.contains("`u`") && twice.contains("is repeated"),
        "{twice}"
    );
}

#[test]
fn every_listed_name_is_found_under_itself() {
    for name in generic::all() {
        assert_eq!(Machine::new().parser().parse(&name).unwrap().name(), name);
    }
}

#[test]
fn a_list_is_split_at_commas() {
    let events = Event::parse_list("cycles:u, faults").unwrap();
    let names: Vec<_> = events.iter().map(Event::describe).collect();
    assert_eq!(names, ["cycles:u", "page-faults"]);
    assert!(Event::parse_list("").unwrap().is_empty());
    for incomplete in [",", "cs,", ",cs", "cs,,faults"] {
        assert!(Event::parse_list(incomplete).is_err(), "{incomplete}");
    }
}

#[test]
fn groups_have_a_leader_and_add_their_letters() {
    let events = Machine::new().list("cs,{cycles:u,faults,cs:p}:Sk,{dummy:De,cs}:e");
    let shown: Vec<_> = (events.iter())
        .map(|e| (e.describe(), e.group(), e.is_leader()))
        .collect();
    assert_eq!(
        shown,
        [
            ("context-switches".into(), None, true),
            ("cycles:ukS".into(), Some(0), true),
            ("page-faults:kS".into(), Some(0), false),
            ("context-switches:kpS".into(), Some(0), false),
            ("dummy:De".into(), Some(1), true),
            ("context-switches:e".into(), Some(1), false),
        ]
    );
    let attr = |event: &Event| {
        let mut attr = Attr {
            flags: AttrFlags::FREQ | AttrFlags::INHERIT,
            period_or_freq: 999,
            ..Attr::default()
        };
        event.apply(&mut attr);
        attr
    };
    let (leader, member) = (attr(&events[1]), attr(&events[2]));
    for attr in [&leader, &member] {
        assert!(attr.read_format.contains(ReadFormat::GROUP));
        assert!(attr.sample_type.contains(SampleType::READ));
        assert!(!attr.flags.contains(AttrFlags::INHERIT));
    }
    assert!(leader.flags.contains(AttrFlags::FREQ) && leader.period_or_freq == 999);
    assert!(!member.flags.contains(AttrFlags::FREQ) && member.period_or_freq == 0);
    assert!(
        attr(&events[4])
            .flags
            .contains(AttrFlags::PINNED | AttrFlags::EXCLUSIVE)
    );
    assert!(!attr(&events[5]).flags.contains(AttrFlags::EXCLUSIVE));
}

#[test]
fn terms_of_any_event_become_settings() {
    let machine = Machine::new();
    let settings = |text| machine.list(text)[0].settings().clone();
    assert_eq!(
        machine.list("cs/freq=100/")[0].rate(),
        Some(SamplingRate::Frequency(100))
    );
    // The last one wins.
    assert_eq!(
        settings("cs/freq=100,period=0x10/").rate,
        Some(SamplingRate::Period(16))
    );
    let all = settings("cpu/event=1,call-graph=dwarf,stack-size=4096,max-stack=9,no-inherit/");
    assert_eq!(all.stacks, Some(EventStacks::Dwarf));
    assert_eq!((all.stack_size, all.max_stack), (Some(4096), Some(9)));
    assert_eq!(all.inherit, Some(false));
    for text in [
        "cs/freq=0/",
        "cs/freq/",
        "cs/freq=x/",
        "cs/freq=+1/",
        "cs/name=/",
        "cs/call-graph=magic/",
        "cs/max-stack=65536/",
        "cs/percore=2/",
        "cs/time=2/",
        "cs/overwrite/",
        "cs/period=99999999999999999999/",
    ] {
        let error = machine.error(text);
        assert!(
            matches!(error, EventError::TermValue { .. }),
            "{text}: {error}"
        );
    }
}

#[test]
fn parts_without_effect_on_sampling_are_named() {
    let ignored = |text| Event::parse(text).unwrap().ignored_when_sampled();
    assert_eq!(ignored("cpu-clock:b"), [Ignored::BpfCounters]);
    assert_eq!(ignored("cpu-clock/percore/"), [Ignored::PerCore]);
    assert_eq!(
        ignored("cpu-clock/time=0,percore=1/bu"),
        [Ignored::BpfCounters, Ignored::PerCore, Ignored::NoTime]
    );
    for none in ["cpu-clock:u", "cpu-clock/time/", "cs/time=1,percore=0/"] {
        assert!(ignored(none).is_empty(), "{none}");
    }
    let group = Machine::new().list("{cs,faults}:b");
    assert!(
        group
            .iter()
            .all(|e| e.ignored_when_sampled() == [Ignored::BpfCounters])
    );
    for part in ignored("cpu-clock/time=0,percore/b") {
        assert!(part.to_string().contains("has no effect"), "{part}");
    }
}

#[test]
fn precision_steps_down() {
    let event = Event::parse("cycles:P").unwrap();
    assert_eq!((event.precise(), event.any_precise()), (3, true));
    let lower = event.with_precise(2);
    assert_eq!((lower.precise(), lower.describe()), (2, "cycles:pp".into()));
}

#[test]
fn no_text_makes_it_panic() {
    use proptest::prelude::*;

    let machine = Machine::new();
    let parser = machine.parser().resolver(&Functions);
    let texts = "[a-z0-9:/,{}=' .+*?\\[\\]-]{0,40}|\\PC{0,20}";
    let mut runner = proptest::test_runner::TestRunner::default();
    let run = runner.run(&texts, |text| {
        for around in [
            "",
            "mem:",
            "uprobe:/bin/x:",
            "cpu/",
            "kprobe:",
            "L1-",
            "{cs,",
            "cs:",
            "*:",
        ] {
            if let Err(error) = parser.parse_list(&format!("{around}{text}")) {
                prop_assert!(!error.to_string().is_empty());
            }
        }
        Ok(())
    });
    run.unwrap();
}

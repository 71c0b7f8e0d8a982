//! Tests of machine-specific names: PMUs, tracepoints, and the catalog.

use super::*;
use crate::list::{Availability, Catalog, ListKind};
use crate::tracefs::TracefsError;

#[test]
fn terms_of_a_pmu_go_where_its_formats_say() {
    let machine = Machine::new();
    let attr = machine.attr("cpu/event=0x28f,umask=3,edge,ldlat=7,frontend=0x15/");
    assert_eq!(attr.kind.0, 4);
    assert_eq!(attr.config, 0x2_0004_038f);
    assert_eq!((attr.config1, attr.config2, attr.config3), (7, 0, 0x15));
    let named = machine.attr("cpu/mem-loads,ldlat=4/ppu");
    // Bits are combined, as in perf.
    assert_eq!((named.config, named.config1), (0x1cd, 7));
    assert_eq!(named.precise_ip(), 2);
    assert!(named.flags.contains(AttrFlags::EXCLUDE_KERNEL));
    assert_eq!(machine.attr("cpu/event=mem-loads/").config, 0x1cd);
    assert_eq!(machine.attr("cpu/r1a8/").config, 0x1a8);
    assert_eq!(machine.attr("cpu/r0x1a8/").config, 0x1a8);
    assert_eq!(machine.attr("cpu/config=5,config2=0x10/").config2, 0x10);
    assert_eq!(machine.attr("cpu/topdown,umask=0x20/").config, 0x2001);
    // `cycles-t` works, although `cycles` is generic.
    assert_eq!(machine.attr("cycles-t").config, 0x3c);
    assert_eq!(machine.attr("mem-loads:u").config1, 3);
    assert_eq!(machine.list("cpu/event=1,name='a,b'/")[0].describe(), "a,b");
}

#[test]
fn a_pmu_is_meant_by_name_pattern_or_without_its_number() {
    let machine = Machine::new();
    for text in ["imc/reads/", "uncore_imc/reads/", "*imc*/event=4/", "reads"] {
        let events = machine.list(text);
        let kinds: Vec<u32> = events.iter().map(|e| e.kind().0).collect();
        assert_eq!(kinds, [20, 21], "{text}");
        assert_eq!(events[0].cpus(), Some(&[0, 2][..]), "{text}");
    }
    assert_eq!(machine.list("uncore_imc_1/reads/").len(), 1);
    assert_eq!(machine.list("cpu/event=1/")[0].cpus(), None);
}

#[test]
fn an_event_says_what_one_count_stands_for() {
    let machine = Machine::new();
    let scale = |text| machine.list(text)[0].scale().map(parts);
    let of_topdown = Some((2.0, String::new()));
    assert_eq!(scale("cpu/topdown,umask=0x20/"), of_topdown);
    assert_eq!(scale("cpu/mem-loads/"), None);
    assert_eq!(scale("page-faults"), None);
}

fn parts(scale: &crate::pmu::Scale) -> (f64, String) {
    (scale.factor(), scale.unit().to_owned())
}

#[test]
fn errors_list_what_a_pmu_has() {
    let machine = Machine::new();
    let shown = machine.error("cpu/umsak=1/").to_string();
    assert!(
        shown.contains("did you mean") && shown.contains("umask"),
        "{shown}"
    );
    assert!(
        shown.contains("mem-loads") && !shown.contains(".scale"),
        "{shown}"
    );
    let shown = machine.error("cpo/event=1/").to_string();
    assert!(
        shown.contains("no PMU `cpo`") && shown.contains("uncore_imc_0"),
        "{shown}"
    );
    let shown = machine.error("cpu/umask=0x100/").to_string();
    assert!(
        shown.contains("8 bits") && shown.contains("0xff"),
        "{shown}"
    );
    let shown = machine.error("cpu/topdown/").to_string();
    assert!(shown.contains("umask=?"), "{shown}");
    let shown = machine.error("cycles/umask=1/").to_string();
    assert!(shown.contains("the event `cycles`"), "{shown}");
    for text in ["../cpu/event=1/", "/event=1/", "./x/"] {
        assert!(machine.parser().parse_list(text).is_err(), "{text}");
    }
}

#[test]
fn two_kinds_of_cores_count_by_a_pmu_each() {
    let machine = Machine::new();
    machine.put("pmu/cpu_core/type", "4\n");
    machine.put("pmu/cpu_core/cpus", "0-3\n");
    machine.put("pmu/cpu_atom/type", "10\n");
    machine.put("pmu/cpu_atom/cpus", "4-5\n");
    let events = machine.list("instructions:u,cpu-clock,r1a8");
    let shown: Vec<_> = (events.iter())
        .map(|e| {
            (
                e.describe(),
                e.kind().0,
                e.config(),
                e.cpus().map(<[u32]>::to_vec),
            )
        })
        .collect();
    let (core, atom) = (Some(vec![0, 1, 2, 3]), Some(vec![4, 5]));
    assert_eq!(
        shown,
        [
            (
                "cpu_atom/instructions/u".into(),
                0,
                10 << 32 | 1,
                atom.clone()
            ),
            (
                "cpu_core/instructions/u".into(),
                0,
                4 << 32 | 1,
                core.clone()
            ),
            ("cpu-clock".into(), 1, 0, None),
            ("cpu_atom/r1a8/".into(), 10, 0x1a8, atom),
            ("cpu_core/r1a8/".into(), 4, 0x1a8, core),
        ]
    );
}

#[test]
fn tracepoints_are_found_by_name_pattern_and_number() {
    let machine = Machine::new();
    let event = &machine.list("sched:sched_switch:k")[0];
    assert_eq!((event.kind().0, event.config()), (2, 316));
    assert_eq!(event.tracepoint(), Some(("sched", "sched_switch")));
    assert_eq!(event.describe(), "sched:sched_switch:k");
    assert!(event.needs_raw() && event.default_period() == Some(1));
    assert!(
        machine
            .attr("sched:sched_switch")
            .sample_type
            .contains(SampleType::RAW)
    );
    let names = |text| -> Vec<String> { machine.list(text).iter().map(Event::describe).collect() };
    assert_eq!(
        names("sched:*"),
        ["sched:sched_switch", "sched:sched_wakeup"]
    );
    assert_eq!(
        names("*:*entry,cs"),
        ["irq:softirq_entry", "context-switches"]
    );
    assert_eq!(
        names("*:sched_[s]*/call-graph=no/"),
        ["sched:sched_switch/call-graph=no/"]
    );
    assert_eq!(machine.list("2:316")[0].tracepoint(), event.tracepoint());
    assert_eq!(machine.list("2:9999")[0].tracepoint(), None);
}

#[test]
fn errors_suggest_similar_tracepoints() {
    let machine = Machine::new();
    let near = |text| match machine.error(text) {
        EventError::UnknownTracepoint { near, .. } => near,
        other => panic!("{other}"),
    };
    assert_eq!(near("sched:sched_swich"), ["sched:sched_switch"]);
    assert_eq!(
        near("shced:sched_wakeup"),
        ["sched:sched_wakeup", "sched:*"]
    );
    assert!(near("none:*").is_empty());
    // ftrace's own events have no number.
    assert!(near("ftrace:function").is_empty());
    // A misspelt name with letters.
    assert!(matches!(
        machine.error("cylces:u"),
        EventError::Unknown { .. }
    ));
    let nowhere = machine.parser().tracefs("/nonexistent");
    let error = nowhere.parse("sched:sched_switch").unwrap_err();
    assert!(matches!(
        error,
        EventError::Tracefs {
            source: TracefsError::NotMounted,
            ..
        }
    ));
}

#[test]
fn the_catalog_has_events_of_every_kind() {
    let machine = Machine::new();
    let folder = machine.folder.path();
    let catalog = Catalog::read_from(&ListKind::ALL, &folder.join("pmu"), &folder.join("trace"));
    let names = |kind| -> Vec<&str> {
        let of_kind = catalog.events.iter().filter(|listed| listed.kind == kind);
        of_kind.map(|listed| listed.name.as_str()).collect()
    };
    assert_eq!(
        names(ListKind::Tracepoint),
        [
            "irq:softirq_entry",
            "sched:sched_switch",
            "sched:sched_wakeup"
        ]
    );
    let pmu = names(ListKind::Pmu);
    assert!(
        pmu.contains(&"cpu/mem-loads/") && pmu.contains(&"uncore_imc_1/reads/"),
        "{pmu:?}"
    );
    assert!(
        pmu.contains(&"cpu/edge=N,event=N,frontend=N,ldlat=N,umask=N/"),
        "{pmu:?}"
    );
    assert_eq!(names(ListKind::Software).len(), 12);
    let kprobe = catalog
        .events
        .iter()
        .find(|listed| listed.name.starts_with("kprobe:"));
    assert_eq!(
        kprobe.map(|listed| listed.availability),
        Some(Availability::Missing)
    );
    assert_eq!(catalog.no_tracepoints, None);
    for listed in catalog
        .events
        .iter()
        .filter(|listed| !listed.name.contains(['=', '[']))
    {
        let typed = machine.parser().parse_list(&listed.name);
        let form = ["rHEX", "cpu/topdown/"].contains(&listed.name.as_str());
        assert!(
            form || typed.is_ok() || listed.kind == ListKind::Probe,
            "{}",
            listed.name
        );
    }

    let form = names(ListKind::Breakpoint);
    assert_eq!(form, ["mem:ADDRESS[/LENGTH][:ACCESS]"]);

    let nowhere = Catalog::read_from(&[ListKind::Tracepoint], folder, &folder.join("none"));
    assert!(nowhere.events.is_empty());
    assert_eq!(nowhere.no_tracepoints, Some(TracefsError::NotMounted));
    assert_eq!(ListKind::named("HW"), Some(ListKind::Hardware));
    assert_eq!(ListKind::named("cycles"), None);
}

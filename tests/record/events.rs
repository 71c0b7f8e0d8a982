//! Events: attrs compared with perf's for the same text, and several events in one recording.

use std::collections::BTreeMap;

use rprof_events::{Event, SamplingRate};
use rprof_records::{Attr, AttrFlags, ReadFormat, SampleType};

use crate::support::{Here, Run, c, needs};

/// Fields of an attr, as printed by `-vv`.
type Fields = BTreeMap<String, u64>;

const TEXTS: &[&str] = &[
    "cycles",
    "cpu-cycles:u",
    "instructions:k",
    "cache-misses:uk",
    "branches:h",
    "branch-misses:ukh",
    "bus-cycles:I",
    "ref-cycles:G",
    "stalled-cycles-frontend:H",
    "idle-cycles-backend:GH",
    "cache-references:uG",
    "cycles:p",
    "cycles:ppu",
    "cycles:upp",
    "cycles:ppp",
    "cycles:pGp",
    "cycles:P",
    "cycles:Pu",
    "cpu-clock",
    "cpu-clock:D",
    "cpu-clock:e",
    "cpu-clock:W",
    "cpu-clock:b",
    "cpu-clock:S",
    "task-clock:kD",
    "faults",
    "minor-faults:u",
    "major-faults",
    "cs",
    "migrations",
    "alignment-faults",
    "emulation-faults",
    "cgroup-switches",
    "dummy:k",
    "bpf-output",
    "bpf-output/no-inherit/",
    "cpu-clock/freq=100/",
    "cpu-clock/period=0x100/u",
    "cpu-clock/freq=100,period=3/",
    "cpu-clock/period=3,freq=100/",
    "cpu-clock/config1=3,config2=0x10/",
    "page-faults/no-inherit/",
    "page-faults/inherit=0,name=mine/k",
    "L1-dcache",
    "L1-dcache-loads",
    "L1-dcache-load-misses",
    "l1d-loads-misses:u",
    "L1-data-prefetch-refs",
    "L1-icache-prefetches",
    "LLC-stores:k",
    "L2-speculative-read-miss",
    "dTLB-load-misses",
    "Data-TLB-write-miss",
    "iTLB-loads",
    "branch-load-misses",
    "bpc",
    "node-prefetch-misses",
    "r1a8",
    "r1A8:u",
    "rffffffffffffffff",
    "0:1",
    "1:0x2:u",
    "4:0x1a8",
    "mem:0x1000",
    "mem:4096/1:w",
    "mem:0x1000/2:r:u",
    "mem:0x1000/8:rw:k",
    "mem:0x7fffffffffff:x",
    "mem:0x1000:u",
];

/// PMU events, for machines that have them.
const OF_PMUS: &[(&str, &[&str])] = &[
    (
        "msr",
        &[
            "tsc",
            "tsc:u",
            "msr/tsc/",
            "msr/tsc/k",
            "msr/event=0x3/",
            "msr/event=3,config2=5,period=7/",
            "msr/r4/",
            "msr/config=0xffffffffffffffff/",
        ],
    ),
    (
        "uprobe",
        &["uprobe/retprobe/", "uprobe/ref_ctr_offset=0x10,retprobe=1/"],
    ),
    (
        "cpu",
        &[
            "cpu/event=0x3c/",
            "cpu/event=0x3c,umask=0x1/pp",
            "cpu/r1a8/",
            "cpu/cycles/",
            "cpu/cache-misses,period=100/u",
        ],
    ),
];

const OF_TRACEFS: &[&str] = &[
    "sched:sched_switch",
    "sched:sched_switch:u",
    "sched:sched_switch/call-graph=no/",
    "sched:sched_wak*",
    "sched:sched_process_[ef]*:k",
    "syscalls:sys_enter_openat",
];

/// Event lists that every machine can open.
const LISTS: &[&str] = &[
    "cpu-clock,page-faults:u,cs",
    "{cpu-clock,page-faults}",
    "{cpu-clock,page-faults}:S",
    "{cpu-clock:u,page-faults,cs:k}:SD",
    "{page-faults:De,cs:D}:u",
    "dummy,{cs,migrations}:u,{faults:k,task-clock}:k",
];

#[test]
fn event_attrs_are_those_of_perf() {
    needs!(PerfEvents, Perf);
    let mut texts: Vec<&str> = TEXTS.iter().chain(LISTS).copied().collect();
    for (pmu, of_it) in OF_PMUS {
        if std::path::Path::new("/sys/bus/event_source/devices")
            .join(pmu)
            .exists()
        {
            texts.extend(*of_it);
        }
    }
    compare_all(&texts);
}

#[test]
fn tracepoint_attrs_are_those_of_perf() {
    needs!(Kernel, Perf, Tracepoints);
    compare_all(OF_TRACEFS);
}

fn compare_all(texts: &[&str]) {
    std::thread::scope(|scope| {
        for some in texts.chunks(texts.len().div_ceil(8)) {
            scope.spawn(move || {
                let here = Here::new();
                some.iter().for_each(|text| compare(&here, text));
            });
        }
    });
}

/// Compares all attrs, or only the first if the kernel rejects it.
fn compare(here: &Here, text: &str) {
    let run = here
        .perf("record -B -N -vv -o perf.data -e")
        .arg(text)
        .arg("--")
        .arg("true")
        .run();
    let perf = asked_for(&run);
    let events = Event::parse_list(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let opened = perf.iter().take_while(|(_, failed)| !failed).count();
    let compared = events.len().min(opened.max(1));
    assert!(perf.len() >= compared, "perf asked for less in\n{run}");
    let mut ours: Vec<Fields> = events.iter().map(fields).collect();
    let mut theirs: Vec<Fields> = perf
        .into_iter()
        .map(|(attr, _)| attr)
        .take(compared)
        .collect();
    ours.truncate(compared);
    if text.contains('*') {
        let by_config = |fields: &Fields| fields.get("config").copied();
        ours.sort_by_key(by_config);
        theirs.sort_by_key(by_config);
    }
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs, "rprof's and perf's attr of `{text}`");
    }
}

fn fields(event: &Event) -> Fields {
    let rate = match (event.rate(), event.default_period()) {
        (Some(rate), _) => rate,
        (None, Some(period)) => SamplingRate::Period(period),
        (None, None) => SamplingRate::Frequency(4000),
    };
    let mut attr = Attr {
        flags: AttrFlags::INHERIT,
        ..Attr::default()
    };
    match rate {
        SamplingRate::Frequency(hertz) => {
            attr.flags |= AttrFlags::FREQ;
            attr.period_or_freq = hertz;
        }
        SamplingRate::Period(period) => attr.period_or_freq = period,
    }
    event.apply(&mut attr);
    let has = |flag| u64::from(attr.flags.contains(flag));
    let mut fields = Fields::new();
    for (name, value) in [
        ("type", u64::from(attr.kind.0)),
        ("config", attr.config),
        ("{ sample_period, sample_freq }", attr.period_or_freq),
        ("freq", has(AttrFlags::FREQ)),
        ("{ bp_addr, config1 }", attr.config1),
        ("{ bp_len, config2 }", attr.config2),
        ("bp_type", u64::from(attr.bp_type)),
        ("precise_ip", u64::from(attr.precise_ip())),
        ("inherit", has(AttrFlags::INHERIT)),
        ("pinned", has(AttrFlags::PINNED)),
        ("exclusive", has(AttrFlags::EXCLUSIVE)),
        ("exclude_user", has(AttrFlags::EXCLUDE_USER)),
        ("exclude_kernel", has(AttrFlags::EXCLUDE_KERNEL)),
        ("exclude_hv", has(AttrFlags::EXCLUDE_HV)),
        ("exclude_idle", has(AttrFlags::EXCLUDE_IDLE)),
        ("exclude_host", has(AttrFlags::EXCLUDE_HOST)),
        ("exclude_guest", has(AttrFlags::EXCLUDE_GUEST)),
        ("RAW", u64::from(attr.sample_type.contains(SampleType::RAW))),
        (
            "READ",
            u64::from(attr.sample_type.contains(SampleType::READ)),
        ),
        (
            "GROUP",
            u64::from(attr.read_format.contains(ReadFormat::GROUP)),
        ),
    ] {
        if value != 0 {
            fields.insert(name.to_owned(), value);
        }
    }
    fields
}

/// Returns perf's attrs, and whether the kernel rejected each.
fn asked_for(run: &Run) -> Vec<(Fields, bool)> {
    let mut asked: Vec<(Fields, bool)> = Vec::new();
    let mut within = false;
    for line in run.err().lines() {
        let line = line.trim();
        if line == "perf_event_attr:" {
            asked.push((Fields::new(), false));
            within = true;
        } else if line.starts_with("---") {
            within = false;
        } else if line.contains("sys_perf_event_open failed") {
            if let Some((_, failed)) = asked.last_mut() {
                *failed = true;
            }
        } else if let (true, Some((fields, _))) = (within, asked.last_mut()) {
            read_field(line, fields);
        }
    }
    asked
}

fn read_field(line: &str, fields: &mut Fields) {
    let (name, value) = line.rsplit_once(' ').unwrap_or((line, "1"));
    let name = name.trim();
    let flags: Vec<&str> = value.split('|').collect();
    match name {
        "sample_type" => {
            for flag in ["RAW", "READ"].into_iter().filter(|f| flags.contains(f)) {
                fields.insert(flag.to_owned(), 1);
            }
        }
        "read_format" => {
            if flags.contains(&"GROUP") {
                fields.insert("GROUP".to_owned(), 1);
            }
        }
        "size"
        | "disabled"
        | "enable_on_exec"
        | "mmap"
        | "mmap2"
        | "comm"
        | "comm_exec"
        | "task"
        | "sample_id_all"
        | "ksymbol"
        | "bpf_event"
        | "build_id"
        | "watermark"
        | "{ wakeup_events, wakeup_watermark }" => {}
        name => {
            let number = match value.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => value.parse(),
            };
            let number = number.unwrap_or_else(|e| panic!("{e} in {line:?}"));
            fields.insert(name.to_owned(), number);
        }
    }
}

/// A program with 300 page faults and 40 sleeps.
const PAGES: u64 = 300;
const SLEEPS: u64 = 40;

#[test]
fn several_events_are_told_apart_everywhere() {
    needs!(Kernel);
    let here = Here::new();
    let list = "cpu-clock/freq=999/,page-faults/period=1/u,context-switches/period=1/";
    here.record(&format!("--call-graph fp -e {list}"), &c("events.c"), "");
    let names = [
        "cpu-clock/freq=999/",
        "page-faults/period=1/u",
        "context-switches/period=1/",
    ];

    let report = here.report("");
    let of_report: Vec<&str> = report.events.iter().map(|e| e.name.as_str()).collect();
    assert_eq!(of_report, names);
    let [_clock, faults, switches] = &report.events[..] else {
        unreachable!("three were compared");
    };
    let touching = faults.row("touch").self_samples;
    assert_eq!(touching, PAGES, "each page is touched once");
    assert!(
        switches.samples >= SLEEPS,
        "each sleep is a switch: {}",
        switches.samples
    );

    let script = here.rprof("script -F event").ok().out();
    let shown = |name: &str| {
        script
            .lines()
            .filter(|l| l.trim() == format!("{name}:"))
            .count()
    };
    for event in &report.events {
        assert_eq!(
            shown(&event.name) as u64,
            event.samples,
            "of {}",
            event.name
        );
    }
    let faults_alone = here.report(&format!("--event {}", names[1]));
    assert_eq!(faults_alone.only().samples, faults.samples);
    let folded = here
        .rprof("collapse --weight samples --event")
        .arg(names[1])
        .ok()
        .out();
    let weight: u64 = (folded.lines())
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok())
        .sum();
    assert_eq!(weight, faults.samples, "folded stacks of\n{folded}");
    let header = here.rprof("header").ok();
    for name in names {
        header.prints(name);
    }
}

#[test]
fn group_members_are_read_with_their_leader() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-e {page-faults:u,dummy:u}:S", &c("events.c"), "");
    let report = here.report("");
    let names: Vec<(&str, u64)> = report
        .events
        .iter()
        .map(|e| (e.name.as_str(), e.samples))
        .collect();
    let leader = report.events.iter().find(|e| e.name == "page-faults:uS");
    assert!(leader.is_some_and(|e| e.samples > 0), "{names:?}");
    let member = report.events.iter().find(|e| e.name == "dummy:uS");
    assert!(member.is_none_or(|e| e.samples == 0), "{names:?}");
}

#[test]
fn tracepoint_fields_are_those_of_perf() {
    needs!(Kernel, Perf, Tracepoints);
    let here = Here::new();
    let events = "sched:sched_switch,syscalls:sys_enter_*sleep,page-faults";
    here.record(&format!("-e {events}"), &c("events.c"), "");
    let fields = |text: String| -> Vec<String> {
        let lines = text
            .lines()
            .filter(|line| line.contains("sched:sched_switch:"));
        lines.map(|line| line.trim().to_owned()).collect()
    };
    let ours = fields(here.rprof("script -F event,trace").ok().out());
    let perf = here.perf("script -F event,trace").ok();
    let theirs = fields(perf.out());
    // libtraceevent prints this for a section that it cannot parse.
    assert!(!perf.err().contains("libtraceevent"), "{perf}");
    assert!(ours.len() as u64 >= SLEEPS, "{ours:#?}");
    assert!(ours[0].contains("prev_comm="), "{ours:#?}");
    assert_eq!(ours, theirs);
    let sleeps: u64 = (here.report("").events.iter())
        .filter(|e| e.name.starts_with("syscalls:sys_enter_") && e.name.ends_with("sleep"))
        .map(|e| e.samples)
        .sum();
    assert_eq!(sleeps, SLEEPS, "each call is a sample");
}

#[test]
fn each_call_of_a_uprobed_function_is_a_sample() {
    needs!(Kernel, Uprobes);
    let here = Here::new();
    let program = c("events.c");
    let path = program.display();
    let events = format!("uprobe:{path}:touch,uretprobe:{path}:sleep_a_little");
    let run = here
        .rprof("record -q -e")
        .arg(&events)
        .arg("--")
        .arg(&program)
        .run();
    run.exits(0);
    let report = here.report("");
    let counts: Vec<u64> = report.events.iter().map(|e| e.samples).collect();
    assert_eq!(
        counts,
        [1, SLEEPS],
        "{:?}",
        report.events.iter().map(|e| &e.name).collect::<Vec<_>>()
    );
    let none = here
        .rprof("record -e")
        .arg(format!("uprobe:{path}:nothing"))
        .arg("--")
        .arg("true");
    none.exits(2).says("nothing");
}

#[test]
fn parts_of_an_event_without_effect_are_named_once() {
    needs!(PerfEvents);
    let here = Here::new();
    let record = |more: &str| {
        here.rprof("record")
            .words(more)
            .words("-e cpu-clock/time=0,percore/bu,page-faults:bu -- true")
            .ok()
    };
    let run = record("");
    for part in ["`b`", "`percore`", "`time=0`"] {
        let said = format!("{part} has no effect");
        assert_eq!(run.err().matches(&said).count(), 1, "{said} in\n{run}");
    }
    assert!(!record("-q").err().contains("no effect"));
}

#[test]
fn a_wrong_event_is_refused_before_the_command_runs() {
    let here = Here::new();
    for (event, said) in [
        ("cpu-clok", "cpu-clock"),
        ("cpu-clock:x", "unknown modifier"),
        ("nothing/event=1/", "no PMU"),
        ("{cpu-clock", "not closed"),
        ("cpu-clock/frq=1/", "freq"),
        ("mem:here", "mem:ADDRESS"),
        ("mem:0x1000:rwx", "data (r, w, rw) or execution (x)"),
        ("cpu-clock/percore=2/", "0 or 1"),
        ("uprobe:main", "uprobe:/path"),
    ] {
        let run = here
            .rprof("record -e")
            .arg(event)
            .arg("--")
            .arg("touch")
            .arg("ran")
            .run();
        run.exits(2).says(said).is_clean();
    }
    assert!(!here.path("ran").exists() && !here.path("perf.data").exists());
}

//! `rprof list`.

use serde_json::Value;

use crate::support::{Here, Run, needs};

fn rows(run: &Run) -> Vec<(String, String, String)> {
    let out = run.out();
    let mut lines = out.lines();
    let head = lines.next().expect("a head");
    assert!(head.starts_with("KIND "), "head of\n{run}");
    let cut = |line: &str, from: &str, to: &str| {
        let (from, to) = (
            head.find(from).expect("a column"),
            head.find(to).expect("a column"),
        );
        line.get(from..to.min(line.len()))
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    lines
        .map(|line| {
            let event = line[head.find("EVENT").expect("a column")..]
                .split("  ")
                .next();
            (
                cut(line, "KIND", "HERE"),
                cut(line, "HERE", "EVENT"),
                event.unwrap_or_default().trim().to_owned(),
            )
        })
        .collect()
}

#[test]
fn list_has_every_kind_of_event_and_says_what_works() {
    let here = Here::new();
    let rows = rows(&here.rprof("list").ok());
    for kind in [
        "hardware",
        "software",
        "cache",
        "raw",
        "breakpoint",
        "probe",
    ] {
        assert!(
            rows.iter().any(|(k, ..)| k == kind),
            "no {kind} in {rows:?}"
        );
    }
    let states = ["yes", "count", "denied", "no", "-"];
    assert!(
        rows.iter()
            .all(|(_, state, _)| states.contains(&state.as_str())),
        "{rows:?}"
    );
}

#[test]
fn listed_events_that_work_can_be_recorded() {
    needs!(PerfEvents);
    let here = Here::new();
    let rows = rows(&here.rprof("list software cache hardware --available").ok());
    assert!(
        rows.iter().any(|(_, _, name)| name == "cpu-clock"),
        "{rows:?}"
    );
    for (_, state, name) in rows {
        assert_eq!(state, "yes");
        let event = format!("{name}:u");
        here.rprof("record -q -e")
            .arg(event)
            .arg("--")
            .arg("true")
            .ok();
    }
}

#[test]
fn list_takes_kinds_patterns_and_parts_of_names() {
    let here = Here::new();
    let names = |words: &str| -> Vec<String> {
        let rows = rows(&here.rprof("list").words(words).ok());
        rows.into_iter().map(|(_, _, name)| name).collect()
    };
    assert!(names("sw").contains(&"page-faults".to_owned()));
    assert_eq!(names("software fault").len(), 5);
    assert_eq!(names("hw sw cpu-c*"), ["cycles", "cpu-clock"]);
    assert_eq!(names("FAULTS page-f*").len(), 5);
    assert_eq!(names("software migrations"), ["cpu-migrations"]);
    here.rprof("list no-such-event")
        .exits(1)
        .says("no-such-event");
}

#[test]
fn listed_events_are_those_of_perf() {
    needs!(Perf);
    let here = Here::new();
    for kind in ["sw", "cache"] {
        let ours: Vec<Value> = json(&here, kind);
        let perf = here.perf("list --no-desc").arg(kind).run().out();
        for line in perf.lines().filter(|line| line.contains('[')) {
            // `  cpu-migrations OR migrations     [Software event]`
            let names = line.split('[').next().unwrap_or_default();
            for name in names.split(" OR ").map(str::trim).filter(|n| !n.is_empty()) {
                // perf's tool events are not kernel events.
                if ["duration_time", "user_time", "system_time"].contains(&name) {
                    continue;
                }
                let known = ours.iter().any(|event| {
                    let mut aliases = event["aliases"].as_array().into_iter().flatten();
                    event["name"] == name || aliases.any(|alias| alias == name)
                });
                assert!(known, "perf list has {name:?}");
            }
        }
    }
}

#[test]
fn listed_tracepoints_are_those_of_tracefs() {
    needs!(Tracepoints);
    let here = Here::new();
    let events = json(&here, "tracepoint");
    let switch = events
        .iter()
        .find(|event| event["name"] == "sched:sched_switch");
    assert_eq!(switch.expect("it is always there")["kind"], "tracepoint");
    assert!(events.len() > 100, "{} tracepoints", events.len());
}

fn json(here: &Here, words: &str) -> Vec<Value> {
    let run = here.rprof("list --format json").words(words).ok();
    let json: Value = serde_json::from_slice(run.bytes()).expect("JSON");
    assert_eq!(json["version"], 1);
    json["events"].as_array().expect("events").clone()
}

//! Output formats and destinations.

use super::{HITS, counts, json_in, stat_calls};
use crate::support::{Here, needs};

#[test]
fn the_document_has_environment_events_runs_and_figures() {
    needs!(PerfEvents, Tracepoints);
    let here = Here::new();
    let run = stat_calls(&here, "-r 4 --format json -o out.json", "7").ok();
    assert_eq!(
        (run.out(), run.err()),
        (String::new(), String::new()),
        "{run}"
    );
    let document = json_in(&here.path("out.json"));
    assert_eq!(document["version"], 1);
    assert!(document["environment"]["cpus_online"].as_u64() > Some(0));
    assert_eq!(document["commands"][0]["events"][0]["state"], "counted");
    assert_eq!(counts(&document, HITS)[0].1, 14);
    let summary = document["commands"][0]["summary"]
        .as_array()
        .expect("figures");
    let of = |name: &str| {
        summary
            .iter()
            .find(|row| row["name"] == name)
            .expect("a row")
    };
    let event = of(HITS);
    for (figure, value) in [
        ("mean", 14.0),
        ("median", 14.0),
        ("standard_deviation", 0.0),
        ("max", 14.0),
    ] {
        assert_eq!(event[figure], value, "{event:#}");
    }
    let wall = of("wall");
    let figure = |name: &str| {
        wall[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{name} in {wall:#}"))
    };
    let (mean, deviation, error) = (
        figure("mean"),
        figure("standard_deviation"),
        figure("standard_error"),
    );
    assert!(figure("min") <= mean && mean <= figure("max"));
    assert!(
        (error - deviation / 2.0).abs() <= 1e-9 * deviation,
        "of four runs"
    );
}

#[test]
fn lines_have_a_head_and_the_separator_that_was_asked_for() {
    needs!(PerfEvents, Tracepoints);
    let here = Here::new();
    let run = stat_calls(&here, "-x ;", "3").ok();
    let out = run.out();
    let mut lines = out.lines();
    assert_eq!(
        lines.next(),
        Some("time;command;run;part;name;value;unit;share")
    );
    let line = lines
        .find(|line| line.contains("getppid;"))
        .unwrap_or_else(|| panic!("{run}"));
    let fields: Vec<&str> = line.split(';').collect();
    assert_eq!(
        (fields[2], fields[3], fields[5], fields[7]),
        ("1", "all", "6", "1.0000")
    );
    let run = here
        .rprof("stat --format csv -e page-faults/name='a,b'/u -- true")
        .ok();
    run.prints(",\"a,b\",");
}

#[test]
fn repeated_runs_are_told_with_their_spread() {
    needs!(PerfEvents, Tracepoints);
    let here = Here::new();
    let run = stat_calls(&here, "-r 3", "5").ok();
    for word in [
        "3 runs",
        "mean",
        "std. error",
        "median",
        "std. dev.",
        "min",
        "max",
        "wall",
    ] {
        run.says(word);
    }
    assert_eq!(run.out(), "");
}

#[test]
fn a_file_is_replaced_or_added_to() {
    needs!(PerfEvents);
    let here = Here::new();
    let stat = |options: &str| {
        here.rprof("stat -e page-faults:u")
            .words(options)
            .words("-- true")
            .ok()
    };
    let read = || std::fs::read_to_string(here.path("out")).unwrap();
    stat("-o out");
    assert_eq!(read().matches("rprof stat: true").count(), 1);
    stat("-o out");
    assert_eq!(read().matches("rprof stat: true").count(), 1);
    stat("-o out --append");
    assert_eq!(read().matches("rprof stat: true").count(), 2);
    here.rprof("stat -o /no/such/folder/out -- touch ran")
        .exits(1)
        .says("/no/such/folder");
    assert!(!here.path("ran").exists());
}

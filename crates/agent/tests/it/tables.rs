//! Exported recordings, read by another engine.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::agent::program;
use crate::support::{Here, PERF_REPORT, c, needs, oracles, perf_self_samples};

fn by_duckdb(here: &Here, query: &str) -> Vec<Vec<Value>> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let python = oracles().expect("it was asked for").join("python");
    let run = here
        .command("python3")
        .env("PYTHONPATH", python.to_str().expect("UTF-8"))
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tables.py"))
        .arg(format!("{root}/docs/fleet.md"))
        .arg(query)
        .ok();
    serde_json::from_slice(run.bytes()).expect("rows")
}

#[test]
fn duckdb_finds_the_samples_of_perf() {
    needs!(PerfEvents, Perf, Oracles);
    let here = Here::new();
    here.perf_record("-k CLOCK_MONOTONIC -e cpu-clock:u", &c("shares.c"), "0.3");
    program(&here).words("export -q -o profiles").ok();
    program(&here)
        .words("export -o profiles perf.data")
        .ok()
        .says("wrote 0 files below profiles; 6 existed already");
    let perf = perf_self_samples(&here.perf(PERF_REPORT).ok()).remove(0);
    let samples: u64 = perf.values().sum();
    assert!(samples > 50, "{perf:?}");
    // Periods of one rate are equal.
    let rows = by_duckdb(&here, "top");
    let own: BTreeMap<&str, u64> = (rows.iter())
        .filter_map(|row| Some((row[0].as_str()?, row[1].as_f64()? as u64)))
        .collect();
    let period = own.values().sum::<u64>() / samples;
    // perf counts calls that libraries inline as their callers, if debug information is installed.
    let named = (perf.iter()).filter(|(name, _)| name.starts_with("burn_"));
    let mut compared = 0;
    for (name, samples) in named {
        assert_eq!(
            own.get(&**name),
            Some(&(samples * period)),
            "{name}: {rows:?}"
        );
        compared += 1;
    }
    assert_eq!(compared, 3, "{perf:?}");
    let total = |name: &str| {
        rows.iter()
            .find(|row| row[0] == name)
            .map(|row| row[2].as_f64())
    };
    assert!(
        total("main").flatten() > Some(0.9 * (samples * period) as f64),
        "{rows:?}"
    );
}

#[test]
fn two_versions_are_compared_by_share() {
    needs!(PerfEvents, Perf, Oracles);
    let here = Here::new();
    for version in ["1.4", "1.5"] {
        here.perf_record("-k CLOCK_MONOTONIC -e cpu-clock:u", &c("shares.c"), "0.2");
        program(&here)
            .words("export -q --service checkout -o profiles --service-version")
            .arg(version)
            .ok();
    }
    let rows = by_duckdb(&here, "versions");
    let changes: Vec<f64> = rows
        .iter()
        .map(|row| row[1].as_f64().expect("a change"))
        .collect();
    assert!(!changes.is_empty());
    let sum: f64 = changes.iter().sum();
    assert!(sum.abs() < 1e-6, "shares of each add up to 1: {changes:?}");
}

#[test]
fn an_unreadable_recording_is_an_error_that_names_it() {
    let here = Here::new();
    let run = program(&here)
        .words("export -o profiles nothing.data")
        .exits(1);
    run.says("nothing.data");
    std::fs::write(here.path("text.data"), "not a recording at all").expect("written");
    let run = program(&here)
        .words("export -o profiles text.data")
        .exits(1);
    run.says("text.data");
    assert!(!here.path("profiles").exists());
}

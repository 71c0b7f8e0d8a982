//! Fleet tables, read by another engine.

#[cfg(feature = "parquet")]
use std::collections::BTreeSet;

#[cfg(feature = "parquet")]
use serde_json::Value;

use crate::support::Here;
#[cfg(feature = "parquet")]
use crate::support::{Report, c, needs, oracles};

/// Returns the rows of a query from the documentation, run by DuckDB.
#[cfg(feature = "parquet")]
fn by_duckdb(here: &Here, query: &str) -> Vec<Vec<Value>> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let python = oracles().expect("it was asked for").join("python");
    let run = here
        .command("python3")
        .env("PYTHONPATH", python.to_str().expect("UTF-8"))
        .arg(format!("{root}/tests/report/tables.py"))
        .arg(format!("{root}/docs/fleet.md"))
        .arg(query)
        .ok();
    serde_json::from_slice(run.bytes()).expect("rows")
}

#[cfg(feature = "parquet")]
#[test]
fn duckdb_finds_the_sums_of_the_report() {
    needs!(PerfEvents, Oracles);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock:u", &c("shares.c"), "0.3");
    here.rprof("export -q --format parquet -o profiles").ok();
    // A second export creates no duplicates.
    here.rprof("export -q --format parquet -o profiles").ok();
    let report = Report::parse(&here.rprof("report -q --format json --sort symbol").ok());
    let rows = by_duckdb(&here, "top");
    assert!(report.samples() > 50, "{}", report.samples());
    let mut found = 0;
    for row in rows {
        let Some(name) = row[0].as_str() else {
            continue;
        };
        // `_start` is a function of the program and of the dynamic linker.
        let same: Vec<_> = (report.only().rows.iter())
            .filter(|row| row.symbol == name)
            .collect();
        assert!(!same.is_empty(), "{name} is not in the report");
        let own: u64 = same.iter().map(|row| row.own).sum();
        let total: u64 = same.iter().map(|row| row.total).sum();
        let sums = (row[1].as_f64(), row[2].as_f64());
        assert_eq!(sums, (Some(own as f64), Some(total as f64)), "{name}");
        found += 1;
    }
    let names: BTreeSet<&str> = (report.only().rows.iter())
        .map(|row| &*row.symbol)
        .filter(|name| !name.starts_with('['))
        .collect();
    assert!(found >= names.len(), "{found} of {names:?}");
}

#[cfg(feature = "parquet")]
#[test]
fn two_versions_are_compared_by_share() {
    needs!(PerfEvents, Oracles);
    let here = Here::new();
    for version in ["1.4", "1.5"] {
        here.record("-F 999 -g -e cpu-clock:u", &c("shares.c"), "0.2");
        here.rprof("export -q --format parquet --service checkout -o profiles --service-version")
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
fn what_has_no_folder_or_no_tables_is_told() {
    let here = Here::new();
    let run = here.rprof("export --format parquet -o x.parquet").exits(2);
    let expected = match cfg!(feature = "parquet") {
        true => "not a folder name",
        false => "--features parquet",
    };
    assert!(run.err().contains(expected), "{run}");
    let run = here
        .rprof("export --format folded --service x -o x.folded")
        .exits(2);
    assert!(run.err().contains("--service"), "{run}");
}

//! Counts the records of perf.data files by type:
//! `cargo run -p rprof-perfdata --example count -- perf.data`

use std::collections::BTreeMap;
use std::path::Path;

use rprof_perfdata::PerfData;

#[allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example's output"
)]
fn main() {
    for arg in std::env::args_os().skip(1) {
        let data = match PerfData::open(Path::new(&arg)) {
            Ok(data) => data,
            Err(e) => {
                eprintln!("{e}");
                continue;
            }
        };
        let mut counts = BTreeMap::new();
        let mut damage = None;
        for block in data.blocks() {
            match block {
                Ok(block) => {
                    for found in block.walk() {
                        *counts.entry(found.record.kind.0).or_insert(0u64) += 1;
                    }
                }
                Err(found) => damage = damage.or(Some(found)),
            }
        }
        let counts: Vec<String> = counts
            .into_iter()
            .map(|(kind, n)| format!("{}={n}", rprof_records::RecordType(kind)))
            .collect();
        println!("{}: {}", data.path().display(), counts.join(" "));
        for warning in data.warnings() {
            eprintln!("  {warning}");
        }
        if let Some(damage) = damage {
            eprintln!("  {damage}");
        }
    }
}

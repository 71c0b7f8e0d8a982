//! Counts what this very thread does, and prints the scaled values.
//!
//! `cargo run -p rprof-perf-event --example count_self`
#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use rprof_perf_event::{OpenEventError, OpenOptions, PerfFd};
use rprof_records::{Attr, AttrFlags, EventKind, ReadFormat};

/// Names and numbers of a few software events (`enum perf_sw_ids`).
const EVENTS: [(&str, u64); 3] = [
    ("task-clock", 1),
    ("page-faults", 2),
    ("context-switches", 3),
];

fn counter(name: &str, config: u64) -> Result<PerfFd, OpenEventError> {
    let attr = Attr {
        kind: EventKind::SOFTWARE,
        config,
        flags: AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        read_format: ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING,
        ..Attr::default()
    };
    OpenOptions::new(&attr).open_named(name)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut counters = Vec::new();
    for (name, config) in EVENTS {
        counters.push((name, counter(name, config)?));
    }
    for (_, counter) in &counters {
        counter.enable()?;
    }
    let pages: Vec<u8> = vec![1; 16 << 20];
    for (_, counter) in &counters {
        counter.disable()?;
    }
    println!("filling {} MiB took", pages.len() >> 20);
    for (name, counter) in &counters {
        let reading = counter.reading()?;
        match (reading.scaled(), reading.share()) {
            (Some(value), Some(share)) => {
                println!(
                    "{value:>12} {name} (counted {:.0} % of the time)",
                    share * 100.0
                );
            }
            _ => println!("{:>12} {name}", "not counted"),
        }
    }
    Ok(())
}

//! Counts events of its own thread, and prints the scaled values.
//!
//! `cargo run -p rprof-perf-event --example count_self`
#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use rprof_perf_event::{Builder, Group, Software};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let event = |event| Builder::software(event).exclude_kernel(true);
    let mut group = Group::open(&event(Software::TASK_CLOCK))?;
    let clock = group.leader();
    let faults = group.add(&event(Software::PAGE_FAULTS))?;
    let (pages, counted) = group.measure(|| vec![1_u8; 16 << 20])?;
    println!("filling {} MiB took", pages.len() >> 20);
    for (name, member) in [("ns of task-clock", clock), ("page-faults", faults)] {
        match counted.scaled(member) {
            Some(scaled) => println!("{scaled:>12} {name}"),
            None => println!("{:>12} {name}", "not counted"),
        }
    }
    Ok(())
}

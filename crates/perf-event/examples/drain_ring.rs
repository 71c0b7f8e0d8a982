//! Samples its own thread by the CPU clock, and drains the event's ring buffer.
//!
//! `cargo run -p rprof-perf-event --example drain_ring`
#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use rprof_perf_event::{Limits, MapRingError, OpenOptions, Ring};
use rprof_records::{
    Attr, AttrFlags, Endian, EventKind, RawBytes, RawRecord, Record, SampleLayout, SampleType,
};
use std::os::fd::AsFd;

const RING: usize = 64 << 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let attr = Attr {
        kind: EventKind::SOFTWARE,
        config: 0,                 // PERF_COUNT_SW_CPU_CLOCK
        period_or_freq: 1_000_000, // nanoseconds
        sample_type: SampleType::IP | SampleType::TID | SampleType::TIME,
        flags: AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..Attr::default()
    };
    let clock = OpenOptions::new(&attr).open_named("cpu-clock")?;
    let mut ring = Ring::map(clock.as_fd(), RING)
        .map_err(|errno| MapRingError::new(None, RING, errno, &Limits::read()))?;
    clock.enable()?;
    let mut sum = 0_u64;
    while ring.unread() < RING / 16 {
        sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(1));
    }
    clock.disable()?;

    let layout = SampleLayout::new(&attr, Endian::NATIVE);
    let mut records = Vec::new();
    ring.drain_into(&mut records, RING);
    let mut rest = RawBytes::from(&records[..]);
    let mut samples = 0;
    while let Some(raw) = RawRecord::parse(rest, Endian::NATIVE) {
        if let Record::Sample(sample) = Record::decode(&raw, Some(&layout))? {
            samples += 1;
            if samples <= 3 {
                println!("{:?} ns: {:#x}", sample.time(), sample.ip().unwrap_or(0));
            }
        }
        let Some(next) = rest.get_from(raw.size()) else {
            break;
        };
        rest = next;
    }
    println!("{samples} samples of 1 ms each");
    Ok(())
}

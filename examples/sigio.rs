//! Samples its own instruction pointer every 100,000 ns, notified by SIGIO.

use rprof_perf_event::{Builder, SignalSampler, Software};
use rprof_records::{Record, SampleType};
use std::hint::black_box;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = Builder::software(Software::CPU_CLOCK)
        .exclude_kernel(true)
        .period(100_000)
        .sample(SampleType::IP);
    let sampler = SignalSampler::open(&clock, 64 << 10, 1 << 20)?;
    sampler.fd().enable()?;
    // Takes at least 20 samples on any machine.
    while sampler.fd().reading()?.value < 20 * 100_000 {
        workload();
    }
    let samples = sampler.finish()?;
    println!("workload: {:#x}", workload as *const () as usize);
    for record in samples.records() {
        if let Record::Sample(sample) = record?.record {
            println!("{:#x}", sample.ip().unwrap_or(0));
        }
    }
    println!("{} signals", samples.overflows());
    Ok(())
}

#[inline(never)]
fn workload() {
    let mut sum = 0_u64;
    for i in 0..1_000_000_u64 {
        sum = black_box(sum ^ (i << 7));
    }
    black_box(sum);
}

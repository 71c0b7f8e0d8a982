//! Samples its own instruction pointer and callchain every 100,000 ns, notified by SIGIO.

use rprof_perf_event::{Builder, SignalSampler, Software};
use rprof_records::{Record, SampleType};
use std::hint::black_box;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = Builder::software(Software::CPU_CLOCK)
        .exclude_kernel(true)
        .period(100_000)
        .sample(SampleType::IP | SampleType::CALLCHAIN);
    let sampler = SignalSampler::open(&clock, 256 << 10, 4 << 20)?;
    sampler.fd().enable()?;
    // Takes at least 20 samples on any machine.
    while sampler.fd().reading()?.value < 20 * 100_000 {
        workload();
    }
    for record in sampler.finish()?.records() {
        if let Record::Sample(sample) = record?.record
            && let Some(callchain) = sample.callchain()
        {
            println!("IP: {:#x}", sample.ip().unwrap_or(0));
            println!("Call Depth: {}", callchain.len());
            for address in callchain.iter() {
                println!("  {address:#x}");
            }
        }
    }
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

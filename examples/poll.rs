//! Prints the location of a thread for each millisecond of its CPU time: `poll TID SAMPLES`.

use rprof_perf_event::{Builder, Next, Sampler, Software};
use rprof_records::{Record, SampleType};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: poll TID SAMPLES";
    let tid = arguments.next().ok_or(usage)?.parse()?;
    let mut samples: u32 = arguments.next().ok_or(usage)?.parse()?;
    let clock = Builder::software(Software::CPU_CLOCK)
        .thread(tid)
        .exclude_kernel(true)
        .period(1_000_000)
        .sample(SampleType::IP)
        .wake_after_samples(1);
    let mut sampler = Sampler::open(&clock, 32 << 10)?;
    sampler.fd().enable()?;
    while samples > 0
        && let Next::Record(next) = sampler.next(None)?
    {
        if let Record::Sample(sample) = next.record {
            println!("{:#x}", sample.ip().unwrap_or(0));
            samples -= 1;
        }
    }
    Ok(())
}

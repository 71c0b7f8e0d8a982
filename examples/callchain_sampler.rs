//! Samples the callchains of all threads of a process, with a timeout: `callchain_sampler PID
//! NANOSECONDS SAMPLES`.

use rprof_perf_event::{Builder, Errno, Next, ProcessSampler, SampleError, Software};
use rprof_records::{Record, SampleType};
use std::time::Duration;

struct CallChainSampler(ProcessSampler);

/// Callchain of a thread at one time.
struct CallChain {
    time: u64,
    pid: i32,
    tid: i32,
    ips: Vec<u64>,
}

impl CallChainSampler {
    fn new(pid: u32, period: u64, pages: usize) -> Result<CallChainSampler, SampleError> {
        let clock = Builder::software(Software::CPU_CLOCK)
            .exclude_kernel(true)
            .period(period)
            .sample(SampleType::TIME | SampleType::TID | SampleType::CALLCHAIN)
            .wake_after_samples(1);
        ProcessSampler::open(pid, &clock, pages * 4096).map(CallChainSampler)
    }

    fn start(&self) -> Result<(), Errno> {
        self.0.enable()
    }

    fn stop(&self) -> Result<(), Errno> {
        self.0.disable()
    }

    /// Returns the next callchain; `None` after the timeout or the end of the process.
    fn sample(
        &mut self,
        timeout: Option<Duration>,
        max_depth: usize,
    ) -> Result<Option<CallChain>, SampleError> {
        loop {
            let Next::Record(next) = self.0.next(timeout)? else {
                return Ok(None);
            };
            if let Record::Sample(sample) = next.record {
                let callchain = sample.callchain();
                return Ok(Some(CallChain {
                    time: sample.time().unwrap_or(0),
                    pid: sample.pid().unwrap_or(-1),
                    tid: sample.tid().unwrap_or(-1),
                    ips: (callchain.iter())
                        .flat_map(|chain| chain.iter().take(max_depth))
                        .collect(),
                }));
            }
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: callchain_sampler PID NANOSECONDS SAMPLES";
    let mut next = || arguments.next().ok_or(usage);
    let (pid, period, samples) = (next()?.parse()?, next()?.parse()?, next()?.parse::<u64>()?);
    let mut sampler = CallChainSampler::new(pid, period, 128)?;
    sampler.start()?;
    for _ in 0..samples {
        let Some(callchain) = sampler.sample(Some(Duration::from_secs(10)), 256)? else {
            break;
        };
        println!("time={}", callchain.time);
        println!("pid,tid={},{}", callchain.pid, callchain.tid);
        println!("stack:");
        for (depth, ip) in callchain.ips.iter().enumerate() {
            println!("[{depth}]   {ip:x}");
        }
    }
    sampler.stop()?;
    Ok(())
}

//! Samples itself while it sorts, with a stack dump in each sample, and finds a number in the dump.

use rprof_perf_event::{Builder, Next, Sampler, Software};
use rprof_records::{Record, SampleType};
use std::hint::black_box;
use std::time::Duration;

/// Size of the stack dump in bytes.
const STACK: u32 = 10_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = Builder::software(Software::CPU_CLOCK)
        .exclude_kernel(true)
        .period(1)
        .precise_ip(3)
        .sample(SampleType::IP | SampleType::STACK_USER)
        .user_stack(STACK);
    let mut sampler = Sampler::open(&clock, 64 << 10)?;
    // Located deeper in the stack than the sampled function.
    let landmark = black_box(0x5ca1_ab1e_0ddb_a110_u64.to_ne_bytes());
    sampler.fd().reset_group()?;
    sampler.fd().enable_group()?;
    while sampler.ring().unread() == 0 {
        let mut numbers: [i32; 500] = std::array::from_fn(|i| 500 - i as i32);
        insertion_sort(black_box(&mut numbers));
    }
    sampler.fd().disable_group()?;
    black_box(&landmark);
    while let Next::Record(next) = sampler.next(Some(Duration::ZERO))? {
        let Record::Sample(sample) = next.record else {
            println!("another record");
            continue;
        };
        let ip = sample.ip().unwrap_or(0);
        let Some(stack) = sample.stack_user() else {
            continue;
        };
        let bytes = stack.bytes.to_cow();
        println!("sample at {ip:#x}, {} bytes of stack", bytes.len());
        if let Some(at) = bytes.windows(8).position(|eight| eight == landmark) {
            println!("the landmark is {at} bytes above the stack pointer");
        }
    }
    Ok(())
}

#[inline(never)]
fn insertion_sort(numbers: &mut [i32]) {
    for i in 1..numbers.len() {
        let mut j = i;
        while j > 0 && numbers[j - 1] > numbers[j] {
            numbers.swap(j - 1, j);
            j -= 1;
        }
    }
}

//! Counts events in a function of this program: here, writes to a variable.

use rprof_perf_event::{Breakpoint, Builder};
use std::sync::atomic::{AtomicU64, Ordering};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sum = AtomicU64::new(0);
    let writes = Builder::breakpoint(Breakpoint::writes_to(&sum))
        .exclude_kernel(true)
        .open()?;
    let ((), counted) = writes.measure(|| add_up(&sum))?;
    println!("{} writes made {}", counted.value, sum.into_inner());
    Ok(())
}

fn add_up(sum: &AtomicU64) {
    for number in 1..=1234 {
        sum.fetch_add(number, Ordering::Relaxed);
    }
}

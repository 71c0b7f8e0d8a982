//! Counts the instructions of one print, like the example in perf_event_open(2). Without a hardware
//! counter, it counts nanoseconds.

use rprof_perf_event::{Builder, Hardware, Remedy, Software};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let event = Builder::hardware(Hardware::INSTRUCTIONS).name("instructions");
    let (unit, counter) = match event.exclude_kernel(true).exclude_hv(true).open() {
        Ok(counter) => ("instructions", counter),
        Err(error) if matches!(error.remedy, Remedy::NoSuchEvent { .. }) => {
            eprintln!("{error}");
            let clock = Builder::software(Software::TASK_CLOCK).exclude_kernel(true);
            ("nanoseconds", clock.open()?)
        }
        Err(error) => return Err(error.into()),
    };
    let ((), counted) =
        counter.measure(|| println!("Measuring instruction count for this print"))?;
    match counted.scaled() {
        Some(used) => println!("Used {used} {unit}"),
        None => println!("Used an unknown number of {unit}: others held the counters"),
    }
    Ok(())
}

//! Samples a command and prints the number of samples of each CPU.
//!
//! `cargo run -p rprof-sampler --example watch -- sh -c 'seq 1000000 | sort -R | tail -1'`
#![allow(clippy::print_stdout, clippy::print_stderr)]

use rprof_launch::{Child, Launcher};
use rprof_records::{Endian, Header, RawBytes, RecordType};
use rprof_sampler::{Batch, Session, SessionError, Stream};
use std::collections::BTreeMap;

fn main() -> Result<(), SessionError> {
    let mut args = std::env::args_os().skip(1);
    let Some(program) = args.next() else {
        println!("usage: watch PROGRAM [ARGUMENT]...");
        return Ok(());
    };
    let command = Launcher::new(program).args(args);
    let mut session = Session::builder()
        .frequency(999)
        .callchains(false)
        .launch(&command)?;
    for step in session.degradations() {
        eprintln!("note: {step}");
    }
    session.start()?;

    let (batches, recycler) = (session.batches().clone(), session.recycler());
    let counting = std::thread::spawn(move || {
        let mut counts = BTreeMap::new();
        for batch in batches {
            if batch.stream == Stream::Samples {
                *counts.entry(batch.cpu).or_insert(0) += samples_in(&batch);
            }
            recycler.recycle(batch);
        }
        counts
    });
    let status = session.child_mut().map(Child::wait);
    let lost = session.stop().lost_samples();
    for (cpu, samples) in counting.join().unwrap_or_default() {
        println!("CPU {cpu:3}: {samples} samples");
    }
    println!(
        "lost: {}",
        lost.map_or("unknown".to_owned(), |n| n.to_string())
    );
    if let Some(Ok(status)) = status {
        println!("{status}");
    }
    Ok(())
}

fn samples_in(batch: &Batch) -> usize {
    let mut rest = RawBytes::from(batch.bytes.as_slice());
    let mut samples = 0;
    while let Some(header) = Header::parse(&rest, Endian::NATIVE) {
        samples += usize::from(header.kind == RecordType::SAMPLE);
        match rest.get_from(usize::from(header.size.max(8))) {
            Some(next) => rest = next,
            None => break,
        }
    }
    samples
}

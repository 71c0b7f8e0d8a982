//! Records a command into a perf.data file, which perf and rprof read.
//!
//! `cargo run -p rprof-recorder --example record -- perf.data sh -c 'seq 1000000 | sort -R | tail -1'`
#![allow(clippy::print_stdout)]

use std::error::Error;

use rprof_launch::Launcher;
use rprof_recorder::{Output, RecordOptions, Recording};
use rprof_sampler::Session;

fn main() -> Result<(), Box<dyn Error>> {
    let command_line: Vec<String> = std::env::args().collect();
    let [_, path, program, arguments @ ..] = &command_line[..] else {
        return Err("usage: record FILE PROGRAM [ARGUMENT]...".into());
    };
    let output = Output::File(path.into());
    let options = RecordOptions::new(output, command_line.clone());
    let session = Session::builder().frequency(999);
    let command = Launcher::new(program).args(arguments);
    let mut recording = Recording::start(session, &command, options)?;
    recording.wait(None, None)?;
    let summary = recording.finish()?;
    println!("{} samples in {path}", summary.samples);
    Ok(())
}

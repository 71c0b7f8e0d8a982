//! Prints time and type of each record of a perf.data file in time order:
//! `cargo run -p rprof-perfdata --example by_time -- perf.data`

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use rprof_perfdata::PerfData;

#[allow(clippy::print_stderr, reason = "an example's output")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = (std::env::args_os().nth(1)).map_or("perf.data".into(), PathBuf::from);
    let data = PerfData::open(&path)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut records = data.records_by_time();
    while let Some(record) = records.next_record()? {
        let kind = record.at.record.kind;
        match record.time {
            Some(time) => writeln!(out, "{time:>18} {kind}")?,
            None => writeln!(out, "{:>18} {kind}", "-")?,
        }
    }
    if records.late() > 0 {
        eprintln!("{} records came too late for their place", records.late());
    }
    Ok(())
}

//! Prints time in nanoseconds and type of each record of a perf.data file, in time order.
//!
//! ```text
//! cargo run -p rprof-examples --bin in_order -- perf.data
//! ```

use std::error::Error;
use std::io::Write;
use std::path::Path;

use rprof_perfdata::PerfData;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: in_order FILE")?;
    let data = PerfData::open(Path::new(&path))?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut records = data.records_by_time();
    while let Some(record) = records.next_record()? {
        // Records such as FINISHED_ROUND have no time.
        if let Some(time) = record.time {
            writeln!(out, "{time} {}", record.at.record.kind)?;
        }
    }
    out.flush()?;
    Ok(())
}

//! Draws the stacks of a perf.data file, or writes its top functions:
//! `cargo run -p rprof-export --example flamegraph -- perf.data > flamegraph.svg`,
//! `cargo run -p rprof-export --example flamegraph -- perf.data json`

use std::error::Error;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use rprof_analysis::{Options, analyse};
use rprof_export::svg::{self, SvgOptions};
use rprof_export::{ExportFormat, FORMATS, ReportOptions};
use rprof_perfdata::PerfData;
use rprof_symbols::Symbolizer;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let path = arguments.next().map_or("perf.data".into(), PathBuf::from);
    let form = arguments.next().and_then(|form| form.into_string().ok());
    let data = PerfData::open(&path)?;
    let profile = analyse(&data, &Symbolizer::builder().build(), &Options::default());
    let mut out = BufWriter::new(std::io::stdout().lock());
    match form {
        Some(name) => {
            let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
            let format = ExportFormat::by_name(&name).ok_or(format!("there are {names:?}"))?;
            (format.write)(&profile, &ReportOptions::default(), &mut out)?;
        }
        None => {
            let event = profile.main_event().ok_or("there is no sample")?;
            svg::write(&profile, event, &SvgOptions::default(), &mut out)?;
        }
    }
    out.flush()?;
    Ok(())
}

//! Writes the samples of a perf.data file with the requested fields:
//! `cargo run -p rprof-script --example fields -- perf.data comm,tid,time,event`

use std::error::Error;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use rprof_analysis::Samples;
use rprof_perfdata::PerfData;
use rprof_script::{FieldList, Script, ScriptOptions};
use rprof_symbols::Symbolizer;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().map_or("perf.data".into(), PathBuf::from);
    let mut options = ScriptOptions::default();
    for list in arguments {
        options.fields.apply(&FieldList::parse(&list)?);
    }
    let data = PerfData::open(&path)?;
    let script = Script::new(&data, &options)?;
    let symbolizer = Symbolizer::builder().inlines(false).build();
    let samples = Samples::read_with(&data, &symbolizer, &Default::default(), &script.details());
    let mut out = BufWriter::new(std::io::stdout().lock());
    script.write(&samples, &mut out)?;
    out.flush()?;
    Ok(())
}

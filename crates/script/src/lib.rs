//! Writes samples in the text format of perf script, which `stackcollapse-perf.pl` and
//! `inferno-collapse-perf` read.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use rprof_analysis::Samples;
//! use rprof_perfdata::PerfData;
//! use rprof_script::{FieldList, Script, ScriptOptions};
//! use rprof_symbols::Symbolizer;
//!
//! let data = PerfData::open(Path::new("perf.data"))?;
//! let mut options = ScriptOptions::default();
//! options.fields.apply(&FieldList::parse("comm,tid,time,ip,sym")?);
//! let script = Script::new(&data, &options)?;
//! let symbolizer = Symbolizer::builder().build();
//! // The samples are read with what the fields need, and no more.
//! let samples = Samples::read_with(&data, &symbolizer, &Default::default(), &script.details());
//! script.write(&samples, &mut std::io::stdout().lock())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`fields`] | [`OutputField`] and [`FieldSet`] |
//! | [`selection`] | [`FieldList`] and [`FieldSelection`]: the shown fields |
//! | `plan` | fields of each event of a recording |
//! | `sample` | the line of a sample |
//! | `frames` | its frames |
//! | `side` | records other than samples |
//! | `branches`, `bpf_output`, `data_src`, `registers`, `values` | rare fields |
//!
//! Every part of a sample has a field. If perf 6.1 prints a field, the output is byte for byte the
//! same. Fields unknown to perf 6.1 have our own format: `cgroup`, `p_stage_cyc`, `read`,
//! `transaction`, `id` and `stream_id` precede the address. `hw_index`, `brcntr`, `stack`, `aux`
//! and `raw` are at the end, the last three with their bytes.
//!
//! The crate does not support perf fields that are computed from other sources: AUX traces
//! (`flags`, `insn`, `insnlen`, `ipc`, `synth`), guests (`machine_pid`, `vcpu`), code and sources
//! (`brstackinsn`, `srccode`), other samples (`callindent`, `metric`), and a wall clock (`tod`).

mod bpf_output;
mod branches;
mod data_src;
mod error;
pub mod fields;
mod frames;
mod options;
mod plan;
mod registers;
mod sample;
pub mod selection;
mod side;
mod values;

use std::io::Write;

use rprof_analysis::samples::Item;
use rprof_analysis::{Details, Samples};
use rprof_perfdata::PerfData;

pub use error::ScriptError;
pub use fields::{FieldSet, OutputField};
pub use options::{ScriptOptions, SideRecords};
use plan::Plan;
use sample::Writer;
pub use selection::{FieldList, FieldSelection};

/// Writes all samples in the default format. Tracepoints have text only if `samples` has the
/// details.
///
/// # Errors
/// Fails if the writer does.
pub fn write(samples: &Samples<'_>, out: &mut dyn Write) -> Result<(), ScriptError> {
    Script::new(samples.index().data, &ScriptOptions::default())?.write(samples, out)
}

/// Writer for the samples of a recording.
#[derive(Debug)]
pub struct Script<'o> {
    options: &'o ScriptOptions,
    plan: Plan,
}

impl<'o> Script<'o> {
    /// Checks the options' fields against the events of a recording.
    ///
    /// # Errors
    /// Fails with [`ScriptError::FieldMissing`].
    pub fn new(data: &PerfData, options: &'o ScriptOptions) -> Result<Script<'o>, ScriptError> {
        Ok(Script {
            plan: Plan::new(data, options)?,
            options,
        })
    }

    /// Returns true if the output includes source lines.
    pub fn shows_lines(&self) -> bool {
        let mut events = self.plan.events.iter();
        events.any(|event| event.fields.has(OutputField::SrcLine))
    }

    /// Returns the details that [`Samples::read_with`] must read.
    pub fn details(&self) -> Details {
        self.plan.details(self.options.side)
    }

    /// Writes all samples and the requested records.
    ///
    /// # Errors
    /// Fails if the writer does.
    pub fn write(&self, samples: &Samples<'_>, out: &mut dyn Write) -> Result<(), ScriptError> {
        let mut writer = Writer::new(self.options, &self.plan, samples);
        for item in samples.items() {
            match item {
                Item::Sample(sample) => writer.sample(&sample, out)?,
                Item::Record(record) => writer.side_record(&record, out)?,
            }
        }
        Ok(())
    }
}

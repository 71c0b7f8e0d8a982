//! A block of text for each sample, in the form of perf script, so that
//! `stackcollapse-perf.pl` and `inferno-collapse-perf` read it.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use rprof_analysis::Samples;
//! use rprof_perfdata::PerfData;
//! use rprof_script::{FieldList, Options, Script};
//! use rprof_symbols::Symbolizer;
//!
//! let data = PerfData::open(Path::new("perf.data"))?;
//! let mut options = Options::default();
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
//! | [`fields`] | [`Field`] and [`FieldSet`] |
//! | [`selection`] | [`FieldList`] and [`Selection`]: which fields are shown |
//! | `plan` | fields shown of each event of a recording |
//! | `sample` | the line of a sample |
//! | `frames` | its frames |
//! | `side` | records other than samples |
//! | `branches`, `bpf_output`, `data_src`, `registers`, `values` | the rarer fields |
//!
//! There is a field for everything that a sample can hold. Where perf 6.1 prints it the form is
//! perf's to the byte. Fields that perf 6.1 does not know have forms of their own: `cgroup`,
//! `p_stage_cyc`, `read`, `transaction`, `id` and `stream_id` stand before the address, `hw_index`,
//! `brcntr`, `stack`, `aux` and `raw` at the end, the last three with their bytes.
//!
//! perf has further fields that are not in the record, but computed: from AUX traces (`flags`,
//! `insn`, `insnlen`, `ipc`, `synth`), from guests (`machine_pid`, `vcpu`), from code and sources
//! (`brstackinsn`, `srccode`), from other samples (`callindent`, `metric`) and from a wall clock
//! (`tod`). These are not here.

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
pub use fields::{Field, FieldSet};
pub use options::{Options, SideRecords};
use plan::Plan;
use sample::Writer;
pub use selection::{FieldList, Selection};

/// Writes all samples in the default form. Tracepoints have no text unless `samples` was read with
/// the details for it.
///
/// # Errors
/// Fails if the writer does.
pub fn write(samples: &Samples<'_>, out: &mut dyn Write) -> Result<(), ScriptError> {
    Script::new(samples.index().data, &Options::default())?.write(samples, out)
}

/// A recording's samples as text, ready to be written.
#[derive(Debug)]
pub struct Script<'o> {
    options: &'o Options,
    plan: Plan,
}

impl<'o> Script<'o> {
    /// Plans the output of a recording: checks the options' fields against its events.
    ///
    /// # Errors
    /// [`ScriptError::FieldMissing`].
    pub fn new(data: &PerfData, options: &'o Options) -> Result<Script<'o>, ScriptError> {
        Ok(Script {
            plan: Plan::new(data, options)?,
            options,
        })
    }

    /// Returns true if frames are shown with their source lines.
    pub fn shows_lines(&self) -> bool {
        let mut events = self.plan.events.iter();
        events.any(|event| event.fields.has(Field::SrcLine))
    }

    /// Returns what [`Samples::read_with`] has to read for this text.
    pub fn details(&self) -> Details {
        self.plan.details(self.options.side)
    }

    /// Writes all samples, and the records that were asked for.
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

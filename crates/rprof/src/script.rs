//! `rprof script`.

use std::path::Path;

use rprof_export::script;
use rprof_profile::Samples;
use rprof_symbols::Symbolizer;

use crate::Outcome;
use crate::cli::ScriptArgs;
use crate::input::{open, write_to};
use crate::messages::say;

pub(crate) fn run(args: &ScriptArgs) -> Outcome {
    let data = open(&args.input.input)?;
    let symbolizer = Symbolizer::builder().build();
    let samples = Samples::read(&data, &symbolizer, &args.input.options());
    if !args.input.quiet {
        for warning in data.warnings() {
            say(format_args!("warning: {warning}"));
        }
        if let Some(damage) = &samples.index().damage {
            let path = data.path().display();
            say(format_args!(
                "warning: {path} is {damage}; what stands before is shown"
            ));
        }
    }
    write_to(Path::new("-"), |out| Ok(script::write(&samples, out)?))?;
    Ok(0)
}

//! `rprof top`: shows where time goes now.
//!
//! ```text
//!   Recording --> LiveAnalysis (and RecentRecords) --> Looks --> batch: a table for each interval, on this thread
//!                        ^                                  \
//!                        +-- names, on a thread of its own   +--> screen: a collector thread --> the terminal, on this thread
//! ```

mod batch;
mod collector;
mod live;
mod looks;
mod orders;
mod screen;

use std::io::{self, IsTerminal};

use crate::Outcome;
use crate::cli::{CallGraph, TopArgs, TopFormat};
use crate::input::named_input::refuse_recording;
use crate::wording::messages::Failure;

pub(crate) fn run(args: &TopArgs) -> Outcome {
    refuse_recording(&args.command)?;
    check(args)?;
    let shown = &args.shown;
    let is_batch = shown.batch
        || shown.intervals.is_some()
        || shown.format == TopFormat::Json
        || !io::stdout().is_terminal();
    match is_batch {
        true => batch::run(args),
        false => screen::run(args),
    }
}

fn check(args: &TopArgs) -> Result<(), Failure> {
    let usage = |message: &'static str| Failure::with_status(2, anyhow::anyhow!(message));
    match args.sampling.call_graph {
        Some(CallGraph::Dwarf(_)) => Err(usage(
            "--call-graph dwarf is for `rprof record`: it unwinds when a file is read; `auto`, the \
             default, unwinds here",
        )),
        Some(CallGraph::Lbr) => Err(usage(
            "--call-graph lbr is for `rprof record`; `auto` and `fp` work here",
        )),
        _ if args.sampling.delay.is_some() => Err(usage(
            "-D is for `rprof record`; here `z` resets the counts at any time",
        )),
        _ => Ok(()),
    }
}

//! `rprof stat`.
//!
//! | module | holds |
//! |---|---|
//! | `job` | [`Job`]: events and repetitions, from the arguments |
//! | `run` | one run, and an interval of it |
//! | `runs` | all runs; two commands in turns |
//! | `watch` | waiting for the end of a run |
//! | `rows` | quantities with their value in each run |
//! | `figures` | formats of numbers |
//! | `missing`, `reasons` | uncounted events, and the reasons |
//! | `text`, `json`, `csv` | output formats |
//! | `compare` | two commands, row by row, and limits |
//! | `intervals` | counts while it runs |

mod compare;
mod csv;
mod figures;
mod intervals;
mod job;
mod json;
mod missing;
mod rows;
mod run;
mod runs;
mod text;
mod watch;

use std::fs::OpenOptions;
use std::io::{self, Write};

use anyhow::Context;

use crate::Outcome;
use crate::cli::{StatArgs, StatFormat};
use crate::recording::signals::Signals;
use crate::recording::status::exit_status;
use crate::terminal::output::{Output, check_standard_output};
use crate::wording::messages::{Failure, say};
use compare::{Comparison, Judged};
use intervals::Intervals;
use job::{Job, To};

pub(crate) use job::default_events;
use runs::{Measured, measure};

pub(crate) fn run(args: &StatArgs) -> Outcome {
    let job = Job::new(args)?;
    let signals =
        Signals::listen(false, !args.command.is_empty()).context("cannot listen for signals")?;
    let mut target = Sink::new(&job)?;
    let mut intervals = Intervals::new(&job);
    let measured = measure(&job, &signals, |interval| {
        let text = intervals.text(interval)?;
        target.write_now(&text)
    })?;
    if !job.quiet {
        missing::explain(&job, &measured);
    }
    if measured.sides.iter().any(|side| side.runs.is_empty()) {
        return nothing_counted(&job, &measured);
    }
    let comparison = match &measured.sides[..] {
        [base, new] => Some(Comparison::new(base, new, &job.limits)),
        _ => None,
    };
    let text = match job.format {
        StatFormat::Json => json::document(&job, &measured, comparison.as_ref())?,
        StatFormat::Csv if job.interval.is_some() => String::new(),
        StatFormat::Csv => csv::lines(&job, &measured)?,
        StatFormat::Text => match &comparison {
            Some(comparison) => text::comparison(&measured, comparison),
            None if job.interval.is_some() => String::new(),
            None => text::one_side(&job, &measured),
        },
    };
    target.finish(&text)?;
    Ok(status(&job, &measured, comparison.as_ref()))
}

fn status(job: &Job, measured: &Measured, comparison: Option<&Comparison>) -> u8 {
    let is_forbidden = measured.sides.iter().any(missing::is_forbidden);
    let Some(comparison) = comparison else {
        // As in perf stat, a user who may not count gets no success.
        return match measured.last_status.map_or(0, exit_status) {
            0 => u8::from(is_forbidden),
            failure => failure,
        };
    };
    if is_forbidden {
        return 1;
    }
    if measured.sides.iter().any(|side| !side.left_out.is_empty()) {
        return 1;
    }
    let judged = |wanted: Judged| comparison.limits.iter().any(|limit| limit.judged == wanted);
    match () {
        () if judged(Judged::Failed) => 3,
        () if judged(Judged::Inconclusive) && job.strict => 4,
        () => 0,
    }
}

fn nothing_counted(job: &Job, measured: &Measured) -> Outcome {
    for side in measured.sides.iter().filter(|side| side.runs.is_empty()) {
        let name = runs::command_text(&side.command);
        match side.left_out.first() {
            Some(status) => say(format_args!(
                "no run of `{name}` is counted: {}{}",
                runs::ended(*status),
                match status.code() {
                    Some(_) => "; --ignore-failure counts such runs",
                    None => "",
                }
            )),
            None => say(format_args!(
                "no result for `{name}`: it did not run to its end"
            )),
        }
    }
    match job.commands.len() {
        2 => Ok(1),
        _ => Ok(measured.last_status.map_or(1, exit_status)),
    }
}

enum Sink {
    /// File that is replaced at the end.
    Whole(Option<Output>, String),
    Append(std::fs::File),
    StandardOutput,
    StandardError,
}

impl Sink {
    fn new(job: &Job) -> Result<Sink, Failure> {
        Ok(match &job.to {
            To::StandardError => Sink::StandardError,
            To::StandardOutput => Sink::StandardOutput,
            To::File(path) => Sink::Whole(Some(Output::prepare(path)?), String::new()),
            To::Append(path) => {
                // Same checks as for any output.
                Output::prepare(path)?;
                let file = OpenOptions::new().append(true).create(true).open(path);
                Sink::Append(file.with_context(|| format!("cannot write {}", path.display()))?)
            }
        })
    }

    /// Writes text while the command runs.
    fn write_now(&mut self, text: &str) -> Result<(), Failure> {
        match self {
            Sink::Whole(_, kept) => kept.push_str(text),
            Sink::Append(file) => file.write_all(text.as_bytes())?,
            Sink::StandardOutput => {
                check_standard_output()?;
                let mut out = io::stdout().lock();
                out.write_all(text.as_bytes())?;
                out.flush()?;
            }
            // A closed standard error must not stop the command.
            Sink::StandardError => drop(anstream::stderr().write_all(text.as_bytes())),
        }
        Ok(())
    }

    fn finish(mut self, text: &str) -> Result<(), Failure> {
        self.write_now(text)?;
        if let Sink::Whole(Some(output), kept) = self {
            output.write(|out| Ok(out.write_all(kept.as_bytes())?))?;
        }
        Ok(())
    }
}

//! `rprof gate --calibrate`: measures how equal runs compare on this machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rprof_export::diff::calibration::{write_json, write_text};
use rprof_profile::compare::{Calibration, Design, calibrate};

use super::base::{Base, keep};
use super::machine::Machine;
use super::request::{request, usage, words};
use super::runs::Runs;
use crate::Outcome;
use crate::cli::GateArgs;
use crate::commands::diff::{INCONCLUSIVE, Labels, not_compared};
use crate::terminal::output::write_to;
use crate::wording::messages::{Failure, say};

pub(super) fn run(args: &GateArgs, sides: &[Vec<OsString>]) -> Outcome {
    let (as_json, here) = (is_json(args)?, Machine::here());
    let runs = args.runs as usize;
    let (status, found) = match (&args.base, sides) {
        (Some(folder), []) => {
            let base = Base::of_any_machine(folder)?;
            judge(args, &base.files, folder, runs.min(base.files.len() / 2))?
        }
        (None, [command]) => {
            let recorder = Runs::begin(args, args.save.as_ref())?;
            let files = recorder
                .record_times(2 * args.runs, &[("", command.as_slice())])?
                .concat();
            let found = judge(args, &files, &words(command), runs)?;
            if let Some(folder) = &args.save {
                keep(&files, folder, &here)?;
                say(format_args!(
                    "saved the runs in {}, for --base",
                    folder.display()
                ));
            }
            found
        }
        _ => {
            return Err(usage(
                "--calibrate compares runs of one program: give one COMMAND, or --base DIR with recordings of it",
            ));
        }
    };
    let machine = here.describe();
    write_to(Path::new("-"), |out| {
        match as_json {
            true => write_json(&found, &machine, out)?,
            false => write_text(&found, &machine, out)?,
        }
        Ok(())
    })?;
    Ok(status)
}

fn judge(
    args: &GateArgs,
    files: &[PathBuf],
    label: &Path,
    runs: usize,
) -> Result<(u8, Calibration), Failure> {
    if runs == 0 {
        return Err(usage("--calibrate needs at least two runs of one program"));
    }
    let labels = Labels([label.to_owned(), label.to_owned()]);
    let design = match args.paired {
        true => Design::Paired,
        false => Design::Independent,
    };
    let request = request(args, design, labels);
    let [side] = request.read([files])?;
    let found = calibrate(
        &side.profiles,
        runs,
        args.splits as usize,
        &request.options(),
    )
    .map_err(|error| not_compared(&error))?;
    let status = match found.is_steady() || !args.judging.strict {
        true => 0,
        false => INCONCLUSIVE,
    };
    Ok((status, found))
}

/// Returns true for JSON. Only text and JSON are supported.
fn is_json(args: &GateArgs) -> Result<bool, Failure> {
    match args.shown.format.name {
        "text" => Ok(false),
        "json" => Ok(true),
        _ => Err(usage("--calibrate supports only --format text and json")),
    }
}

//! `rprof explain`.

use std::path::PathBuf;

use rprof_analysis::Options;
use rprof_explain::{Explanation, explain, explain_change};
use rprof_export::{Content, ExportOptions};
use rprof_profile::compare::{CompareOptions, compare};
use rprof_profile::{Keys, Profile};

use crate::Outcome;
use crate::cli::ExplainArgs;
use crate::commands::diff::not_compared;
use crate::input::nothing_found;
use crate::input::recordings::Callee;
use crate::terminal::output::write_to;
use crate::wording::messages::Failure;

pub(crate) fn run(args: &ExplainArgs) -> Outcome {
    if args.input.filter.latency {
        let message = "--latency does not apply to explain, whose sentences are about CPU time: use \
            `rprof report --latency`";
        return Err(Failure::with_status(2, anyhow::anyhow!(message)));
    }
    let text = match args.input.paths().as_slice() {
        [old, new] => changed(args, [old, new])?,
        [path] => {
            let profile = read(args, path.clone())?;
            let is_default = path.as_os_str() == "perf.data";
            let name = match is_default {
                true => String::new(),
                false => path.display().to_string(),
            };
            explain(&profile, &name)
        }
        _ => {
            let message =
                "explain takes one file, or two to compare: merge more by `rprof collapse`";
            return Err(Failure::with_status(2, anyhow::anyhow!(message)));
        }
    };
    write_to("-".as_ref(), |out| {
        Ok(out.write_all(text.within(args.budget).as_bytes())?)
    })?;
    Ok(0)
}

fn changed(args: &ExplainArgs, files: [&PathBuf; 2]) -> Result<Explanation, Failure> {
    let [old, new] = files;
    let sides = [read(args, old.clone())?, read(args, new.clone())?];
    let options = CompareOptions {
        weigh_by: args.input.filter.weight(),
        ..CompareOptions::default()
    };
    let [before, after] = sides.each_ref().map(std::slice::from_ref);
    let diff = compare(before, after, &options).map_err(|error| not_compared(&error))?;
    let names = files.map(|file| file.display().to_string());
    Ok(explain_change(&diff, names.each_ref().map(String::as_str)))
}

/// Reads a file with lines of frames and times of samples.
fn read(args: &ExplainArgs, path: PathBuf) -> Result<Profile, Failure> {
    let input = crate::cli::InputArgs {
        files: Vec::new(),
        input: Vec::new(),
        quiet: true,
        event: args.input.event.clone(),
        filter: args.input.filter.clone(),
    };
    let options = Options {
        waits: rprof_analysis::WaitOptions {
            fold_idle: true,
            alone: false,
        },
        ..input.options_for(Content::Samples, &ExportOptions::default())
    };
    let paths = [path.clone()];
    let profile = input.profile_and(Some(path), &options, &Keys::FUNCTIONS, Callee::Kept)?;
    match profile.main_event() {
        Some(_) => Ok(profile),
        None => Err(nothing_found::without_samples(&paths)),
    }
}

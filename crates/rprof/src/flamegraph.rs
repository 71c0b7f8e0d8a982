//! `rprof flamegraph`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use rprof_analysis::Options;
use rprof_export::svg::{self, SvgOptions};
use rprof_export::threads::ThreadMerging;
use rprof_export::verdict::{Finding, findings};
use rprof_output::{UnnamedFile, private_folder};
use rprof_profile::{Keys, Profile};
use rprof_recorder::{RecordError, Remains, Summary};

use crate::Outcome;
use crate::cli::FlamegraphArgs;
use crate::input::{Callee, analyse, open, read_merged, tell_if_empty, tell_others, warn};
use crate::messages::{Failure, say};
use crate::named_input::is_input;
use crate::output::Output;
use crate::record::{Destination, Job, record};
use crate::recorded;
use crate::remedies;
use crate::summary::print_summary;

pub(crate) fn run(args: &FlamegraphArgs) -> Outcome {
    let status = make(args)?;
    if args.open && args.output != Path::new("-") {
        open_for_reader(&args.output);
    }
    Ok(status)
}

/// Opens a file in the program that the desktop has for it, which goes on by itself.
fn open_for_reader(path: &Path) {
    let mut viewer = Command::new("xdg-open");
    let viewer =
        (viewer.arg(path).stdin(Stdio::null()).stdout(Stdio::null())).stderr(Stdio::null());
    if let Err(error) = viewer.spawn() {
        let path = path.display();
        say(format_args!(
            "cannot run xdg-open: {error}; open {path} in a browser"
        ));
    }
}

fn make(args: &FlamegraphArgs) -> Outcome {
    let has_target = args.target.is_given();
    let command = args.command.iter();
    if !args.target.is_more_than_processes()
        && !args.command.is_empty()
        && command.clone().all(|word| is_input(word))
    {
        // What stands where a COMMAND may be are files to draw.
        return from_files(args, &command.map(PathBuf::from).collect::<Vec<_>>());
    }
    match args.command.is_empty() && (!has_target || !args.input.is_empty()) {
        true if args.input.is_empty() => from_files(args, &["perf.data".into()]),
        true => from_files(args, &args.input),
        false => of_recording(args, Output::prepare(&args.output)?),
    }
}

fn from_files(args: &FlamegraphArgs, paths: &[PathBuf]) -> Outcome {
    if let Some(flag) = args.sampling.first_given() {
        let message = format!(
            "{flag} says how to record, and there is nothing to record: give a COMMAND (rprof flamegraph \
             -- COMMAND), or what runs already (-p PID, -t TID, -u USER, -G CGROUP, -C CPUS, -a)"
        );
        return Err(Failure::with_status(2, anyhow::anyhow!(message)));
    }
    let events: Vec<String> = (args.sampling.event.iter())
        .flat_map(|list| list.split(','))
        .map(str::to_owned)
        .collect();
    let mut filter = args.filter.filter(&events);
    // Nothing is recorded, so -p chooses among what was.
    let processes = args.target.processes.iter();
    (filter.pids).extend(processes.filter_map(|pid| i32::try_from(*pid).ok()));
    let output = Output::prepare(&args.output)?;
    let quiet = args.sampling.quiet;
    let options = Options {
        filter,
        inlined: true,
        ..Options::default()
    };
    let mut merged = read_merged(
        paths,
        &args.filter,
        &options,
        &Keys::FUNCTIONS,
        Callee::Kept,
        quiet,
    )?;
    if paths.len() > 1 {
        // Each recording has a clock of its own.
        merged.profile.time = None;
    }
    warn(&merged.profile, quiet);
    let options = SvgOptions {
        about: recorded::in_common(&merged.places),
        ..svg_options(args, &merged.subjects.join(", "))
    };
    draw_to(output, &merged.profile, &options, quiet)?;
    Ok(0)
}

/// Records and draws. Returns the command's exit status, whatever it is.
fn of_recording(args: &FlamegraphArgs, output: Output) -> Outcome {
    let unnamed = temporary()?;
    let stacks = args.sampling.wants_stacks();
    let to = Destination::unnamed(unnamed.handle()?);
    let job = Job::new(&args.target, &args.sampling, stacks, &args.command, to);
    let recorded = job.and_then(record)?;
    let mut summary = match recorded.summary {
        Ok(summary) => summary,
        // There is nothing to draw, and nothing to keep.
        Err(error @ RecordError::Write { remains, .. }) if remains != Remains::File => {
            return Err(error.into());
        }
        Err(error) => {
            // What there was before is drawn.
            if let Err(failure) = draw_recording(args, output, &unnamed.path(), None) {
                failure.report();
                keep(&unnamed);
            }
            return Err(error.into());
        }
    };
    let status = recorded.status;
    match draw_recording(args, output, &unnamed.path(), Some(&mut summary)) {
        Ok(()) => Ok(status),
        Err(failure) => {
            // A failure of the command matters more than that nothing could be drawn.
            let status = match status {
                0 => Err(failure),
                status => {
                    failure.report();
                    Ok(status)
                }
            };
            keep(&unnamed);
            status
        }
    }
}

/// Makes a file for a recording that is read at once: without a name, so that nothing is left of it however this
/// process ends.
pub(crate) fn temporary() -> Result<UnnamedFile, Failure> {
    Ok(UnnamedFile::create().context("cannot make a temporary file; is TMPDIR writable?")?)
}

/// Keeps a recording that was made and could not be drawn, and says where it is.
fn keep(unnamed: &UnnamedFile) {
    let copy = || -> std::io::Result<PathBuf> {
        let folder = private_folder()?;
        std::fs::copy(unnamed.path(), folder.path().join("perf.data"))?;
        Ok(folder.keep().join("perf.data"))
    };
    match copy() {
        Ok(path) => say(format_args!(
            "the recording is kept in {0}: `rprof flamegraph -i {0}` draws it",
            path.display()
        )),
        Err(error) => say(format_args!("the recording cannot be kept: {error}")),
    }
}

/// Draws what was just recorded, and prints what is missing in it.
fn draw_recording(
    args: &FlamegraphArgs,
    output: Output,
    path: &Path,
    summary: Option<&mut Summary>,
) -> Result<(), Failure> {
    let quiet = args.sampling.quiet;
    let data = open(path)?;
    let options = Options {
        filter: (args.filter).with_times_of(&args.filter.filter(&[]), &data)?,
        inlined: true,
        ..Options::default()
    };
    let mut profile = analyse(&data, &args.filter.symbols, &options, quiet)?;
    tell_if_empty(&mut profile, &options.filter);
    let profile = args.filter.cut_to_callers(profile, Callee::Kept);
    warn(&profile, quiet);
    if let (Some(summary), false) = (summary, quiet) {
        summary.path = "a temporary file".into();
        print_summary(summary, args.command.first().map(OsString::as_os_str));
        // The summary has told of the stacks, and of the CPU time.
        let is_told = |finding: &&Finding| match finding {
            Finding::Stacks { .. } => summary.stacks.is_some(),
            Finding::Unsampled { .. } | Finding::Waited { .. } => true,
            _ => false,
        };
        let verdict = findings(&profile);
        let rest = verdict.iter().filter(|finding| !is_told(finding));
        rest.map(remedies::of_finding).for_each(say);
    }
    let command: Vec<_> = (args.command.iter()).map(|a| a.to_string_lossy()).collect();
    let subject = match args.target.is_given() {
        true => recorded::subject(&data),
        false => command.join(" "),
    };
    let options = SvgOptions {
        about: recorded::place_and_time(&data),
        ..svg_options(args, &subject)
    };
    if profile.main_event().is_none() {
        // It is no failure of the command's, nor of ours; and whoever looks at the picture shall not
        // see an old one.
        say("there is nothing to draw");
        return output.write(|out| Ok(svg::write_without_samples(&options, out)?));
    }
    draw_to(output, &profile, &options, quiet)
}

fn svg_options(args: &FlamegraphArgs, subject: &str) -> SvgOptions {
    let title = match (&args.title, subject) {
        (Some(title), _) => title.clone(),
        (None, "") => "Flame graph".into(),
        (None, subject) => shorten(subject),
    };
    SvgOptions {
        title,
        subtitle: args.subtitle.clone(),
        inverted: !args.no_inverted,
        reverse: args.reverse,
        colors: args.colors,
        min_width: args.min_width,
        width: args.width.map(|pixels| pixels as usize),
        weight: args.filter.weight(),
        threads: ThreadMerging {
            by_number: !args.no_merge_threads,
            patterns: args.merge_threads.clone(),
        },
        ..SvgOptions::default()
    }
}

/// Writes the SVG of the first event that has samples.
pub(crate) fn draw_to(
    output: Output,
    profile: &Profile,
    options: &SvgOptions,
    quiet: bool,
) -> Result<(), Failure> {
    let event = profile.main_event().ok_or(svg::SvgError::NoSamples)?;
    tell_others(profile, event, "drawn", quiet);
    let path = output.path().map(Path::to_owned);
    output.write(|out| Ok(svg::write(profile, event, options, out)?))?;
    if let (Some(path), false) = (path, quiet) {
        say(format_args!("wrote {}", path.display()));
    }
    Ok(())
}

/// Shortens what was recorded to the length of a title.
fn shorten(command: &str) -> String {
    const MOST: usize = 100;
    match command.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &command[..at]),
        None => command.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_cut_between_characters() {
        assert_eq!(shorten("make"), "make");
        let (fits, long) = ("é".repeat(100), "é".repeat(101));
        assert_eq!(shorten(&fits), fits);
        assert_eq!(shorten(&long), format!("{fits}…"));
    }
}

//! Common parts of `flamegraph` and `html`: reads or makes a recording, and draws it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use rprof_analysis::Options;
use rprof_export::verdict::{Finding, findings};
use rprof_output::{UnnamedFile, private_folder};
use rprof_perfdata::PerfData;
use rprof_profile::{Filter, Keys, Profile};
use rprof_recorder::{RecordError, Remains, Summary};

use crate::Outcome;
use crate::cli::{FilterArgs, PictureArgs, TaskFilterArgs};
use crate::input::named_input::is_input_or_no_command;
use crate::input::nothing_found;
use crate::input::recordings::{
    Callee, analyse, check_latency, check_requests, check_waits, open, read_merged, warn,
};
use crate::recording::session::{Destination, Job, record};
use crate::recording::summary::print_summary;
use crate::recording::waits;
use crate::terminal::output::Output;
use crate::wording::messages::{Failure, say};
use crate::wording::recording_facts;
use crate::wording::remedies;

/// Source of a picture and its output file.
pub(crate) struct Request<'a> {
    pub(crate) command_name: &'static str,
    pub(crate) output: &'a Path,
    pub(crate) source: &'a PictureSource,
    pub(crate) args: &'a PictureArgs,
    pub(crate) command: &'a [OsString],
}

/// Input files, if any, and the sample filter.
pub(crate) struct PictureSource {
    /// `None` if a command or target is recorded.
    files: Option<Vec<PathBuf>>,
    pub(crate) filter: FilterArgs,
}

impl PictureSource {
    /// Chooses the input files: -i, words in the COMMAND's place, or the default without a target.
    /// With files, -p, -t and -C are filters.
    pub(crate) fn new(
        input: &[PathBuf],
        args: &PictureArgs,
        command: &[OsString],
    ) -> PictureSource {
        let are_files = !command.is_empty()
            && !args.target.is_for_recording_only()
            && command.iter().all(|word| is_input_or_no_command(word));
        let files = match (input, command) {
            (_, command) if are_files => Some(command.iter().map(PathBuf::from).collect()),
            ([], []) => (!args.target.is_given()).then(|| vec![PathBuf::from(DEFAULT_INPUT)]),
            ([], _) => None,
            (files, _) => Some(files.to_vec()),
        };
        let tasks = match files {
            Some(_) => args.target.as_filter(),
            None => TaskFilterArgs::default(),
        };
        PictureSource {
            files,
            filter: FilterArgs {
                tasks,
                samples: args.filter.clone(),
            },
        }
    }
}

const DEFAULT_INPUT: &str = "perf.data";

#[derive(Default)]
pub(crate) struct About {
    pub(crate) subject: String,
    /// Host and time.
    pub(crate) places: Vec<String>,
    /// Machine, kernel and recorder, as name and value.
    pub(crate) facts: Vec<(String, String)>,
    /// Files for a second read.
    pub(crate) files: Vec<PathBuf>,
    /// Sample filter without times, which depend on the clock of each recording.
    pub(crate) filter: Filter,
}

/// Picture of a profile: flame graph or page.
pub(crate) trait Picture {
    fn options(&self) -> Options;

    /// Draws a profile, which may be empty.
    fn draw(
        &self,
        output: Output,
        profile: &Profile,
        about: &About,
        quiet: bool,
    ) -> Result<(), Failure>;

    /// Draws a picture that states that there are no samples.
    fn draw_nothing(&self, output: Output, about: &About) -> Result<(), Failure>;
}

/// File name suffixes that belong to the other command.
const ENDS: [(&str, &str); 3] = [
    ("html", ".svg"),
    ("flamegraph", ".html"),
    ("flamegraph", ".htm"),
];

/// Draws the picture. Returns the status of the recorded command, if any.
pub(crate) fn run(request: &Request<'_>, picture: &impl Picture) -> Outcome {
    let (name, output) = (request.command_name, request.output.to_string_lossy());
    let is_other = |(command, end): &&(&str, &str)| name == *command && output.ends_with(end);
    if let Some((_, end)) = ENDS.iter().find(is_other) {
        let (made, other) = match name {
            "html" => ("a page in HTML", "flamegraph"),
            _ => ("an SVG", "html"),
        };
        let message = format!(
            "{output} ends in {end}, but rprof {name} writes {made}: did you mean `rprof {other} \
             -o {output}`?"
        );
        return Err(Failure::with_status(2, anyhow::anyhow!(message)));
    }
    let status = make(request, picture)?;
    if request.args.open && request.output != Path::new("-") {
        open_for_reader(request.output);
    }
    Ok(status)
}

/// Opens a file with xdg-open, without waiting for it.
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

fn make(request: &Request<'_>, picture: &impl Picture) -> Outcome {
    match &request.source.files {
        Some(files) => from_files(request, picture, files),
        None => of_recording(request, picture, Output::prepare(request.output)?),
    }
}

fn from_files(request: &Request<'_>, picture: &impl Picture, paths: &[PathBuf]) -> Outcome {
    let children = (request.args.target.with_children).then_some("--with-children");
    if let Some(flag) = request.args.sampling.first_given().or(children) {
        let name = request.command_name;
        let cause = match paths {
            [path] if path == Path::new(DEFAULT_INPUT) => "there is nothing to record".to_owned(),
            paths => {
                let paths: Vec<String> = paths
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect();
                format!("{} is read", paths.join(", "))
            }
        };
        let message = format!(
            "{flag} is for recording, but {cause}: give a COMMAND (rprof {name} -- COMMAND) or a \
             running target (-p PID, -t TID, -u USER, -G CGROUP, -C CPUS, -a), and no FILE"
        );
        return Err(Failure::with_status(2, anyhow::anyhow!(message)));
    }
    let events: Vec<String> = (request.args.sampling.event.iter())
        .flat_map(|list| list.split(','))
        .map(str::to_owned)
        .collect();
    let args = &request.source.filter;
    let filter = args.filter(&events);
    let output = Output::prepare(request.output)?;
    let quiet = request.args.sampling.quiet;
    let options = request.args.waits.choose(Options {
        filter,
        ..picture.options()
    })?;
    let mut merged = read_merged(paths, args, &options, &Keys::FUNCTIONS, Callee::Kept, quiet)?;
    request.args.waits.join(&mut merged.profile)?;
    if paths.len() > 1 {
        // Recordings have different clocks.
        merged.profile.time = None;
    }
    warn(&merged.profile, quiet);
    let about = About {
        subject: merged.subjects.join(", "),
        places: recording_facts::in_common(&merged.places),
        facts: merged.facts.concat(),
        files: paths.to_vec(),
        filter: options.filter,
    };
    picture.draw(output, &merged.profile, &about, quiet)?;
    Ok(0)
}

/// Records and draws. Returns the command's exit status.
fn of_recording(request: &Request<'_>, picture: &impl Picture, output: Output) -> Outcome {
    if request.args.waits.memory.moment().is_some() {
        let name = request.command_name;
        let message = format!(
            "rprof {name} does not record memory: make a recording first (`rprof record --memory` \
             or --alloc), then `rprof {name} perf.data`"
        );
        return Err(Failure::with_status(2, anyhow::anyhow!(message)));
    }
    let unnamed = temporary()?;
    let stacks = request.args.sampling.wants_stacks();
    let to = Destination::unnamed(unnamed.handle()?);
    let job = Job::new(
        &request.args.target,
        &request.args.sampling,
        stacks,
        request.command,
        to,
    );
    let mut job = job?;
    if request.args.waits.is_given() {
        job.builder = waits::add_to(job.builder, &request.args.target, request.args.waits.flag())?;
    }
    if request.source.filter.needs_switches() {
        job.builder = waits::with_switches(job.builder);
    }
    let needs_requests = request.source.filter.needs_requests() || request.args.waits.by.is_some();
    job.builder = job.builder.requests(needs_requests);
    let recorded = record(job)?;
    let mut summary = match recorded.summary {
        Ok(summary) => summary,
        // Nothing to draw or keep.
        Err(error @ RecordError::Write { remains, .. }) if remains != Remains::File => {
            return Err(error.into());
        }
        Err(error) => {
            // Data from before the failure.
            if let Err(failure) = draw_recording(request, picture, output, &unnamed.path(), None) {
                failure.report();
                keep(request, &unnamed);
            }
            return Err(error.into());
        }
    };
    let status = recorded.status;
    let drawn = draw_recording(
        request,
        picture,
        output,
        &unnamed.path(),
        Some(&mut summary),
    );
    match drawn {
        Ok(()) => Ok(status),
        Err(failure) => {
            // The command's failure takes precedence.
            let status = match status {
                0 => Err(failure),
                status => {
                    failure.report();
                    Ok(status)
                }
            };
            keep(request, &unnamed);
            status
        }
    }
}

/// Creates an unnamed file, which disappears with this process.
pub(crate) fn temporary() -> Result<UnnamedFile, Failure> {
    let failed = || {
        format!(
            "cannot create a temporary file in {}; TMPDIR names another folder",
            std::env::temp_dir().display()
        )
    };
    Ok(UnnamedFile::create().with_context(failed)?)
}

/// Saves a recording that could not be drawn, and prints its path.
fn keep(request: &Request<'_>, unnamed: &UnnamedFile) {
    let copy = || -> std::io::Result<PathBuf> {
        let folder = private_folder()?;
        std::fs::copy(unnamed.path(), folder.path().join("perf.data"))?;
        Ok(folder.keep().join("perf.data"))
    };
    match copy() {
        Ok(path) => say(format_args!(
            "the recording is saved in {0}: `rprof {1} -i {0}` draws it",
            path.display(),
            request.command_name
        )),
        Err(error) => say(format_args!("cannot save the recording: {error}")),
    }
}

fn draw_recording(
    request: &Request<'_>,
    picture: &impl Picture,
    output: Output,
    path: &Path,
    summary: Option<&mut Summary>,
) -> Result<(), Failure> {
    let quiet = request.args.sampling.quiet;
    let data = open(path)?;
    let filter = &request.source.filter;
    let options = request.args.waits.choose(Options {
        filter: filter.with_times_of(&filter.filter(&[]), &data)?,
        by_language: !filter.symbols.no_by_language,
        latency: filter.latency,
        ..picture.options()
    })?;
    check_waits(&data, &options)?;
    check_latency(&data, filter)?;
    check_requests(&data, &options)?;
    let mut profile = analyse(&data, &filter.symbols, &options, quiet)?;
    filter.symbols.fold_languages(&mut profile);
    if nothing_found::has_filters(filter, &options.filter) {
        let paths = [PathBuf::from("the recording")];
        nothing_found::check(&profile, &paths, filter, &options.filter)?;
    }
    nothing_found::check_by(&profile, &[path.to_owned()], options.by_request.as_ref())?;
    let mut profile = filter.cut_to_callers(profile, Callee::Kept);
    request.args.waits.join(&mut profile)?;
    warn(&profile, quiet);
    if let (Some(summary), false) = (summary, quiet) {
        summary.path = "a temporary file".into();
        print_summary(summary, request.command.first().map(OsString::as_os_str));
        let is_told = |finding: &&Finding| match finding {
            Finding::Stacks { .. } => summary.stacks.is_some(),
            Finding::Unsampled { .. } | Finding::Waited { .. } => true,
            _ => false,
        };
        let verdict = findings(&profile);
        let rest = verdict.iter().filter(|finding| !is_told(finding));
        rest.map(remedies::of_finding).for_each(say);
    }
    let about = about_recording(request, &data, path);
    if profile.main_event().is_none() {
        // No failure. The new picture replaces an old one.
        say("nothing to draw: the recording has no samples");
        return picture.draw_nothing(output, &about);
    }
    picture.draw(output, &profile, &about, quiet)
}

fn about_recording(request: &Request<'_>, data: &PerfData, path: &Path) -> About {
    let command: Vec<_> = (request.command.iter())
        .map(|a| a.to_string_lossy())
        .collect();
    About {
        subject: match request.args.target.is_given() {
            true => recording_facts::subject(data),
            false => command.join(" "),
        },
        places: recording_facts::place_and_time(data),
        facts: recording_facts::facts(data),
        files: vec![path.to_owned()],
        filter: request.source.filter.filter(&[]),
    }
}

pub(crate) fn title(about: &About, other: &str) -> String {
    match &*about.subject {
        "" => other.to_owned(),
        subject => shorten(subject),
    }
}

fn shorten(command: &str) -> String {
    const LIMIT: usize = 100;
    match command.char_indices().nth(LIMIT) {
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

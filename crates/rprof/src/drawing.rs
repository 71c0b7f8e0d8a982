//! Common parts of `flamegraph` and `html`: reading recordings, or recording a command or a target, and drawing
//! that to a file.

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
use crate::cli::{
    FilterArgs, SampleFilterArgs, SamplingArgs, TargetArgs, TaskFilterArgs, WaitArgs,
};
use crate::input::{Callee, analyse, open, read_merged, warn};
use crate::messages::{Failure, say};
use crate::named_input::is_input_or_no_command;
use crate::nothing_found;
use crate::output::Output;
use crate::record::{Destination, Job, record};
use crate::recorded;
use crate::remedies;
use crate::summary::print_summary;
use crate::waits;

/// Arguments that say what is drawn, and to which file.
pub(crate) struct Request<'a> {
    /// Name of the command.
    pub(crate) command_name: &'static str,
    pub(crate) output: &'a Path,
    /// Open the file when it is written.
    pub(crate) open: bool,
    pub(crate) source: &'a PictureSource,
    pub(crate) target: &'a TargetArgs,
    pub(crate) sampling: &'a SamplingArgs,
    pub(crate) waits: &'a WaitArgs,
    pub(crate) command: &'a [OsString],
}

/// Files that are read, if any, and the filter of the samples that are drawn.
pub(crate) struct PictureSource {
    /// `None` if a command or a target is recorded.
    files: Option<Vec<PathBuf>>,
    pub(crate) filter: FilterArgs,
}

impl PictureSource {
    /// Decides whether files are read: those of -i, those that stand where a COMMAND may be, or the default where nothing
    /// selects what to record. Then -p, -t and -C are filters.
    pub(crate) fn new(
        input: &[PathBuf],
        samples: &SampleFilterArgs,
        target: &TargetArgs,
        command: &[OsString],
    ) -> PictureSource {
        let are_files = !command.is_empty()
            && !target.is_for_recording_only()
            && command.iter().all(|word| is_input_or_no_command(word));
        let files = match (input, command) {
            (_, command) if are_files => Some(command.iter().map(PathBuf::from).collect()),
            ([], []) => (!target.is_given()).then(|| vec![PathBuf::from(DEFAULT_INPUT)]),
            ([], _) => None,
            (files, _) => Some(files.to_vec()),
        };
        let tasks = match files {
            Some(_) => target.as_filter(),
            None => TaskFilterArgs::default(),
        };
        PictureSource {
            files,
            filter: FilterArgs {
                tasks,
                samples: samples.clone(),
            },
        }
    }
}

/// Recording that is read where none is named.
const DEFAULT_INPUT: &str = "perf.data";

/// Facts about the recordings that are drawn.
#[derive(Default)]
pub(crate) struct About {
    /// Command or target that was recorded; empty if no recording says so.
    pub(crate) subject: String,
    /// Place and time.
    pub(crate) places: Vec<String>,
    /// Machine, kernel and recorder, by name.
    pub(crate) facts: Vec<(String, String)>,
    /// Files that they can be read from once more.
    pub(crate) files: Vec<PathBuf>,
    /// Filter of the samples that are drawn; without the times, which each recording has its own of.
    pub(crate) filter: Filter,
}

/// Picture that a command draws.
pub(crate) trait Picture {
    /// Returns what to analyse for it.
    fn options(&self) -> Options;

    /// Draws a profile, which may have no sample.
    fn draw(
        &self,
        output: Output,
        profile: &Profile,
        about: &About,
        quiet: bool,
    ) -> Result<(), Failure>;

    /// Draws that no sample was taken.
    fn draw_nothing(&self, output: Output, about: &About) -> Result<(), Failure>;
}

/// Ends of the names that files of the other command have.
const ENDS: [(&str, &str); 3] = [
    ("html", ".svg"),
    ("flamegraph", ".html"),
    ("flamegraph", ".htm"),
];

/// Draws what is asked for. Returns the status to exit with: that of a command that was recorded.
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
    if request.open && request.output != Path::new("-") {
        open_for_reader(request.output);
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

fn make(request: &Request<'_>, picture: &impl Picture) -> Outcome {
    match &request.source.files {
        Some(files) => from_files(request, picture, files),
        None => of_recording(request, picture, Output::prepare(request.output)?),
    }
}

fn from_files(request: &Request<'_>, picture: &impl Picture, paths: &[PathBuf]) -> Outcome {
    let children = (request.target.with_children).then_some("--with-children");
    if let Some(flag) = request.sampling.first_given().or(children) {
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
    let events: Vec<String> = (request.sampling.event.iter())
        .flat_map(|list| list.split(','))
        .map(str::to_owned)
        .collect();
    let args = &request.source.filter;
    let filter = args.filter(&events);
    let output = Output::prepare(request.output)?;
    let quiet = request.sampling.quiet;
    let options = request.waits.choose(Options {
        filter,
        ..picture.options()
    })?;
    let mut merged = read_merged(paths, args, &options, &Keys::FUNCTIONS, Callee::Kept, quiet)?;
    request.waits.join(&mut merged.profile)?;
    if paths.len() > 1 {
        // Each recording has a clock of its own.
        merged.profile.time = None;
    }
    warn(&merged.profile, quiet);
    let about = About {
        subject: merged.subjects.join(", "),
        places: recorded::in_common(&merged.places),
        facts: merged.facts.concat(),
        files: paths.to_vec(),
        filter: options.filter,
    };
    picture.draw(output, &merged.profile, &about, quiet)?;
    Ok(0)
}

/// Records and draws. Returns the command's exit status, whatever it is.
fn of_recording(request: &Request<'_>, picture: &impl Picture, output: Output) -> Outcome {
    let unnamed = temporary()?;
    let stacks = request.sampling.wants_stacks();
    let to = Destination::unnamed(unnamed.handle()?);
    let job = Job::new(
        request.target,
        request.sampling,
        stacks,
        request.command,
        to,
    );
    let mut job = job?;
    if request.waits.is_given() {
        job.builder = waits::add_to(job.builder, request.target, request.waits.flag())?;
    }
    let recorded = record(job)?;
    let mut summary = match recorded.summary {
        Ok(summary) => summary,
        // There is nothing to draw, and nothing to keep.
        Err(error @ RecordError::Write { remains, .. }) if remains != Remains::File => {
            return Err(error.into());
        }
        Err(error) => {
            // What there was before is drawn.
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
            // A failure of the command matters more than that nothing could be drawn.
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

/// Makes a file for a recording that is read at once: without a name, so that nothing is left of it however this
/// process ends.
pub(crate) fn temporary() -> Result<UnnamedFile, Failure> {
    Ok(UnnamedFile::create().context("cannot make a temporary file; is TMPDIR writable?")?)
}

/// Keeps a recording that was made and could not be drawn, and says where it is.
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

/// Draws what was just recorded, and prints what is missing in it.
fn draw_recording(
    request: &Request<'_>,
    picture: &impl Picture,
    output: Output,
    path: &Path,
    summary: Option<&mut Summary>,
) -> Result<(), Failure> {
    let quiet = request.sampling.quiet;
    let data = open(path)?;
    let filter = &request.source.filter;
    let options = request.waits.choose(Options {
        filter: filter.with_times_of(&filter.filter(&[]), &data)?,
        ..picture.options()
    })?;
    WaitArgs::check_recording(&data, &options)?;
    let profile = analyse(&data, &filter.symbols, &options, quiet)?;
    if nothing_found::has_filters(filter, &options.filter) {
        let paths = [PathBuf::from("the recording")];
        nothing_found::check(&profile, &paths, filter, &options.filter)?;
    }
    let mut profile = filter.cut_to_callers(profile, Callee::Kept);
    request.waits.join(&mut profile)?;
    warn(&profile, quiet);
    if let (Some(summary), false) = (summary, quiet) {
        summary.path = "a temporary file".into();
        print_summary(summary, request.command.first().map(OsString::as_os_str));
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
    let about = about_recording(request, &data, path);
    if profile.main_event().is_none() {
        // It is no failure of the command's, nor of ours; and whoever looks at the picture shall not
        // see an old one.
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
        subject: match request.target.is_given() {
            true => recorded::subject(data),
            false => command.join(" "),
        },
        places: recorded::place_and_time(data),
        facts: recorded::facts(data),
        files: vec![path.to_owned()],
        filter: request.source.filter.filter(&[]),
    }
}

/// Returns the title of a picture: what was recorded, in the length of a line, or `other`.
pub(crate) fn title(about: &About, other: &str) -> String {
    match &*about.subject {
        "" => other.to_owned(),
        subject => shorten(subject),
    }
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

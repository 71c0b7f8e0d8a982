//! Opening of recordings, and settings that all reading commands share.

use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use anyhow::Context;
use rprof_analysis::Options;
use rprof_perfdata::PerfData;
use rprof_profile::{Filter, Keys, Profile, WeighBy};
use rprof_symbols::{Style, Symbolizer};

use crate::cli::{DemangleArg, FilterArgs, InputArgs, SymbolArgs, WeightArg};
use crate::downloads::Downloads;
use crate::folded::FoldedText;
use crate::messages::{Failure, say};
use crate::remedies;

/// Input of the commands that read profiles.
pub(crate) enum Input {
    Recording(Box<PerfData>),
    Folded(FoldedText),
}

/// Opens a recording: [`open_input`] for commands that need single samples or a header.
pub(crate) fn open(path: &Path) -> Result<PerfData, Failure> {
    match open_input(path)? {
        Input::Recording(data) => Ok(*data),
        Input::Folded(text) => Err(text.is_no_recording()),
    }
}

/// Opens a recording, or folded text. `-` is standard input; a named pipe is read as a stream as
/// well.
pub(crate) fn open_input(path: &Path) -> Result<Input, Failure> {
    if path == Path::new("-") {
        return open_stream(io::stdin().lock(), Path::new("standard input"));
    }
    // A shell makes a named pipe of `-i <(COMMAND)`.
    if std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_fifo()) {
        let cannot = || format!("cannot read {}", path.display());
        let pipe = std::fs::File::open(path).with_context(cannot)?;
        return open_stream(pipe, path);
    }
    if let Some(text) = FoldedText::open(path) {
        return Ok(Input::Folded(text));
    }
    let data = PerfData::open(path).map_err(|error| match &error {
        rprof_perfdata::Error::NotPerfData { .. } => neither(&error),
        _ => anyhow::Error::msg(remedies::of_unreadable(&error)).into(),
    })?;
    Ok(Input::Recording(Box::new(data)))
}

fn open_stream(stream: impl Read + 'static, name: &Path) -> Result<Input, Failure> {
    match FoldedText::of_stream(stream, name) {
        Ok(text) => Ok(Input::Folded(text)),
        Err(stream) => {
            let data = PerfData::read(stream, name).map_err(|error| match &error {
                rprof_perfdata::Error::NotPerfData { .. } => neither(&error),
                _ => error.into(),
            })?;
            Ok(Input::Recording(Box::new(data)))
        }
    }
}

/// Tells that a file is no recording, and no folded text either.
fn neither(error: &rprof_perfdata::Error) -> Failure {
    anyhow::anyhow!("{error}, and its first line is no folded stack (`FRAME;FRAME COUNT`)").into()
}

impl FilterArgs {
    pub(crate) fn weight(&self) -> WeighBy {
        match self.weight {
            Some(WeightArg::Samples) => WeighBy::Samples,
            Some(WeightArg::Period) | None => WeighBy::Period,
        }
    }

    pub(crate) fn filter(&self, events: &[String]) -> Filter {
        Filter {
            comms: self.comm.clone(),
            pids: self.pid.clone(),
            tids: self.tid.clone(),
            cpus: self.cpu.iter().flat_map(|list| list.0.clone()).collect(),
            events: events.to_vec(),
            time: self.time,
            objects: self.dso.clone(),
            symbols: self.symbol.clone(),
        }
    }
}

impl InputArgs {
    pub(crate) fn options(&self) -> Options {
        Options {
            filter: self.filter.filter(&self.event),
            ..Options::default()
        }
    }

    /// Opens and analyses the recording, or reads the folded text.
    pub(crate) fn profile(&self, keys: &Keys) -> Result<Profile, Failure> {
        let data = match open_input(&self.input)? {
            Input::Recording(data) => *data,
            Input::Folded(text) => return text.profile(&self.filter.filter(&self.event), keys),
        };
        check_events(&data, &self.event)?;
        let options = Options {
            by_thread: keys.pid || keys.tid,
            by_line: keys.line,
            ..self.options()
        };
        analyse(&data, &self.filter.symbols, &options, self.quiet)
    }
}

/// Refuses the name of an event that the recording does not have: most likely it was mistyped.
pub(crate) fn check_events(data: &PerfData, wanted: &[String]) -> Result<(), Failure> {
    for name in wanted {
        let filter = Filter {
            events: vec![name.clone()],
            ..Filter::default()
        };
        let events = data.events().list();
        if !events.iter().any(|e| filter.wants_event(&e.name)) {
            let known: Vec<_> = events.iter().map(|e| e.name.as_str()).collect();
            let message = format!(
                "there is no event {name:?} in {}; there are {}",
                data.path().display(),
                known.join(", ")
            );
            return Err(anyhow::anyhow!(message).into());
        }
    }
    Ok(())
}

/// Analyses a recording.
pub(crate) fn analyse(
    data: &PerfData,
    names: &SymbolArgs,
    options: &Options,
    quiet: bool,
) -> Result<Profile, Failure> {
    let downloads = names.downloads(quiet)?;
    let symbolizer = names.symbolizer(options.by_line, downloads.as_ref());
    let mut profile = rprof_analysis::analyse(data, &symbolizer, options);
    if profile.main_event().is_none() && options.filter != Filter::default() {
        (profile.quality.warnings).push("the filters leave no sample".to_owned());
    }
    if let Some(downloads) = downloads {
        downloads.print_summary();
    }
    // Tables of symbols in many pieces, which the system takes back faster when the process ends,
    // as it does soon.
    std::mem::forget(symbolizer);
    Ok(profile)
}

impl SymbolArgs {
    /// Makes the symbolizer, with source lines only if they are shown, since they take time.
    pub(crate) fn symbolizer(&self, lines: bool, downloads: Option<&Downloads>) -> Symbolizer {
        Symbolizer::builder()
            .style(match self.demangle {
                DemangleArg::Full => Style::Full,
                DemangleArg::Short => Style::NoParameters,
                DemangleArg::None => Style::Mangled,
            })
            .inlines(!self.no_inline)
            .lines(lines)
            .root(self.symfs.clone())
            .vmlinux(self.vmlinux.clone())
            .remote(downloads.map(Downloads::remote))
            .build()
    }

    /// Makes the client of debuginfod, if `--debuginfod` was given.
    pub(crate) fn downloads(&self, quiet: bool) -> Result<Option<Downloads>, Failure> {
        match self.debuginfod && !self.no_debuginfod {
            true => Downloads::new(quiet).map(Some),
            false => Ok(None),
        }
    }
}

/// Prints the warnings of a recording to stderr.
pub(crate) fn warn(profile: &Profile, quiet: bool) {
    if quiet {
        return;
    }
    for warning in &profile.quality.warnings {
        say(format_args!("warning: {warning}"));
    }
}

/// Prints a note if only one of several events with samples is shown.
pub(crate) fn tell_others(profile: &Profile, shown: usize, how: &str, quiet: bool) {
    let others = (profile.events.iter().skip(shown + 1)).filter(|e| e.samples > 0);
    if others.count() > 0 && !quiet {
        let name = &profile.events[shown].name;
        say(format_args!(
            "only samples of {name} are {how}; choose others with --event"
        ));
    }
}

//! Opens recordings; settings shared by all reading commands.

use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rprof_analysis::{Options, tells_latency};
use rprof_export::{Content, ExportOptions, SampleLabel};
use rprof_import::{Detected, Opened, ReadingBudget};
use rprof_output::PrivateCache;
use rprof_perfdata::PerfData;
use rprof_profile::memory::{GROWTH, is_of_memory};
use rprof_profile::pattern::matches_function;
use rprof_profile::waits::WAITS;
use rprof_profile::{Filter, Function, Keys, Profile, WeighBy, callers_of, merge};
use rprof_records::request_context;
use rprof_symbols::{MemoryLimits, Style, Symbolizer, SymbolizerBuilder};

use crate::cli::{DemangleArg, FilterArgs, InputArgs, SampleFilterArgs, SymbolArgs, WeightArg};
use crate::input::downloads::Downloads;
use crate::input::named_input::look_at;
use crate::input::not_shown;
use crate::input::nothing_found;
use crate::input::other_formats::ForeignProfile;
use crate::input::similar_names;
use crate::wording::messages::{Failure, say};
use crate::wording::recording_facts;
use crate::wording::remedies;
use crate::wording::remedies::{FOR_MISSING_SNAPSHOTS, FOR_MISSING_WAITS};

pub(crate) enum Input {
    Recording(Box<PerfData>),
    Foreign(Box<ForeignProfile>),
}

/// Like [`open_input`], for commands that need a recording.
pub(crate) fn open(path: &Path) -> Result<PerfData, Failure> {
    match open_with(path, not_a_recording)? {
        Input::Recording(data) => Ok(*data),
        Input::Foreign(text) => Err(text.is_no_recording()),
    }
}

/// Opens a recording or another tool's profile. `-` and named pipes are streams.
pub(crate) fn open_input(path: &Path) -> Result<Input, Failure> {
    open_with(path, unknown_format)
}

/// Failure for a file that begins with the given text.
type OfUnknown = fn(&Path, &str) -> Failure;

fn open_with(path: &Path, of_unknown: OfUnknown) -> Result<Input, Failure> {
    if path == Path::new("-") {
        return open_stream(io::stdin().lock(), Path::new("standard input"), of_unknown);
    }
    // A shell turns `-i <(COMMAND)` into a named pipe.
    if std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_fifo()) {
        let cannot = || format!("cannot read {}", path.display());
        let pipe = std::fs::File::open(path).with_context(cannot)?;
        return open_stream(pipe, path, of_unknown);
    }
    if let Some(opened) = look_at(path) {
        let opened = opened.with_context(|| format!("cannot read {}", path.display()))?;
        // Mapped, unless compressed.
        if opened.is_compressed() || *opened.detected() != Detected::Other {
            return of_opened(opened, path, of_unknown);
        }
    }
    let data = PerfData::open(path).map_err(|error| match &error {
        rprof_perfdata::Error::NotPerfData { path, found } => of_unknown(path, found),
        _ => anyhow::Error::msg(remedies::of_unreadable(&error)).into(),
    })?;
    Ok(Input::Recording(Box::new(data)))
}

fn open_stream(
    stream: impl Read + 'static,
    name: &Path,
    of_unknown: OfUnknown,
) -> Result<Input, Failure> {
    let opened = Opened::new(stream).with_context(|| format!("cannot read {}", name.display()))?;
    of_opened(opened, name, of_unknown)
}

fn of_opened(opened: Opened, name: &Path, of_unknown: OfUnknown) -> Result<Input, Failure> {
    if let Detected::Refused(why) = opened.detected() {
        return Err(anyhow::anyhow!("{} {why}", name.display()).into());
    }
    match ForeignProfile::of_opened(opened, name) {
        Ok(text) => Ok(Input::Foreign(Box::new(text))),
        Err(opened) => {
            let data =
                PerfData::read(opened.into_stream(), name).map_err(|error| match &error {
                    rprof_perfdata::Error::NotPerfData { path, found } => of_unknown(path, found),
                    _ => error.into(),
                })?;
            Ok(Input::Recording(Box::new(data)))
        }
    }
}

fn not_a_recording(path: &Path, found: &str) -> Failure {
    let path = path.display();
    anyhow::anyhow!("{path} is no perf.data file (it begins with \"{found}\", not \"PERFILE2\")")
        .into()
}

fn unknown_format(path: &Path, found: &str) -> Failure {
    let path = path.display();
    anyhow::anyhow!(
        "{path} has an unknown format: it is neither a perf.data file (it begins with \"{found}\", \
         not \"PERFILE2\") nor folded stacks (`FRAME;FRAME COUNT`), pprof, output of perf script, or \
         a profile of the Firefox Profiler, speedscope, V8 or gperftools"
    )
    .into()
}

impl FilterArgs {
    pub(crate) fn filter(&self, events: &[String]) -> Filter {
        Filter {
            comms: self.comm.clone(),
            pids: self.tasks.pid.clone(),
            tids: self.tasks.tid.clone(),
            cpus: self
                .tasks
                .cpu
                .iter()
                .flat_map(|list| list.0.clone())
                .collect(),
            events: events.to_vec(),
            // Times relative to the start or end need the open recording.
            time: (self.time).map(|span| span.resolve(None).unwrap_or((0, u64::MAX))),
            objects: self.dso.clone(),
            languages: self.language.clone(),
            parallelism: (self.parallelism.iter())
                .flat_map(|list| list.0.clone())
                .collect(),
            symbols: self.symbol.clone(),
            // Stacks without the function have no callers of it.
            focus: [&*self.focus, &*self.callers].concat(),
            traces: self.trace.clone(),
            slower_than: (self.slower_than)
                .map(|least| u64::try_from(least.as_nanos()).unwrap_or(u64::MAX)),
            reasons: Vec::new(),
        }
    }
}

impl SampleFilterArgs {
    pub(crate) fn weight(&self) -> WeighBy {
        match self.weight {
            Some(WeightArg::Samples) => WeighBy::Samples,
            Some(WeightArg::Period) | None => WeighBy::Period,
        }
    }

    /// Returns true if an option needs records of context switches, or waits.
    pub(crate) fn needs_switches(&self) -> bool {
        self.latency || self.parallelism.is_some()
    }

    pub(crate) fn needs_requests(&self) -> bool {
        !self.trace.is_empty() || self.slower_than.is_some()
    }

    /// Cuts stacks at the functions of --callers, if given.
    pub(crate) fn cut_to_callers(&self, profile: Profile, callee: Callee) -> Profile {
        let is_callee = |function: &Function| {
            let name = function.name.as_deref();
            name.is_ok_and(|name| self.callers.iter().any(|p| matches_function(p, name)))
        };
        match self.callers.is_empty() {
            true => profile,
            false => callers_of(&profile, is_callee, callee == Callee::Kept),
        }
    }

    pub(crate) fn with_times_of(
        &self,
        filter: &Filter,
        data: &PerfData,
    ) -> Result<Filter, Failure> {
        let mut filter = filter.clone();
        if let Some(span) = self.time {
            let samples = (data.features().sample_time()).filter(|(_, last)| *last > 0);
            let time = span.resolve(samples).ok_or_else(|| {
                let message = format!(
                    "{} does not store the times of its first and last samples: it is a stream, or \
                     was cut short; give --time in seconds, as `rprof script` prints them",
                    data.path().display()
                );
                Failure::with_status(2, anyhow::anyhow!(message))
            })?;
            filter.time = Some(time);
        }
        Ok(filter)
    }
}

impl InputArgs {
    pub(crate) fn options(&self) -> Options {
        Options {
            filter: self.filter.filter(&self.event),
            ..Options::default()
        }
    }

    pub(crate) fn options_for(&self, content: Content, export: &ExportOptions) -> Options {
        let by_thread = export.labels.iter().any(|label| label.is_by_thread());
        let by_cpu = export.labels.contains(&SampleLabel::Cpu);
        Options {
            addresses: content == Content::Addresses || content.is_by_time(),
            inlined: true,
            streams: content.is_by_time() || by_cpu,
            by_thread: content.is_by_time() || by_thread,
            request_ids: export.labels.iter().any(|label| label.is_of_request()),
            ..self.options()
        }
    }

    /// Reads, analyses and merges the inputs. `file` replaces the default input.
    pub(crate) fn profile_and(
        &self,
        file: Option<PathBuf>,
        options: &Options,
        keys: &Keys,
        of_callers: Callee,
    ) -> Result<Profile, Failure> {
        let paths = match file {
            Some(file) => [&*self.input, &[file]].concat(),
            None => self.paths(),
        };
        let filter = &self.filter;
        let merged = read_merged(&paths, filter, options, keys, of_callers, self.quiet)?;
        Ok(merged.profile)
    }
}

/// Whether --callers keeps the called function in cut stacks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Callee {
    /// The function is the leaf, for views of stacks.
    Kept,
    /// Its direct caller is the leaf, for views of functions.
    Dropped,
}

pub(crate) struct Merged {
    pub(crate) profile: Profile,
    /// Recorded commands or targets, without duplicates.
    pub(crate) subjects: Vec<String>,
    /// Host and time of each recording.
    pub(crate) places: Vec<Vec<String>>,
    /// Machine and recorder of each recording.
    pub(crate) facts: Vec<Vec<(String, String)>>,
}

/// Reads and merges recordings or profiles of other tools.
///
/// # Errors
///
/// An input cannot be read, or no sample passes the filters.
pub(crate) fn read_merged(
    paths: &[PathBuf],
    args: &FilterArgs,
    options: &Options,
    keys: &Keys,
    of_callers: Callee,
    quiet: bool,
) -> Result<Merged, Failure> {
    let merged = read_even_empty(paths, args, options, keys, of_callers, quiet)?;
    nothing_found::check(&merged.profile, paths, args, &options.filter)?;
    nothing_found::check_by(&merged.profile, paths, options.by_request.as_ref())?;
    Ok(merged)
}

/// Reads like [`read_merged`], but accepts empty profiles, for `push --follow`.
pub(crate) fn read_even_empty(
    paths: &[PathBuf],
    args: &FilterArgs,
    options: &Options,
    keys: &Keys,
    of_callers: Callee,
    quiet: bool,
) -> Result<Merged, Failure> {
    let filter = &options.filter;
    let (mut profiles, mut subjects) = (Vec::new(), Vec::new());
    let (mut places, mut facts) = (Vec::new(), Vec::new());
    let budget = args.symbols.reading_budget();
    for path in paths {
        match open_input(path)? {
            Input::Foreign(text) => {
                let options = Options {
                    latency: args.latency,
                    ..options.clone()
                };
                profiles.push(text.profile(keys, &options, &budget)?);
            }
            Input::Recording(data) => {
                let options = checked_options(&data, args, options, keys)?;
                not_shown::tell(&data, args, quiet);
                profiles.push(analyse(&data, &args.symbols, &options, quiet)?);
                let subject = recording_facts::subject(&data);
                if !subject.is_empty() && !subjects.contains(&subject) {
                    subjects.push(subject);
                }
                places.push(recording_facts::place_and_time(&data));
                facts.push(recording_facts::facts(&data));
            }
        }
    }
    let folded = profiles.iter().filter(|profile| profile.is_folded).count();
    if folded > 0 && folded < profiles.len() {
        let message = "cannot merge folded stacks and recordings: convert the recordings to folded \
            stacks first with `rprof collapse`";
        return Err(Failure::with_status(2, anyhow::anyhow!(message)));
    }
    let mut profile = merge(profiles);
    let unmatched = similar_names::unmatched(&profile, filter);
    profile.quality.warnings.extend(unmatched);
    args.symbols.fold_languages(&mut profile);
    profile = args.cut_to_callers(profile, of_callers);
    Ok(Merged {
        profile,
        subjects,
        places,
        facts,
    })
}

/// Returns the options for a recording, with its own times.
///
/// # Errors
///
/// The recording lacks data that the options or filters need.
pub(crate) fn checked_options(
    data: &PerfData,
    args: &FilterArgs,
    options: &Options,
    keys: &Keys,
) -> Result<Options, Failure> {
    check_events(data, &options.filter.events)?;
    check_waits(data, options)?;
    check_latency(data, args)?;
    check_requests(data, options)?;
    Ok(Options {
        by_thread: options.by_thread || keys.pid || keys.tid,
        by_line: keys.line,
        filter: args.with_times_of(&options.filter, data)?,
        by_language: !args.symbols.no_by_language,
        latency: args.latency,
        ..options.clone()
    })
}

pub(crate) fn check_events(data: &PerfData, wanted: &[String]) -> Result<(), Failure> {
    // `--at` names the events of both kinds of recordings of memory; a file has one of them.
    let is_there = |name: &String| data.events().list().iter().any(|e| e.name == *name);
    let are_moments = wanted.len() > 1 && wanted.iter().all(|name| is_of_memory(name));
    if are_moments && wanted.iter().any(is_there) {
        return Ok(());
    }
    if are_moments && !data.events().list().iter().any(|e| is_of_memory(&e.name)) {
        let path = data.path().display();
        let message = format!("{path} has no memory: {FOR_MISSING_SNAPSHOTS}");
        return Err(anyhow::anyhow!(message).into());
    }
    for name in wanted {
        let filter = Filter {
            events: vec![name.clone()],
            ..Filter::default()
        };
        let events = data.events().list();
        if !events.iter().any(|e| filter.wants_event(&e.name)) {
            let path = data.path().display();
            // Carries the records of processes, and has no samples.
            let is_chosen = |name: &&str| !name.starts_with("dummy:");
            let names = events.iter().map(|e| e.name.as_str());
            let known: Vec<&str> = names.filter(is_chosen).collect();
            let message = format!("no event {name:?} in {path}: it has {}", known.join(", "));
            let message = match &**name {
                WAITS => format!("{path} has no waits: {FOR_MISSING_WAITS}"),
                GROWTH => format!("{message}; {FOR_MISSING_SNAPSHOTS}"),
                _ => message,
            };
            return Err(anyhow::anyhow!(message).into());
        }
    }
    Ok(())
}

pub(crate) fn check_waits(data: &PerfData, options: &Options) -> Result<(), Failure> {
    match options.waits.alone {
        true => check_events(data, &[WAITS.to_owned()]),
        false => Ok(()),
    }
}

/// Rejects a recording that does not tell when threads ran, if weights or filters need it.
pub(crate) fn check_latency(data: &PerfData, filter: &SampleFilterArgs) -> Result<(), Failure> {
    let flag = match (filter.latency, &filter.parallelism) {
        (true, _) => "--latency",
        (false, Some(_)) => "--parallelism",
        (false, None) => return Ok(()),
    };
    if tells_latency(data) {
        return Ok(());
    }
    let message = format!(
        "{flag} needs to know when threads ran, but {} has no context switches and no waits: \
         `rprof record --latency` and --off-cpu record them",
        data.path().display()
    );
    Err(Failure::with_status(2, anyhow::anyhow!(message)))
}

pub(crate) fn check_requests(data: &PerfData, options: &Options) -> Result<(), Failure> {
    let filter = &options.filter;
    let needed = [
        (options.by_request.is_some(), "--by"),
        (options.request_ids, "--labels trace,span"),
        (!filter.traces.is_empty(), "--trace"),
        (filter.slower_than.is_some(), "--slower-than"),
    ];
    let Some((_, flag)) = needed.into_iter().find(|(is_given, _)| *is_given) else {
        return Ok(());
    };
    let events = data.events().list();
    if events
        .iter()
        .any(|event| event.name == request_context::EVENT)
    {
        return Ok(());
    }
    let message = format!(
        "{flag} needs to know the request of each sample, but {} has none: `rprof record \
         --requests` records them",
        data.path().display()
    );
    Err(Failure::with_status(2, anyhow::anyhow!(message)))
}

pub(crate) fn analyse(
    data: &PerfData,
    names: &SymbolArgs,
    options: &Options,
    quiet: bool,
) -> Result<Profile, Failure> {
    let symbols = names.symbols(options.by_line || options.addresses, quiet)?;
    let profile = symbols.analyse(data, options);
    symbols.finish();
    Ok(profile)
}

/// Symbols for all recordings of a command. Shared images are read once.
pub(crate) struct Symbols {
    /// Memory budget for profiles of other tools.
    pub(crate) budget: ReadingBudget,
    pub(crate) symbolizer: Symbolizer,
    downloads: Option<Downloads>,
}

impl Symbols {
    pub(crate) fn analyse(&self, data: &PerfData, options: &Options) -> Profile {
        rprof_analysis::analyse(data, &self.symbolizer, options)
    }

    pub(crate) fn finish(self) {
        if let Some(downloads) = self.downloads {
            downloads.print_summary();
        }
        // Exit follows soon, and is faster than freeing the tables.
        std::mem::forget(self.symbolizer);
    }
}

impl SymbolArgs {
    /// Folds interpreter code into the functions that it runs, unless --no-by-language is given.
    pub(crate) fn fold_languages(&self, profile: &mut Profile) {
        // Names of folded stacks are whole frames.
        if !self.no_by_language && !profile.is_folded {
            profile.fold_languages();
        }
    }

    /// Builds the symbolizer, with source lines only if needed.
    pub(crate) fn symbols(&self, lines: bool, quiet: bool) -> Result<Symbols, Failure> {
        let downloads = self.downloads(quiet)?;
        Ok(Symbols {
            budget: self.reading_budget(),
            symbolizer: self.symbolizer(lines, !self.no_located, downloads.as_ref()),
            downloads,
        })
    }

    pub(crate) fn reading_budget(&self) -> ReadingBudget {
        (self.memory_limit).map_or_else(ReadingBudget::default, ReadingBudget::new)
    }

    /// Builds the symbolizer. `lines` looks up source lines, which takes time; `locates` locates
    /// functions without symbols.
    pub(crate) fn symbolizer(
        &self,
        lines: bool,
        locates: bool,
        downloads: Option<&Downloads>,
    ) -> Symbolizer {
        self.symbolizer_builder(lines, locates, downloads).build()
    }

    pub(crate) fn symbolizer_builder(
        &self,
        lines: bool,
        locates: bool,
        downloads: Option<&Downloads>,
    ) -> SymbolizerBuilder {
        Symbolizer::builder()
            .style(match self.demangle {
                DemangleArg::Full => Style::Full,
                DemangleArg::Short => Style::NoParameters,
                DemangleArg::None => Style::Mangled,
            })
            .inlines(!self.no_inline)
            .lines(lines)
            .locates(locates)
            .root(self.symfs.clone())
            .memory(
                self.memory_limit
                    .map_or_else(MemoryLimits::default, MemoryLimits::of_all),
            )
            .vmlinux(self.vmlinux.clone())
            .kernel_cache(PrivateCache::of_user())
            // A custom memory limit may find less, which must not be cached.
            .answer_cache(PrivateCache::of_user().filter(|_| self.memory_limit.is_none()))
            .remote(downloads.map(Downloads::remote))
    }

    pub(crate) fn downloads(&self, quiet: bool) -> Result<Option<Downloads>, Failure> {
        match self.debuginfod && !self.no_debuginfod {
            true => Downloads::new(quiet).map(Some),
            false => Ok(None),
        }
    }
}

pub(crate) fn warn(profile: &Profile, quiet: bool) {
    if quiet {
        return;
    }
    for warning in &profile.quality.warnings {
        say(format_args!("warning: {warning}"));
    }
}

pub(crate) fn tell_others(profile: &Profile, shown: usize, how: &str, quiet: bool) {
    let others = (profile.events.iter().skip(shown + 1)).filter(|e| e.samples > 0);
    if others.count() > 0 && !quiet {
        let name = &profile.events[shown].name;
        say(format_args!(
            "only samples of {name} are {how}; choose others with --event"
        ));
    }
}

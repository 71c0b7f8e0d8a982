//! `rprof explain`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rprof_analysis::{Options, WaitOptions, analyse_with_code};
use rprof_annotate::{Annotator, Syntax, subject};
use rprof_explain::CodeCause::{Atomic, Hint, Watches};
use rprof_explain::{Explanation, HotCode, RuntimeWork, explain_change, explain_with};
use rprof_export::{Content, ExportOptions};
use rprof_profile::compare::{CompareOptions, compare};
use rprof_profile::waits::is_of_waits;
use rprof_profile::{Filter, FunctionId, Keys, ObjectId, ObjectKind, Profile, WeighBy, WeightUnit};

use crate::Outcome;
use crate::cli::ExplainArgs;
use crate::commands::diff::not_compared;
use crate::commands::hot_code;
use crate::input::nothing_found;
use crate::input::recordings::{Callee, Input, checked_options, open_input};
use crate::input::similar_names;
use crate::terminal::output::write_to;
use crate::wording::messages::Failure;

/// Maximum number of functions whose code is read, and their smallest share of the samples, in
/// percent.
const MAX_FUNCTIONS: usize = 3;
const MIN_SHARE: f64 = 10.0;

/// Smallest share of an instruction that is slow by its kind, in percent.
const MIN_SLOW: f64 = 20.0;

pub(crate) fn run(args: &ExplainArgs) -> Outcome {
    if args.input.filter.latency {
        let message = "--latency does not apply to explain, whose sentences are about CPU time: use \
            `rprof report --latency`";
        return Err(Failure::with_status(2, anyhow::anyhow!(message)));
    }
    let text = match args.input.paths().as_slice() {
        [old, new] => changed(args, [old, new])?,
        [path] => explained(args, path)?,
        _ => {
            let message = "explain takes one file, or two to compare; `rprof collapse FILE… | rprof explain -` merges more";
            return Err(Failure::with_status(2, anyhow::anyhow!(message)));
        }
    };
    write_to("-".as_ref(), |out| {
        Ok(out.write_all(text.within(args.budget).as_bytes())?)
    })?;
    Ok(0)
}

fn explained(args: &ExplainArgs, path: &Path) -> Result<Explanation, Failure> {
    let is_default = path == Path::new("perf.data");
    let name = if is_default { Path::new("") } else { path };
    with_profile(args, path, |profile, work, code| {
        let hot = code.map_or_else(Vec::new, |code| hot_code(code, &profile));
        explain_with(&profile, &work, name)
            .with_code(&hot)
            .with_filters(&args.typed.0)
    })
}

fn changed(args: &ExplainArgs, files: [&PathBuf; 2]) -> Result<Explanation, Failure> {
    let read = |file: &PathBuf| with_profile(args, file, |profile, _, _| profile);
    let [old, new] = files;
    let sides = [read(old)?, read(new)?];
    let options = CompareOptions {
        weigh_by: args.input.filter.weight(),
        ..CompareOptions::default()
    };
    let [before, after] = sides.each_ref().map(std::slice::from_ref);
    let diff = compare(before, after, &options).map_err(|error| not_compared(&error))?;
    Ok(explain_change(&diff, files.map(|file| file.as_os_str())))
}

/// Reads a file with lines of frames and times of samples, and passes it on with the code of its
/// functions, if it is a recording.
fn with_profile<T>(
    args: &ExplainArgs,
    path: &Path,
    then: impl FnOnce(Profile, RuntimeWork, Option<&Annotator<'_>>) -> T,
) -> Result<T, Failure> {
    let input = &args.input;
    let options = Options {
        waits: WaitOptions {
            fold_idle: true,
            alone: false,
        },
        ..input.options_for(Content::Samples, &ExportOptions::default())
    };
    let keys = Keys::FUNCTIONS;
    match open_input(path)? {
        Input::Foreign(text) => {
            let budget = input.filter.symbols.reading_budget();
            let profile = text.profile(&keys, &options, &budget)?;
            let (profile, work) = finished(args, path, profile, &options.filter)?;
            Ok(then(profile, work, None))
        }
        Input::Recording(data) => {
            let options = checked_options(&data, &input.filter, &options, &keys)?;
            let symbols = input.filter.symbols.symbols(true, true)?;
            let (profile, images) = analyse_with_code(&data, &symbols.symbolizer, &options);
            let (profile, work) = finished(args, path, profile, &options.filter)?;
            let annotator = Annotator {
                symbolizer: &symbols.symbolizer,
                images: &[images],
                syntax: Syntax::Intel,
            };
            let result = then(profile, work, Some(&annotator));
            symbols.finish();
            Ok(result)
        }
    }
}

/// Folds interpreter code, and returns what it did. Cuts stacks at the functions of --callers.
fn finished(
    args: &ExplainArgs,
    path: &Path,
    mut profile: Profile,
    filter: &Filter,
) -> Result<(Profile, RuntimeWork), Failure> {
    let input = &args.input;
    let unmatched = similar_names::unmatched(&profile, filter);
    profile.quality.warnings.extend(unmatched);
    let mut work = RuntimeWork::default();
    // Filters on stacks apply to folded ones.
    let is_whole = !filter.is_by_stack() && input.filter.callers.is_empty();
    if is_whole && !input.filter.symbols.no_by_language {
        work = RuntimeWork::before_folding(&profile);
    }
    input.filter.symbols.fold_languages(&mut profile);
    if !profile.quality.is_by_language {
        work = RuntimeWork::default();
    }
    let mut profile = input.filter.cut_to_callers(profile, Callee::Kept);
    let paths = [path.to_owned()];
    nothing_found::check(&profile, &paths, &input.filter, filter)?;
    if input.filter.time.is_some() || filter.is_by_sample() || filter.is_by_stack() {
        // It is the time of the whole program.
        profile.quality.cpu_time = None;
    }
    match profile.main_event() {
        Some(_) => Ok((profile, work)),
        None => Err(nothing_found::without_samples(&paths)),
    }
}

/// Finds causes in the machine code of the hottest functions. Needs the programs that ran.
fn hot_code(code: &Annotator<'_>, profile: &Profile) -> Vec<HotCode> {
    let event = profile.main_event().filter(|event| {
        let event = &profile.events[*event];
        event.unit == WeightUnit::Nanoseconds && !is_of_waits(&event.name)
    });
    match event {
        Some(event) if has_hot_code(profile, event) => causes(code, profile, event),
        _ => Vec::new(),
    }
}

/// Returns true if a function of a program itself, rather than of a library, has a large share.
fn has_hot_code(profile: &Profile, event: usize) -> bool {
    let mut own: BTreeMap<FunctionId, u64> = BTreeMap::new();
    for entry in profile
        .aggregated
        .iter()
        .filter(|entry| entry.event == event)
    {
        if let Some(leaf) = profile.stack(entry.stack).next_back() {
            *own.entry(leaf).or_default() += entry.weight;
        }
    }
    let whole = profile.events[event].weight.max(1) as f64;
    own.into_iter().any(|(id, own)| {
        let function = profile.function(id);
        is_of_program(profile, function.object)
            && function.source.is_none()
            && 100.0 * own as f64 / whole >= MIN_SHARE
    })
}

fn is_of_program(profile: &Profile, object: ObjectId) -> bool {
    let object = profile.object(object);
    object.kind == ObjectKind::File && !object.base_name().contains(".so")
}

/// Finds causes in the hottest functions.
fn causes(code: &Annotator<'_>, profile: &Profile, event: usize) -> Vec<HotCode> {
    let whole = profile.events[event].weight.max(1) as f64;
    let share = |own: u64| 100.0 * own as f64 / whole;
    let hottest = subject::hottest(profile, event, WeighBy::Period, MAX_FUNCTIONS, 1.0);
    let mut found = Vec::new();
    for subject in (hottest.iter()).filter(|subject| share(subject.amount.own) >= MIN_SHARE) {
        // Without code there are no causes, and the other sentences remain.
        let Ok(annotation) = code.annotate(profile, event, WeighBy::Period, subject) else {
            continue;
        };
        let Some(cause) = hot_code::cause_in(&annotation) else {
            continue;
        };
        let is_sure = matches!(cause.cause, Hint(_) | Watches | Atomic(_));
        let least = if is_sure { MIN_SHARE } else { MIN_SLOW };
        if share(cause.own) >= least && (is_sure || is_of_program(profile, subject.object)) {
            let threads = threads_in(profile, &annotation.name);
            found.push(HotCode {
                function: annotation.name,
                share: share(cause.own),
                instructions: cause.instructions,
                cause: cause.cause,
                threads,
            });
        }
    }
    found
}

/// Returns the number of threads with samples in a function or its callees.
fn threads_in(profile: &Profile, function: &str) -> usize {
    let is_it = |id: FunctionId| profile.function(id).name.as_deref() == Ok(function);
    let in_it = (profile.aggregated.iter()).filter(|entry| profile.stack(entry.stack).any(is_it));
    in_it
        .map(|entry| entry.thread)
        .collect::<BTreeSet<_>>()
        .len()
}

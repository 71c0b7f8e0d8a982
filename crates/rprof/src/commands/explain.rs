//! `rprof explain`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rprof_analysis::Options;
use rprof_annotate::{Annotation, Syntax, subject};
use rprof_explain::{Explanation, HotLoop, RuntimeWork, explain_change, explain_with};
use rprof_export::{Content, ExportOptions};
use rprof_profile::compare::{CompareOptions, compare};
use rprof_profile::waits::is_of_waits;
use rprof_profile::{FunctionId, Keys, ObjectKind, Profile, WeighBy, WeightUnit};

use crate::Outcome;
use crate::cli::ExplainArgs;
use crate::commands::diff::not_compared;
use crate::input::nothing_found;
use crate::input::recordings::Callee;
use crate::input::with_code::{CodeInput, WithCode, with_code};
use crate::terminal::output::write_to;
use crate::wording::messages::Failure;

/// Maximum number of functions whose code is read, and their smallest share of the samples, in
/// percent.
const MAX_FUNCTIONS: usize = 3;
const MIN_SHARE: f64 = 10.0;

/// Maximum number of instructions of a loop that only waits.
const MAX_SPIN: usize = 12;

pub(crate) fn run(args: &ExplainArgs) -> Outcome {
    if args.input.filter.latency {
        let message = "--latency does not apply to explain, whose sentences are about CPU time: use \
            `rprof report --latency`";
        return Err(Failure::with_status(2, anyhow::anyhow!(message)));
    }
    let text = match args.input.paths().as_slice() {
        [old, new] => changed(args, [old, new])?,
        [path] => {
            let (profile, work) = read(args, path.clone())?;
            let is_default = path.as_os_str() == "perf.data";
            let name = if is_default {
                "".as_ref()
            } else {
                path.as_os_str()
            };
            let loops = hot_loops(args, path, &profile);
            explain_with(&profile, &work, name)
                .with_loops(&loops)
                .with_filters(&args.typed.0)
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
    let sides = [read(args, old.clone())?.0, read(args, new.clone())?.0];
    let options = CompareOptions {
        weigh_by: args.input.filter.weight(),
        ..CompareOptions::default()
    };
    let [before, after] = sides.each_ref().map(std::slice::from_ref);
    let diff = compare(before, after, &options).map_err(|error| not_compared(&error))?;
    Ok(explain_change(&diff, files.map(|file| file.as_os_str())))
}

/// Reads a file with lines of frames and times of samples. Interpreter code is folded; returns what
/// it did.
fn read(args: &ExplainArgs, path: PathBuf) -> Result<(Profile, RuntimeWork), Failure> {
    let mut input = crate::cli::InputArgs {
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
    let (filter, keys) = (&options.filter, Keys::FUNCTIONS);
    let is_part = input.filter.time.is_some() || filter.is_by_sample() || filter.is_by_stack();
    // Filters on stacks apply to folded ones.
    let is_folded_later = !filter.is_by_stack() && args.input.filter.callers.is_empty();
    input.filter.samples.symbols.no_by_language |= is_folded_later;
    let mut profile = input.profile_and(Some(path), &options, &keys, Callee::Kept)?;
    let mut work = RuntimeWork::default();
    if is_folded_later && !args.input.filter.symbols.no_by_language {
        work = RuntimeWork::before_folding(&profile);
        args.input.filter.symbols.fold_languages(&mut profile);
        if !profile.quality.is_by_language {
            work = RuntimeWork::default();
        }
    }
    if is_part {
        // It is the time of the whole program.
        profile.quality.cpu_time = None;
    }
    match profile.main_event() {
        Some(_) => Ok((profile, work)),
        None => Err(nothing_found::without_samples(&paths)),
    }
}

/// Finds loops with a sure cause in the machine code of the hottest functions. Needs a recording,
/// and the programs that ran.
fn hot_loops(args: &ExplainArgs, path: &Path, profile: &Profile) -> Vec<HotLoop> {
    let is_of_time = profile.main_event().is_some_and(|event| {
        let event = &profile.events[event];
        event.unit == WeightUnit::Nanoseconds && !is_of_waits(&event.name)
    });
    let is_read = profile.quality.recorded > 0 && path != Path::new("-");
    if !is_read || !is_of_time || !has_hot_code(profile) {
        return Vec::new();
    }
    let input = CodeInput {
        paths: &[path.to_owned()],
        args: &args.input.filter,
        filter: args.input.filter.filter(&args.input.event),
        syntax: Syntax::Intel,
        quiet: true,
        is_of_objects: false,
    };
    // Without code there are no loops, and the other sentences remain.
    with_code(&input, |code| Ok(loops_in(code, profile))).unwrap_or_default()
}

/// Returns true if a function of a program itself, rather than of a library, has a large share.
fn has_hot_code(profile: &Profile) -> bool {
    let Some(event) = profile.main_event() else {
        return false;
    };
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
        let object = profile.object(function.object);
        let is_program = object.kind == ObjectKind::File && !object.base_name().contains(".so");
        is_program && function.source.is_none() && 100.0 * own as f64 / whole >= MIN_SHARE
    })
}

/// Finds loops of the hottest functions. `by_thread` has the same samples, by thread.
fn loops_in(code: &WithCode<'_>, by_thread: &Profile) -> Vec<HotLoop> {
    let profile = code.profile;
    let Some(event) = profile.main_event() else {
        return Vec::new();
    };
    let whole = profile.events[event].weight.max(1) as f64;
    let share = |own: u64| 100.0 * own as f64 / whole;
    let hottest = subject::hottest(profile, event, WeighBy::Period, MAX_FUNCTIONS, 1.0);
    let mut found = Vec::new();
    for subject in (hottest.iter()).filter(|subject| share(subject.amount.own) >= MIN_SHARE) {
        let annotated = (code.annotator).annotate(profile, event, WeighBy::Period, subject);
        let Ok(annotation) = annotated else { continue };
        let Some((own, instructions, cause, is_spin)) = cause_in(&annotation) else {
            continue;
        };
        if share(own) >= MIN_SHARE {
            let threads = threads_in(by_thread, &annotation.name);
            found.push(HotLoop {
                function: annotation.name,
                share: share(own),
                instructions,
                cause,
                is_spin,
                threads,
            });
        }
    }
    found
}

/// Returns the weight, length and telling instruction of a function's hottest loop, and whether the
/// loop only waits.
fn cause_in(annotation: &Annotation) -> Option<(u64, usize, String, bool)> {
    let parts = annotation.parts.iter();
    let (part, hot) = parts
        .filter_map(|part| Some((part, part.loops.first()?)))
        .max_by_key(|(_, hot)| hot.amount.own)?;
    let inside = (part.instructions.iter())
        .filter(|one| (hot.start..=hot.end).contains(&one.address))
        .collect::<Vec<_>>();
    let is_hint = |text: &str| matches!(text, "pause" | "yield" | "isb");
    if hot.instructions <= MAX_SPIN
        && let Some(hint) = inside.iter().find(|one| is_hint(&one.text))
    {
        return Some((hot.amount.own, hot.instructions, hint.text.clone(), true));
    }
    // An interrupt comes behind a slow instruction.
    let sums = inside.windows(2).filter_map(|pair| {
        let cause = atomic(&pair[0].text)?;
        let own = pair[0].amount.own.saturating_add(pair[1].amount.own);
        Some((own, hot.instructions, cause, false))
    });
    sums.max_by_key(|(own, ..)| *own)
}

/// Returns the name of an atomic instruction.
fn atomic(text: &str) -> Option<String> {
    const ATOMIC: [&str; 7] = ["ldadd", "ldset", "ldclr", "swp", "cas", "stlxr", "stxr"];
    let mut words = text.split_whitespace();
    let name = words.next()?;
    if name == "lock" {
        return Some(format!("lock {}", words.next()?));
    }
    let is_atomic = name == "xchg" && text.contains('[')
        || ATOMIC.iter().any(|prefix| name.starts_with(prefix));
    is_atomic.then(|| name.to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomic_instructions_are_known_by_their_text() {
        assert_eq!(
            atomic("lock xadd qword ptr [rdi],rax").as_deref(),
            Some("lock xadd")
        );
        assert_eq!(
            atomic("xchg dword ptr [rip+0x2c08],eax").as_deref(),
            Some("xchg")
        );
        assert_eq!(atomic("xchg ax,ax"), None);
        assert_eq!(atomic("ldaddal x0, x1, [x2]").as_deref(), Some("ldaddal"));
        assert_eq!(atomic("add rax,rdx"), None);
    }
}

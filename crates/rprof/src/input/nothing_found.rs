//! Failure of commands that find no samples: one wording and one exit status.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use rprof_export::clean::brief;
use rprof_export::verdict::findings;
use rprof_profile::memory::is_of_memory_over_time;
use rprof_profile::waits::WAITS;
use rprof_profile::{Filter, NO_REQUEST, Profile, RequestKey, ThreadId};

use crate::cli::FilterArgs;
use crate::input::similar_names;
use crate::wording::messages::Failure;
use crate::wording::remedies;

/// Fails if a profile is empty: the filters reject all samples, or there were none.
///
/// # Errors
///
/// The profile has no samples. The message names the given filters.
pub(crate) fn check(
    profile: &Profile,
    paths: &[PathBuf],
    args: &FilterArgs,
    filter: &Filter,
) -> Result<(), Failure> {
    if profile.main_event().is_some() {
        return Ok(());
    }
    let given = given(args, filter);
    let message = match given.is_empty() {
        true => nothing_recorded(profile, paths),
        false => {
            let mut causes = profile.quality.warnings.clone();
            causes.extend(similar_names::unmatched(profile, filter));
            let mut seen = BTreeSet::new();
            causes.retain(|cause| seen.insert(cause.clone()));
            nothing_left(&given, &causes, paths)
        }
    };
    Err(anyhow::anyhow!(message).into())
}

/// Fails if no sample has the part of a request that names the rows.
///
/// # Errors
///
/// All samples are without it. The message names the attributes that requests have.
pub(crate) fn check_by(
    profile: &Profile,
    paths: &[PathBuf],
    by: Option<&RequestKey>,
) -> Result<(), Failure> {
    let Some(by) = by else { return Ok(()) };
    let mut used = profile.aggregated.iter().map(|stack| stack.thread);
    let has_it = |thread: ThreadId| {
        let thread = &profile.threads[thread.0 as usize];
        profile.comms[thread.comm as usize] != NO_REQUEST
    };
    if used.any(has_it) {
        return Ok(());
    }
    let given = Given {
        flag: format!("--by {}", brief(by.name())),
        listed_by: "`rprof report` shows samples without requests",
    };
    Err(anyhow::anyhow!(nothing_left(&[given], &profile.quality.warnings, paths)).into())
}

/// Returns the failure of filters that reject all samples, with possible causes; `None` without
/// filters.
pub(crate) fn by_filters(
    paths: &[PathBuf],
    args: &FilterArgs,
    filter: &Filter,
    causes: &[String],
) -> Option<Failure> {
    let given = given(args, filter);
    (!given.is_empty()).then(|| anyhow::anyhow!(nothing_left(&given, causes, paths)).into())
}

pub(crate) fn without_samples(paths: &[PathBuf]) -> Failure {
    anyhow::anyhow!(nothing_recorded(&Profile::default(), paths)).into()
}

/// Returns true if the arguments can reject samples, apart from events.
pub(crate) fn has_filters(args: &FilterArgs, filter: &Filter) -> bool {
    let filter = Filter {
        events: Vec::new(),
        ..filter.clone()
    };
    !given(args, &filter).is_empty()
}

/// A given filter, and the command that lists its possible values.
struct Given {
    flag: String,
    listed_by: &'static str,
}

const MAX_VALUES: usize = 8;

fn given(args: &FilterArgs, filter: &Filter) -> Vec<Given> {
    // A new field must be named here.
    let Filter {
        comms,
        pids,
        tids,
        cpus,
        events,
        parallelism,
        time,
        objects,
        languages,
        symbols,
        focus: _,
        traces,
        slower_than,
        reasons,
    } = filter;
    let mut given = Vec::new();
    let mut add = |flag: &str, values: Vec<String>, listed_by| {
        if !values.is_empty() {
            let rest = if values.len() > MAX_VALUES {
                ",…"
            } else {
                ""
            };
            let values = values[..values.len().min(MAX_VALUES)].join(",");
            let flag = format!("{flag} {values}{rest}");
            given.push(Given { flag, listed_by });
        }
    };
    fn texts(values: &[impl Display]) -> Vec<String> {
        let values = values.iter();
        values.map(|value| brief(&value.to_string())).collect()
    }
    const BY_FUNCTION: &str = "`rprof report` lists functions and objects";
    add(
        "--comm",
        texts(comms),
        "`rprof report --sort comm` lists thread names",
    );
    add(
        "--pid",
        texts(pids),
        "`rprof report --sort pid` lists processes",
    );
    add(
        "--tid",
        texts(tids),
        "`rprof report --sort tid` lists threads",
    );
    add(
        "--cpu",
        texts(cpus),
        "`rprof script -F cpu,time,event` lists the CPU of each sample",
    );
    // --reason implies the event of waits, and --at TIME those of memory over time.
    let is_at_time = events.iter().any(|event| is_of_memory_over_time(event));
    let is_chosen =
        |event: &&String| (reasons.is_empty() || *event != WAITS) && !is_of_memory_over_time(event);
    let events: Vec<&String> = events.iter().filter(is_chosen).collect();
    add(
        "--parallelism",
        texts(parallelism),
        "that many threads of a process group did not run at once",
    );
    add(
        "--event",
        texts(&events),
        "`rprof header` lists events, which may be without samples",
    );
    add(
        "--at",
        Vec::from_iter(is_at_time.then(|| "TIME".to_owned())),
        "no memory was in use then, or new between two times; `rprof html` shows memory over time",
    );
    add("--dso", texts(objects), BY_FUNCTION);
    let languages: Vec<&str> = languages.iter().map(|language| language.key()).collect();
    add(
        "--language",
        texts(&languages),
        "`rprof report --sort language` lists languages",
    );
    add("--symbol", texts(symbols), BY_FUNCTION);
    add("--focus", texts(&args.focus), BY_FUNCTION);
    add("--callers", texts(&args.callers), BY_FUNCTION);
    add(
        "--trace",
        texts(traces),
        "`rprof report --by trace` lists trace ids",
    );
    let least = slower_than.map(Duration::from_nanos);
    add(
        "--slower-than",
        least.iter().map(|least| format!("{least:?}")).collect(),
        "`rprof report --by span` lists spans",
    );
    add(
        "--reason",
        texts(reasons),
        "`rprof report --off-cpu` lists reasons",
    );
    let time = args.time.filter(|_| time.is_some());
    add(
        "--time",
        time.iter().map(ToString::to_string).collect(),
        "`rprof script -F time,event` lists the time of each sample",
    );
    given
}

fn names(paths: &[PathBuf]) -> String {
    let names: Vec<String> = (paths.iter().take(MAX_VALUES))
        .map(|path| match path.as_os_str() == "-" {
            true => "standard input".to_owned(),
            false => brief(&path.display().to_string()),
        })
        .collect();
    let rest = if paths.len() > MAX_VALUES {
        ", …"
    } else {
        ""
    };
    format!("{}{rest}", names.join(", "))
}

fn nothing_left(given: &[Given], causes: &[String], paths: &[PathBuf]) -> String {
    let flags: Vec<&str> = given.iter().map(|given| &*given.flag).collect();
    let why = match (causes.is_empty(), given.first()) {
        (false, _) | (_, None) => causes.join("; "),
        (true, Some(first)) => first.listed_by.to_owned(),
    };
    format!(
        "the filters leave no sample of {}: none passes {}; {why}",
        names(paths),
        flags.join(" and ")
    )
}

/// Explains a recording without samples by its events.
fn nothing_sampled(profile: &Profile) -> String {
    let events = profile.events.iter().map(|event| &*event.name);
    remedies::of_rare_event(events).unwrap_or_else(|| {
        "nothing was sampled; record for longer, at a higher rate (-F), or waits as well (`rprof \
         record --off-cpu`)"
            .to_owned()
    })
}

fn nothing_recorded(profile: &Profile, paths: &[PathBuf]) -> String {
    let causes = findings(profile);
    let causes = causes.iter().map(remedies::of_finding);
    let causes: Vec<String> = causes
        .map(|cause| cause.trim_start_matches("warning: ").to_owned())
        .collect();
    let causes = match causes.is_empty() {
        true => nothing_sampled(profile),
        false => causes.join("; "),
    };
    format!("{} has no samples: {causes}", names(paths))
}

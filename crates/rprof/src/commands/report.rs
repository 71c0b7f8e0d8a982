//! `rprof report`.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use rprof_analysis::{Options, WaitOptions};
use rprof_export::{ReportOptions, RowOptions, TreeOptions};
use rprof_profile::Keys;
use rprof_profile::views::call_tree::Growth;

use crate::Outcome;
use crate::cli::{ReportArgs, SortKey, percentage};
use crate::input::recordings::{Callee, warn};
use crate::recording::memory;
use crate::terminal;
use crate::terminal::pager::show;
use crate::wording::messages::Failure;
use crate::wording::remedies;

pub(crate) fn run(args: &ReportArgs) -> Outcome {
    if args.tui {
        return crate::commands::tui::run(args);
    }
    let sort = match (&args.waits.by, &*args.rows.sort) {
        (Some(_), [SortKey::Symbol, SortKey::Dso]) => &[SortKey::Comm][..],
        (_, sort) => sort,
    };
    let keys = keys(sort);
    let (trees, file) = trees(args)?;
    let without_total = args.rows.no_children;
    let filter = &args.input.filter;
    let options = args.waits.choose(Options {
        waits: WaitOptions {
            fold_idle: !args.waits.no_fold_idle,
            alone: false,
        },
        leaves_only: without_total
            && trees.is_none()
            && filter.focus.is_empty()
            && filter.callers.is_empty(),
        ..args.input.options()
    })?;
    let mut profile = (args.input).profile_and(file, &options, &keys, Callee::Dropped)?;
    args.waits.join(&mut profile)?;
    memory::keep_one_moment(&mut profile, &options.filter.events);
    warn(&profile, args.input.quiet || args.format.shows_warnings);
    let is_terminal = io::stdout().is_terminal();
    let rows = RowOptions {
        weight: args.input.filter.weight(),
        by_total: by_total(args, profile.has_callchains),
        percent_limit: args.rows.percent_limit,
        limit: args.rows.limit.map(|limit| match limit {
            0 => usize::MAX,
            limit => limit,
        }),
        without_zeros: false,
        without_total,
        one_name: false,
        keys: Keys {
            object: keys.object && !profile.is_folded,
            ..keys
        },
        order: sort.iter().filter_map(heading).collect(),
        trees,
    };
    let options = ReportOptions {
        rows,
        color: terminal::wants_color(args.color),
        bare: args.input.quiet,
        width: terminal::width().filter(|_| !args.rows.wide),
        height: height(args),
        rest: is_terminal.then_some(|left_out| format!("… {left_out} more (-n 0 for all)")),
        wording: remedies::of_finding,
        ..ReportOptions::default()
    };
    show(|out| Ok((args.format.write)(&profile, &options, out)?))?;
    Ok(0)
}

/// Returns whether rows are sorted by total: as the flags say, else only in JSON and CSV with
/// callchains.
fn by_total(args: &ReportArgs, has_callchains: bool) -> bool {
    match (args.rows.children, args.rows.no_children) {
        (true, _) => true,
        (_, true) => false,
        _ => has_callchains && !is_for_people(args),
    }
}

/// Default minimum share of a tree branch, in percent of all samples, as in perf.
const MIN_BRANCH: f64 = 0.5;

/// Returns the trees of -g. A word that perf does not accept there is the input file, returned
/// second.
fn trees(args: &ReportArgs) -> Result<(Option<TreeOptions>, Option<PathBuf>), Failure> {
    let Some(text) = &args.call_graph else {
        return Ok((None, None));
    };
    let by_default = match args.rows.children {
        true => Growth::Callees,
        false => Growth::Callers,
    };
    let mut options = TreeOptions {
        growth: by_default,
        percent_limit: MIN_BRANCH,
    };
    for word in text.split(',').filter(|word| !word.is_empty()) {
        match (word, percentage(word)) {
            ("caller", _) => options.growth = Growth::Callees,
            ("callee", _) => options.growth = Growth::Callers,
            // perf's drawing styles and branch keys; rprof has one of each.
            ("graph" | "fractal" | "flat" | "folded" | "function" | "percent", _) => {}
            ("none", _) => return Ok((None, None)),
            (_, Some(share)) => options.percent_limit = share,
            ("dwarf" | "fp" | "lbr" | "auto", _) if !Path::new(word).exists() => {
                let message = format!(
                    "-g {word} is an option for recording (`rprof record --call-graph {word}`): \
                     give caller or callee here"
                );
                return Err(Failure::with_status(2, anyhow::anyhow!(message)));
            }
            _ if args.input.files.is_empty() && !text.contains(',') => {
                return Ok((Some(options), Some(text.into())));
            }
            _ => {
                let message = format!(
                    "-g {text}: unknown value {word}; give caller or callee, and optionally a \
                     minimum percentage"
                );
                return Err(Failure::with_status(2, anyhow::anyhow!(message)));
            }
        }
    }
    Ok((Some(options), None))
}

/// Height of a terminal that does not report it.
const LINES: usize = 36;

/// Returns the table height. Pipes get all rows, and -n sets the number.
fn height(args: &ReportArgs) -> Option<usize> {
    let is_wanted = args.rows.limit.is_none() && is_for_people(args) && io::stdout().is_terminal();
    is_wanted.then(|| terminal::height().unwrap_or(LINES))
}

fn is_for_people(args: &ReportArgs) -> bool {
    args.format.shows_warnings
}

fn keys(sort: &[SortKey]) -> Keys {
    let has = |key| sort.contains(&key);
    Keys {
        comm: has(SortKey::Comm),
        pid: has(SortKey::Pid),
        tid: has(SortKey::Tid),
        state: has(SortKey::State),
        language: has(SortKey::Language),
        object: has(SortKey::Dso),
        symbol: has(SortKey::Symbol),
        line: has(SortKey::SrcLine),
    }
}

fn heading(key: &SortKey) -> Option<&'static str> {
    Some(match key {
        SortKey::Comm => "comm",
        SortKey::Pid => "pid",
        SortKey::Tid => "tid",
        SortKey::State => "state",
        SortKey::Language => "language",
        SortKey::Dso => "object",
        SortKey::Symbol => "symbol",
        SortKey::SrcLine => "source:line",
        SortKey::Figures => return None,
    })
}

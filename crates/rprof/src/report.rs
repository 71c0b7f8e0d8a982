//! `rprof report`.

use std::io::{self, IsTerminal};

use rprof_export::{ReportOptions, RowOptions};
use rprof_profile::Keys;

use crate::Outcome;
use crate::cli::{Color, ReportArgs, SortKey};
use crate::input::{Callee, warn};
use crate::messages::Failure;
use crate::pager::show;
use crate::{remedies, terminal};

pub(crate) fn run(args: &ReportArgs) -> Outcome {
    if args.call_graph.is_some() {
        let message = "report shows no call trees (-g) yet; `rprof flamegraph` draws them, and \
                       `rprof collapse` writes every stack on a line";
        return Err(Failure::with_status(2, anyhow::anyhow!(message)));
    }
    let keys = keys(&args.rows.sort);
    let profile = args.input.profile(&keys, Callee::Dropped)?;
    warn(&profile, args.input.quiet || args.format.shows_warnings);
    let is_terminal = io::stdout().is_terminal();
    let rows = RowOptions {
        weight: args.input.filter.weight(),
        by_total: by_total(args, profile.has_callchains),
        percent_limit: args.rows.percent_limit,
        limit: limit(args),
        // Folded text has no objects to tell functions apart by.
        keys: Keys {
            object: keys.object && !profile.is_folded,
            ..keys
        },
    };
    let options = ReportOptions {
        rows,
        color: wants_color(args.color),
        bare: args.input.quiet,
        width: terminal::width().filter(|_| !args.rows.wide),
        rest: is_terminal.then_some(|left_out| format!("… {left_out} more (-n 0 for all)")),
        wording: remedies::of_finding,
    };
    show(|out| Ok((args.format.write)(&profile, &options, out)?))?;
    Ok(0)
}

/// Returns whether rows are sorted by total: as the flags say, else by self where people read, and in the
/// order that json and csv have had from the beginning.
fn by_total(args: &ReportArgs, has_callchains: bool) -> bool {
    match (args.rows.children, args.rows.no_children) {
        (true, _) => true,
        (_, true) => false,
        _ => has_callchains && !is_for_people(args),
    }
}

/// Rows that a table has on a terminal, unless told otherwise.
const ROWS_ON_TERMINAL: usize = 30;

/// Returns the most rows to show. A pipe gets all of them.
fn limit(args: &ReportArgs) -> Option<usize> {
    match args.rows.limit {
        Some(0) => None,
        Some(limit) => Some(limit),
        None => (is_for_people(args) && io::stdout().is_terminal()).then_some(ROWS_ON_TERMINAL),
    }
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
        object: has(SortKey::Dso),
        symbol: has(SortKey::Symbol),
        line: has(SortKey::SrcLine),
    }
}

/// Resolves `auto` by NO_COLOR, CLICOLOR, CLICOLOR_FORCE, TERM=dumb, and whether stdout is a terminal.
pub(crate) fn wants_color(color: Color) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never,
    }
}

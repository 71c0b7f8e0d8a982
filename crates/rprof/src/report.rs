//! `rprof report`.

use rprof_export::{ReportOptions, RowOptions};
use rprof_profile::Keys;

use crate::Outcome;
use crate::cli::{Color, ReportArgs, RowArgs, SortKey};
use crate::input::warn;
use crate::messages::Failure;
use crate::pager::show;
use crate::remedies;

pub(crate) fn run(args: &ReportArgs) -> Outcome {
    if args.call_graph.is_some() {
        let message = "report shows no call trees (-g) yet; `rprof flamegraph` draws them, and \
                       `rprof collapse` writes every stack on a line";
        return Err(Failure::with_status(2, anyhow::anyhow!(message)));
    }
    let keys = keys(&args.rows.sort);
    let profile = args.input.profile(&keys)?;
    warn(&profile, args.input.quiet || args.format.shows_warnings);
    let rows = RowOptions {
        weight: args.input.filter.weight(),
        by_total: by_total(&args.rows, profile.has_callchains),
        percent_limit: args.rows.percent_limit,
        limit: args.rows.limit,
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
        wording: remedies::of_finding,
    };
    show(|out| Ok((args.format.write)(&profile, &options, out)?))?;
    Ok(0)
}

/// Returns whether rows are sorted by total: as the flags say, or as in perf if there are stacks.
fn by_total(args: &RowArgs, has_callchains: bool) -> bool {
    match (args.children, args.no_children) {
        (true, _) => true,
        (_, true) => false,
        _ => has_callchains,
    }
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
        Color::Auto => {
            anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
        }
    }
}

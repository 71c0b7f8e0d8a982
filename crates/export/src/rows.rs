//! The rows that table, CSV and JSON have in common.

use rprof_profile::call_tree::CallTree;
use rprof_profile::reasons::RUNNING;
use rprof_profile::{Keys, Profile, RowKey, TopFunctions, TopRow, WeighBy, one_name};

use crate::amounts::SHOWN_AS_ZERO;
pub use crate::amounts::percent;
use crate::names::{CleanName, CleanNames};
use crate::tree::TreeOptions;

/// Selection and order of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct RowOptions {
    /// Weight of a sample: its period, or 1.
    pub weight: WeighBy,
    /// Sort by total; else by self.
    pub by_total: bool,
    /// Leave out rows of less than this share, in percent of all.
    pub percent_limit: f64,
    /// Most rows.
    pub limit: Option<usize>,
    /// Keys that tell rows apart.
    pub keys: Keys,
    /// Headings of the first columns, in their order; other columns follow in the usual one.
    pub order: Vec<&'static str>,
    /// Trees of calls below the rows, if there are to be any.
    pub trees: Option<TreeOptions>,
    /// Leave out rows whose share is shown as 0.00 %, as if beyond the limit.
    pub without_zeros: bool,
    /// Show no total: of a profile [without callers](Profile::leaves_only) there is none.
    pub without_total: bool,
    /// Make one row of a function that two manglings name: see [`rprof_profile::one_name`].
    pub one_name: bool,
}

impl Default for RowOptions {
    fn default() -> Self {
        RowOptions {
            weight: WeighBy::Period,
            by_total: false,
            percent_limit: 0.0,
            limit: None,
            keys: Keys::FUNCTIONS,
            order: Vec::new(),
            trees: None,
            without_zeros: false,
            without_total: false,
            one_name: false,
        }
    }
}

/// One row of a report, its names safe to show; `None` for what rows are not told apart by.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportRow<'p> {
    /// Thread name.
    pub comm: Option<CleanName<'p>>,
    /// State of the thread: `running`, or what it waited for.
    pub state: Option<CleanName<'p>>,
    /// Function, or `[unknown]`.
    pub symbol: Option<CleanName<'p>>,
    /// Object.
    pub object: Option<CleanName<'p>>,
    /// Path and line, `path:12`, or `??:0` as perf has it.
    pub line: Option<CleanName<'p>>,
    /// Sums; its key has process and thread.
    pub top: TopRow,
    /// Calls above or below it, with [`RowOptions::trees`].
    pub tree: Option<CallTree>,
}

/// Rows of one event.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportRows<'p> {
    /// Weight of all samples of the event, of which the rows have shares.
    pub whole: u64,
    /// Rows, the heaviest first.
    pub rows: Vec<ReportRow<'p>>,
    /// Number of rows left out because of [`RowOptions::limit`].
    pub left_out: usize,
}

/// Makes the rows of an event.
pub fn rows<'p>(profile: &'p Profile, event: usize, options: &RowOptions) -> ReportRows<'p> {
    let names = CleanNames::new(profile);
    let mut top = TopFunctions::of(profile, event, options.weight, options.keys);
    if options.one_name {
        one_name::merge(profile, &mut top);
    }
    top.sort(options.by_total);
    let whole = top.weight_total;
    let share = |row: &TopRow| match options.by_total {
        true => percent(row.total_weight, whole),
        false => percent(row.self_weight, whole),
    };
    top.rows.retain(|row| share(row) >= options.percent_limit);
    let mut shown = options.limit.unwrap_or(usize::MAX).min(top.rows.len());
    if options.without_zeros {
        // Rows are sorted by the share, and one is shown in any case.
        let first = top.rows.iter().position(|row| share(row) < SHOWN_AS_ZERO);
        shown = first.map_or(shown, |first| shown.min(first.max(1)));
    }
    let left_out = top.rows.len() - shown;
    top.rows.truncate(shown);
    let keys: Vec<RowKey> = top.rows.iter().map(|row| row.key).collect();
    let trees = options.trees.map(|trees| {
        CallTree::of(
            profile,
            event,
            options.weight,
            options.keys,
            &keys,
            trees.growth,
        )
    });
    let mut trees = trees.into_iter().flatten();
    let rows = (top.rows.into_iter())
        .map(|top| ReportRow {
            tree: trees.next(),
            comm: top.key.comm.map(|comm| names.comm(comm)),
            state: top.key.state.map(|reason| {
                let name = reason.and_then(|reason| names.function(reason));
                name.unwrap_or(CleanName::new(RUNNING))
            }),
            symbol: match top.key.function {
                Some(id) => Some(names.function(id).unwrap_or(CleanName::new("[unknown]"))),
                None => (options.keys.symbol).then_some(CleanName::new(NO_FRAMES)),
            },
            object: top.key.object.map(|id| names.object(id)),
            line: (top.key.line).map(|line| match line {
                Some(line) => names.line(line.file, line.line),
                None => CleanName::new("??:0"),
            }),
            top,
        })
        .collect();
    ReportRows {
        whole,
        rows,
        left_out,
    }
}

/// Puts columns into the order of these headings; columns without one stay behind those with one.
pub(crate) fn in_order<T>(columns: &mut [T], order: &[&str], heading: impl Fn(&T) -> &'static str) {
    columns.sort_by_key(|column| {
        let place = order.iter().position(|wanted| *wanted == heading(column));
        place.unwrap_or(usize::MAX)
    });
}

/// Name of the row of samples without frames, which are their threads' alone.
const NO_FRAMES: &str = "[no frames]";

//! Rows shared by table, CSV and JSON.

use std::borrow::Cow;

use rprof_profile::views::call_tree::CallTree;
use rprof_profile::waits::reasons::RUNNING;
use rprof_profile::{Keys, Language, Profile, RowKey, TopFunctions, TopRow, WeighBy, one_name};

use crate::amounts::SHOWN_AS_ZERO;
pub use crate::amounts::percent;
use crate::clean::clean;
use crate::names::{CleanName, CleanNames};
use crate::tree::TreeOptions;

/// Selection and order of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct RowOptions {
    /// Weight of a sample: its period, or 1.
    pub weight: WeighBy,
    /// Sort by total instead of self.
    pub by_total: bool,
    /// Hide rows below this share of the total weight, in percent.
    pub percent_limit: f64,
    /// Maximum number of rows.
    pub limit: Option<usize>,
    /// Keys that distinguish rows.
    pub keys: Keys,
    /// Headings of the first columns, in order. Other columns follow in the default order.
    pub order: Vec<&'static str>,
    /// Call trees below the rows; `None` for none.
    pub trees: Option<TreeOptions>,
    /// Hide rows that print as 0.00 %, as if they exceeded the limit.
    pub without_zeros: bool,
    /// Omit the total, for a profile [without callers](Profile::leaves_only).
    pub without_total: bool,
    /// Merge two manglings of one function name: see [`rprof_profile::one_name`].
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

/// Returns the title of a column: its heading, or the attribute of requests that takes the place of
/// thread names.
pub(crate) fn title<'p>(profile: &'p Profile, heading: &'static str) -> Cow<'p, str> {
    match &profile.request_key {
        Some(key) if heading == COMM => clean(key),
        _ => Cow::Borrowed(heading),
    }
}

pub(crate) const COMM: &str = "comm";

/// Report row with clean names. Fields that are no keys are `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportRow<'p> {
    /// Thread name, or the value of [`Profile::request_key`].
    pub comm: Option<CleanName<'p>>,
    /// Thread state: `running`, or the reason of its wait.
    pub state: Option<CleanName<'p>>,
    /// Language of the function.
    pub language: Option<&'static str>,
    /// Function, or `[unknown]`.
    pub symbol: Option<CleanName<'p>>,
    /// Object.
    pub object: Option<CleanName<'p>>,
    /// Source line: `path:12`, or `??:0` as in perf.
    pub line: Option<CleanName<'p>>,
    /// Sums. The key has process and thread.
    pub top: TopRow,
    /// Callers or callees, if [`RowOptions::trees`] is set.
    pub tree: Option<CallTree>,
}

/// Rows of one event.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportRows<'p> {
    /// Weight of all samples of the event: 100 % of the rows' shares.
    pub whole: u64,
    /// Rows, heaviest first.
    pub rows: Vec<ReportRow<'p>>,
    /// Number of rows hidden by [`RowOptions::limit`].
    pub left_out: usize,
}

/// Builds the rows of an event.
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
        // Rows are sorted by share. At least one is shown.
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
            language: top.key.language.map(Language::name),
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

/// Sorts columns by these headings. Other columns keep their order, after these.
pub(crate) fn in_order<T>(columns: &mut [T], order: &[&str], heading: impl Fn(&T) -> &'static str) {
    columns.sort_by_key(|column| {
        let place = order.iter().position(|wanted| *wanted == heading(column));
        place.unwrap_or(usize::MAX)
    });
}

/// Label of samples without frames, which belong to a thread only.
const NO_FRAMES: &str = "[no frames]";

#[cfg(test)]
mod tests {
    use rprof_profile::{ProfileBuilder, WeightUnit};

    use super::*;
    use crate::{ReportOptions, csv, json, markdown, table};

    #[test]
    fn attribute_of_requests_heads_its_column_in_every_format() {
        let mut builder = ProfileBuilder::new();
        let event = builder.add_event("cpu-clock:latency", WeightUnit::Nanoseconds);
        let thread = builder.intern_thread_name("/cart");
        let object = builder.intern_object("o");
        let function = builder.intern_function(Ok("f"), object);
        let stack = builder.intern_stack(&[function]);
        builder.add_samples(event, thread, stack, 1, 1000);
        builder.set_request_key(Some("http.route"));
        let profile = builder.finish();
        let options = ReportOptions {
            rows: RowOptions {
                keys: Keys {
                    comm: true,
                    symbol: false,
                    ..Keys::FUNCTIONS
                },
                order: vec![COMM],
                ..RowOptions::default()
            },
            bare: false,
            ..ReportOptions::default()
        };
        let written = |write: fn(&Profile, &ReportOptions, &mut dyn std::io::Write) -> _| {
            let mut out = Vec::new();
            let result: std::io::Result<()> = write(&profile, &options, &mut out);
            result.expect("written");
            String::from_utf8(out).expect("text")
        };
        let text = written(table::write);
        let heading = "#   self    total      cpu   samples  http.route";
        assert!(text.lines().any(|line| line.starts_with(heading)), "{text}");
        let text = written(markdown::write);
        let heading = "| self | total | cpu | samples | <code>http.route</code> |";
        assert!(text.lines().any(|line| line.starts_with(heading)), "{text}");
        let row = "| 100.00% | 100.00% | 100.00% | 1 | <code>/cart</code> |";
        assert!(text.lines().any(|line| line.starts_with(row)), "{text}");
        let text = written(csv::write);
        assert!(text.starts_with("event,http.route,pid,"), "{text}");
        let text = written(json::write);
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let row = &report["events"][0]["rows"][0];
        assert_eq!(row["by"]["http.route"], "/cart");
        assert_eq!(row.get("comm"), None, "{text}");
    }
}

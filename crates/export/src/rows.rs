//! The rows that table, CSV and JSON have in common.

use rprof_profile::{Keys, Profile, TopFunctions, TopRow, Weight};

use crate::clean::clean;

/// Which rows, and in which order.
#[derive(Clone, Debug, PartialEq)]
pub struct RowOptions {
    /// What samples count for.
    pub weight: Weight,
    /// Sort by total; else by self.
    pub by_total: bool,
    /// Leave out rows of less than this share, in percent of all.
    pub percent_limit: f64,
    /// Most rows.
    pub limit: Option<usize>,
    /// What rows are told apart by.
    pub keys: Keys,
}

impl Default for RowOptions {
    fn default() -> Self {
        RowOptions {
            weight: Weight::Period,
            by_total: false,
            percent_limit: 0.0,
            limit: None,
            keys: Keys::FUNCTIONS,
        }
    }
}

/// One row, its names safe to show; `None` for what rows are not told apart by.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Thread name.
    pub comm: Option<String>,
    /// Function, or `[unknown]`.
    pub symbol: Option<String>,
    /// Object.
    pub object: Option<String>,
    /// Path and line, `path:12`, or `??:0` as perf has it.
    pub line: Option<String>,
    /// Sums; its key has process and thread.
    pub top: TopRow,
}

/// The rows of one event and the weight that their shares are shares of.
pub fn rows(profile: &Profile, event: usize, options: &RowOptions) -> (u64, Vec<Row>) {
    let mut top = TopFunctions::of(profile, event, options.weight, options.keys);
    top.sort(options.by_total);
    let whole = top.weight_total;
    let rows = (top.rows.into_iter())
        .filter(|row| {
            let weight = match options.by_total {
                true => row.total_weight,
                false => row.self_weight,
            };
            percent(weight, whole) >= options.percent_limit
        })
        .take(options.limit.unwrap_or(usize::MAX))
        .map(|top| Row {
            comm: (top.key.comm).map(|c| clean(&profile.comms[c as usize]).into_owned()),
            symbol: (top.key.function).map(|f| match &profile.function(f).name {
                Ok(name) => clean(name).into_owned(),
                Err(_) => "[unknown]".into(),
            }),
            object: (top.key.object).map(|o| clean(&profile.object(o).name).into_owned()),
            line: (top.key.line).map(|line| match line {
                Some(line) => {
                    let file = &profile.files[line.file.0 as usize];
                    format!("{}:{}", clean(file), line.line)
                }
                None => "??:0".into(),
            }),
            top,
        })
        .collect();
    (whole, rows)
}

/// A share in percent; 0 of nothing.
pub fn percent(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        _ => part as f64 * 100.0 / whole as f64,
    }
}

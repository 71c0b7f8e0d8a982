//! A comparison as CSV, one row per function.

use std::io::{self, Write};

use rprof_profile::compare::{Change, Presence, ProfileDiff};

use super::DiffOptions;
use super::rows::sorted;
use super::words::{full_name, key};
use crate::clean::clean;
use crate::csv::without_formula as text;

/// Writes the functions. Amounts are means over the runs, in the unit of the event.
///
/// # Errors
/// Fails if the writer does.
pub fn write(diff: &ProfileDiff, options: &DiffOptions, out: &mut dyn Write) -> io::Result<()> {
    let mut csv = ::csv::Writer::from_writer(out);
    csv.write_record([
        "function",
        "object",
        "presence",
        "self_old",
        "self_new",
        "self_verdict",
        "self_p",
        "self_ratio_low",
        "self_ratio_high",
        "total_old",
        "total_new",
        "total_verdict",
        "total_p",
        "total_ratio_low",
        "total_ratio_high",
        "counterpart",
        "self_visible",
        "total_visible",
        "explained_by",
    ])?;
    let most = options.limit.unwrap_or(usize::MAX);
    for row in sorted(diff, options.sort).into_iter().take(most) {
        let mut record = vec![
            text(&full_name(row)).into_owned(),
            text(&clean(&row.object)).into_owned(),
            presence(row.presence).to_owned(),
        ];
        for change in [&row.own, &row.total] {
            record.extend(figures(change));
        }
        let name = |other: Option<usize>| {
            let name = other.map(|index| full_name(&diff.functions[index]));
            text(&name.unwrap_or_default()).into_owned()
        };
        record.push(name(row.counterpart));
        let visible = [row.own.visible, row.total.visible];
        record.extend(visible.map(|visible| visible.map_or(String::new(), |v| v.to_string())));
        record.push(name(row.explained_by));
        csv.write_record(record)?;
    }
    csv.flush()
}

fn figures(change: &Change) -> [String; 6] {
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    [
        change.old.to_string(),
        change.new.to_string(),
        key(change.verdict).to_owned(),
        number(change.p),
        number(change.interval.map(|ratio| ratio.low)),
        number(change.interval.map(|ratio| ratio.high)),
    ]
}

pub(super) fn presence(presence: Presence) -> &'static str {
    match presence {
        Presence::Both => "both",
        Presence::OnlyOld => "old",
        Presence::OnlyNew => "new",
    }
}

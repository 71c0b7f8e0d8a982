//! The top functions as CSV, with a line of headings.

use std::io::{self, Write};

use rprof_profile::Profile;

use crate::names::CleanNames;
use crate::rows::{ReportOptions, percent, rows};

/// Writes the rows of every event that has samples.
///
/// # Errors
/// Fails if the writer does.
pub fn write(profile: &Profile, options: &ReportOptions, out: &mut dyn Write) -> io::Result<()> {
    let mut csv = ::csv::Writer::from_writer(out);
    csv.write_record([
        "event",
        "comm",
        "pid",
        "tid",
        "self_percent",
        "total_percent",
        "self",
        "total",
        "self_samples",
        "symbol",
        "object",
        "srcline",
    ])?;
    let names = CleanNames::new(profile);
    for index in 0..profile.events.len() {
        let event = names.event(index);
        let (whole, rows) = rows(profile, index, &options.rows);
        for row in rows {
            let number = |n: Option<i32>| n.map_or(String::new(), |n| n.to_string());
            csv.write_record([
                &*event,
                row.comm.as_deref().unwrap_or(""),
                &number(row.top.key.pid),
                &number(row.top.key.tid),
                &format!("{:.4}", percent(row.top.self_weight, whole)),
                &format!("{:.4}", percent(row.top.total_weight, whole)),
                &row.top.self_weight.to_string(),
                &row.top.total_weight.to_string(),
                &row.top.self_samples.to_string(),
                row.symbol.as_deref().unwrap_or(""),
                row.object.as_deref().unwrap_or(""),
                row.line.as_deref().unwrap_or(""),
            ])?;
        }
    }
    csv.flush()
}

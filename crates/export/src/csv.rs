//! Writes the top functions as CSV with a header row.
//!
//! Spreadsheets evaluate a cell as a formula if it begins with `=`, `+`, `-` or `@`, or with a
//! full-width form of these. A formula can send other cells to a server. Names are untrusted, so
//! [`without_formula`] quotes them. Source: OWASP, "CSV Injection".

use std::borrow::Cow;
use std::io::{self, Write};

use rprof_profile::Profile;

use crate::names::{CleanName, CleanNames};
use crate::options::ReportOptions;
use crate::rows::{COMM, ReportRows, percent, rows, title};

/// Writes the rows of every event that has samples.
///
/// # Errors
/// Fails if the writer does.
pub fn write(profile: &Profile, options: &ReportOptions, out: &mut dyn Write) -> io::Result<()> {
    let mut csv = ::csv::Writer::from_writer(out);
    // Only on request: readers know the other columns by their place.
    let has_language = options.rows.keys.language;
    let title = title(profile, COMM);
    let title = without_formula(&title);
    let headings = [
        "event",
        &title,
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
        "state",
    ];
    let language = has_language.then_some("language");
    csv.write_record(headings.into_iter().chain(language))?;
    let names = CleanNames::new(profile);
    for index in 0..profile.events.len() {
        let event = names.event(index);
        let ReportRows { whole, rows, .. } = rows(profile, index, &options.rows);
        for row in rows {
            let number = |n: Option<i32>| n.map_or(String::new(), |n| n.to_string());
            let total = |text: String| match options.rows.without_total {
                true => String::new(),
                false => text,
            };
            let text = |text: Option<&CleanName<'_>>| {
                without_formula(text.map_or("", |text| text)).into_owned()
            };
            let fields = [
                without_formula(&event).into_owned(),
                text(row.comm.as_ref()),
                number(row.top.key.pid),
                number(row.top.key.tid),
                format!("{:.4}", percent(row.top.self_weight, whole)),
                total(format!("{:.4}", percent(row.top.total_weight, whole))),
                row.top.self_weight.to_string(),
                total(row.top.total_weight.to_string()),
                row.top.self_samples.to_string(),
                text(row.symbol.as_ref()),
                text(row.object.as_ref()),
                text(row.line.as_ref()),
                row.state.as_deref().unwrap_or("").to_owned(),
            ];
            let language = has_language.then(|| row.language.unwrap_or("").to_owned());
            csv.write_record(fields.into_iter().chain(language))?;
        }
    }
    csv.flush()
}

/// First characters of formulas. Some spreadsheets accept full-width signs (U+FF1D, U+FF0B, U+FF0D,
/// U+FF20) too.
const FORMULA: [char; 11] = [
    '=', '+', '-', '@', '\t', '\r', '\n', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}',
];

/// Prefixes a name with `'` if it looks like a formula.
pub fn without_formula(name: &str) -> Cow<'_, str> {
    match name.starts_with(FORMULA) {
        true => Cow::Owned(format!("'{name}")),
        false => Cow::Borrowed(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_formulas() {
        let ascii = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\nx"];
        let wide = ["\u{ff1d}1+1", "\u{ff0b}1", "\u{ff0d}1", "\u{ff20}SUM(A1)"];
        for name in ascii.into_iter().chain(wide) {
            assert_eq!(without_formula(name), format!("'{name}"));
        }
        for name in ["main", "[unknown]", "a=b", "a\u{ff1d}b", "\u{ff01}", ""] {
            assert!(matches!(without_formula(name), Cow::Borrowed(_)));
        }
    }
}

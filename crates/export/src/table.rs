//! The top functions as text.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use rprof_profile::Profile;

use crate::names::CleanNames;
use crate::options::ReportOptions;
use crate::rows::{ReportRow, percent, rows};
use crate::verdict;

/// Writes a table for each event that has samples, with what was recorded and
/// the quality verdict above it.
///
/// # Errors
/// Fails if the writer does.
pub fn write(profile: &Profile, options: &ReportOptions, out: &mut dyn Write) -> io::Result<()> {
    let names = CleanNames::new(profile);
    let mut any = false;
    for (index, event) in profile.events.iter().enumerate() {
        if event.samples == 0 {
            continue;
        }
        if any {
            writeln!(out)?;
        }
        if !options.bare {
            let amount = match &*names.unit(index) {
                "ns" => format!("{:.3} s", event.weight as f64 / 1e9),
                unit => format!("{} {unit}", event.weight),
            };
            writeln!(
                out,
                "# event {}: {} samples, {amount}",
                names.event(index),
                event.samples
            )?;
            if !any {
                for finding in verdict::findings(profile) {
                    writeln!(out, "# {}", (options.wording)(&finding))?;
                }
            }
            writeln!(out, "#")?;
        }
        any = true;
        write_event(profile, index, options, out)?;
    }
    if !any {
        writeln!(out, "# no samples")?;
        for finding in verdict::findings(profile) {
            writeln!(out, "# {}", (options.wording)(&finding))?;
        }
    }
    Ok(())
}

fn write_event(
    profile: &Profile,
    event: usize,
    options: &ReportOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (whole, rows) = rows(profile, event, &options.rows);
    let columns = columns(&rows);
    if !options.bare {
        write!(out, "# {:>6} {:>8} {:>9}", "self", "total", "samples")?;
        for (i, (heading, width, _)) in columns.iter().enumerate() {
            put_column(out, heading, *width, i + 1 == columns.len())?;
        }
        writeln!(out)?;
    }
    for row in &rows {
        let share = |weight| percent(weight, whole);
        let (own, total) = (share(row.top.self_weight), share(row.top.total_weight));
        let painted = |share| painted(share, options.color);
        write!(
            out,
            "{} {} {:>9}",
            painted(own),
            painted(total),
            row.top.self_samples
        )?;
        for (i, (_, width, text)) in columns.iter().enumerate() {
            put_column(
                out,
                &text(row).unwrap_or_default(),
                *width,
                i + 1 == columns.len(),
            )?;
        }
        writeln!(out)?;
    }
    Ok(())
}

type Text = fn(&ReportRow<'_>) -> Option<String>;

/// Returns the columns that the rows have: heading, width, text.
fn columns(rows: &[ReportRow<'_>]) -> Vec<(&'static str, usize, Text)> {
    let all: [(&str, Text); 6] = [
        ("comm", |r| r.comm.as_deref().map(str::to_owned)),
        ("pid", |r| r.top.key.pid.map(|p| p.to_string())),
        ("tid", |r| r.top.key.tid.map(|t| t.to_string())),
        ("source:line", |r| {
            r.line.as_deref().map(|line| base_name(line).into())
        }),
        ("symbol", |r| r.symbol.as_deref().map(str::to_owned)),
        ("object", |r| r.object.as_deref().map(str::to_owned)),
    ];
    all.into_iter()
        .filter_map(|(heading, text)| {
            // A name of a thousand characters must not push the next column away.
            let widths = rows.iter().filter_map(text).map(|t| t.chars().count());
            Some((heading, widths.max()?.clamp(heading.len(), 80), text))
        })
        .collect()
}

/// Leaves out the folders of a path, as perf does.
fn base_name(line: &str) -> &str {
    line.rsplit('/').next().unwrap_or(line)
}

fn put_column(out: &mut dyn Write, text: &str, width: usize, last: bool) -> io::Result<()> {
    match last {
        true => write!(out, "  {text}"),
        false => write!(out, "  {text:<width$}"),
    }
}

/// Returns a share, coloured as perf does it: red from 5 %, green from 0.5 %.
fn painted(share: f64, color: bool) -> String {
    let text = format!("{share:>7.2}%");
    let style = match share {
        s if s >= 5.0 => Style::new().fg_color(Some(AnsiColor::Red.into())),
        s if s >= 0.5 => Style::new().fg_color(Some(AnsiColor::Green.into())),
        _ => return text,
    };
    match color {
        true => format!("{style}{text}{style:#}"),
        false => text,
    }
}

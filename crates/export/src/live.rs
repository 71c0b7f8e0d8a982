//! Functions of a live profile's window, and their sums since the start, as table and JSON.

use std::io::{self, Write};
use std::time::Duration;

use rprof_profile::unit::inflected;
use rprof_profile::{FunctionId, Profile, TopFunctions, TopRow};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::names::{CleanName, CleanNames};
use crate::rows::{ReportRow, ReportRows, RowOptions, percent, rows};
use crate::table::{columns, painted, put_column};

/// Snapshot of a live profile.
#[derive(Clone, Copy, Debug)]
pub struct LiveLook<'p> {
    /// Number of the snapshot, from 1.
    pub number: u64,
    /// Time since the start.
    pub elapsed: Duration,
    /// Length of the window.
    pub window: Duration,
    /// Profile of the window.
    pub profile: &'p Profile,
    /// Index of the shown event.
    pub event: usize,
    /// Sums of the event since the start, by the functions of `profile`.
    pub since_start: &'p TopFunctions,
    /// Number of samples whose stacks were dropped because there were too many.
    pub forgotten: u64,
    /// CPU usage of the profiler since the previous snapshot, in percent of one CPU.
    pub own_cpu: f64,
}

/// Options of the output.
#[derive(Clone, Copy, Debug, Default)]
pub struct LookOptions {
    /// Sort by total instead of self.
    pub by_total: bool,
    /// Maximum number of rows; `None` for all.
    pub limit: Option<usize>,
    /// Width of the table, in characters. Names are shortened to fit.
    pub width: Option<usize>,
    /// Colour the shares.
    pub color: bool,
}

impl LookOptions {
    fn rows(&self) -> RowOptions {
        RowOptions {
            by_total: self.by_total,
            limit: self.limit,
            ..RowOptions::default()
        }
    }
}

const SINCE_START: usize = 18;

///
/// # Errors
/// Fails if the writer does.
pub fn write_text(
    look: &LiveLook<'_>,
    options: &LookOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let names = CleanNames::new(look.profile);
    let (samples, lost) = samples_and_lost(look);
    write!(
        out,
        "# {:.1} s, window {:.1} s, event {}: {samples} {}, lost {lost}",
        look.elapsed.as_secs_f64(),
        look.window.as_secs_f64(),
        names.event(look.event),
        inflected(samples, "sample")
    )?;
    if look.forgotten > 0 {
        write!(out, ", forgotten {}", look.forgotten)?;
    }
    writeln!(out, ", rprof {:.1}% of a CPU", look.own_cpu)?;
    let wanted = options.rows();
    let ReportRows { whole, rows, .. } = rows(look.profile, look.event, &wanted);
    let width = options.width.map(|width| width.saturating_sub(SINCE_START));
    let columns = columns(look.profile, &rows, width, &wanted.order);
    write!(out, "# {:>6}    total   samples", "self")?;
    write!(out, " all:self    total")?;
    for (i, column) in columns.iter().enumerate() {
        put_column(out, &column.title, column.width, i + 1 == columns.len())?;
    }
    writeln!(out)?;
    let known = by_function(look.since_start);
    for (index, row) in rows.iter().enumerate() {
        let since = since_start(&known, row);
        let painted = |part, whole| painted(percent(part, whole), options.color);
        write!(
            out,
            "{} {} {:>9} {} {}",
            painted(row.top.self_weight, whole),
            painted(row.top.total_weight, whole),
            row.top.self_samples,
            painted(since.own, look.since_start.weight_total),
            painted(since.total, look.since_start.weight_total),
        )?;
        for (i, column) in columns.iter().enumerate() {
            let text = column.texts.get(index).map_or("", |text| text);
            put_column(out, text, column.width, i + 1 == columns.len())?;
        }
        writeln!(out)?;
    }
    writeln!(out)
}

#[derive(Serialize)]
struct Document<'p> {
    version: u32,
    number: u64,
    elapsed_seconds: f64,
    window_seconds: f64,
    event: CleanName<'p>,
    unit: CleanName<'p>,
    samples: u64,
    weight_total: u64,
    since_start_weight_total: u64,
    lost: u64,
    forgotten: u64,
    own_cpu_percent: f64,
    rows: Vec<JsonRow<'p>>,
}

#[derive(Serialize)]
struct JsonRow<'p> {
    symbol: Option<CleanName<'p>>,
    object: Option<CleanName<'p>>,
    #[serde(rename = "self")]
    own: u64,
    total: u64,
    self_samples: u64,
    since_start: Sums,
}

#[derive(Clone, Copy, Default, Serialize)]
struct Sums {
    #[serde(rename = "self")]
    own: u64,
    total: u64,
    self_samples: u64,
}

/// Writes one line of JSON. The format is stable: releases only add fields.
///
/// # Errors
/// Fails if the writer does.
pub fn write_json(
    look: &LiveLook<'_>,
    options: &LookOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let names = CleanNames::new(look.profile);
    let (samples, lost) = samples_and_lost(look);
    let ReportRows { whole, rows, .. } = rows(look.profile, look.event, &options.rows());
    let known = by_function(look.since_start);
    let document = Document {
        version: 1,
        number: look.number,
        elapsed_seconds: look.elapsed.as_secs_f64(),
        window_seconds: look.window.as_secs_f64(),
        event: names.event(look.event),
        unit: names.unit(look.event),
        samples,
        weight_total: whole,
        since_start_weight_total: look.since_start.weight_total,
        lost,
        forgotten: look.forgotten,
        own_cpu_percent: look.own_cpu,
        rows: (rows.into_iter())
            .map(|row| JsonRow {
                since_start: since_start(&known, &row),
                own: row.top.self_weight,
                total: row.top.total_weight,
                self_samples: row.top.self_samples,
                symbol: row.symbol,
                object: row.object,
            })
            .collect(),
    };
    serde_json::to_writer(&mut *out, &document).map_err(io::Error::from)?;
    writeln!(out)
}

/// Returns the samples in the window, and the lost ones since the start.
fn samples_and_lost(look: &LiveLook<'_>) -> (u64, u64) {
    let event = look.profile.events.get(look.event);
    event.map_or((0, 0), |event| (event.samples, event.lost))
}

fn by_function(top: &TopFunctions) -> FxHashMap<FunctionId, &TopRow> {
    let rows = top.rows.iter();
    rows.filter_map(|row| Some((row.key.function?, row)))
        .collect()
}

fn since_start(known: &FxHashMap<FunctionId, &TopRow>, row: &ReportRow<'_>) -> Sums {
    let function = row.top.key.function;
    let row = function.and_then(|function| known.get(&function));
    row.map_or(Sums::default(), |row| Sums {
        own: row.self_weight,
        total: row.total_weight,
        self_samples: row.self_samples,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::{Keys, ProfileBuilder, WeighBy, WeightUnit};

    fn with_look(check: impl FnOnce(&LiveLook<'_>)) {
        let mut builder = ProfileBuilder::new();
        let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
        let (thread, object) = (builder.intern_thread_name("t"), builder.intern_object("o"));
        let [main, hot] =
            ["main", "hot\u{1b}[31m"].map(|name| builder.intern_function(Ok(name), object));
        let stack = builder.intern_stack(&[main, hot]);
        builder.add_samples(event, thread, stack, 2, 20);
        let profile = builder.finish();
        let mut since_start = TopFunctions::of(&profile, event, WeighBy::Period, Keys::FUNCTIONS);
        since_start.weight_total = 80;
        check(&LiveLook {
            number: 3,
            elapsed: Duration::from_secs(6),
            window: Duration::from_secs(2),
            profile: &profile,
            event,
            since_start: &since_start,
            forgotten: 7,
            own_cpu: 1.25,
        });
    }

    #[test]
    fn rows_have_shares_of_the_window_and_since_the_start() {
        with_look(|look| {
            let mut out = Vec::new();
            write_text(look, &LookOptions::default(), &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(
                lines[0],
                "# 6.0 s, window 2.0 s, event cpu-clock: 2 samples, lost 0, forgotten 7, rprof 1.2% of a CPU"
            );
            let words: Vec<&str> = lines[2].split_whitespace().collect();
            assert_eq!(words[..5], ["100.00%", "100.00%", "2", "25.00%", "25.00%"]);
            assert!(
                lines[2].contains("hot") && !text.contains('\u{1b}'),
                "{text}"
            );
        });
    }

    #[test]
    fn json_is_one_line_for_a_look() {
        with_look(|look| {
            let mut out = Vec::new();
            let options = LookOptions {
                limit: Some(1),
                ..LookOptions::default()
            };
            write_json(look, &options, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert_eq!(text.lines().count(), 1);
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value["rows"].as_array().unwrap().len(), 1);
            assert_eq!(value["rows"][0]["self"], 20);
            assert_eq!(value["since_start_weight_total"], 80);
            assert_eq!(value["forgotten"], 7);
        });
    }
}

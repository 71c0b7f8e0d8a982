//! Calibration by equal runs, as text and JSON.

use std::io::{self, Write};

use rprof_profile::compare::{Calibration, Design, FunctionDiff, RunSummary};
use serde::Serialize;

use super::amount::{amount, noun, percent};
use super::rows::{SortBy, sorted};
use super::words;
use crate::amounts::counted;
use crate::clean::clean;

const LISTED: usize = 15;

/// Writes the noise of equal runs, their false alarm rate, and the smallest rise that they can
/// show.
///
/// # Errors
/// Fails if the writer does.
pub fn write_text(found: &Calibration, machine: &str, out: &mut dyn Write) -> io::Result<()> {
    let diff = &found.diff;
    writeln!(out, "# {}", headline(found))?;
    writeln!(out, "# machine: {}", clean(machine))?;
    let summary = found.summary();
    let shown = |of: fn(&RunSummary) -> f64| amount(diff, summary.as_ref().map_or(0.0, of));
    writeln!(
        out,
        "# program: {} of {} per run; {} runs differ by {:.1} % ({} to {}), single functions by \
         {:.1} % more than sampling explains",
        shown(|summary| summary.mean),
        noun(diff),
        found.whole.len(),
        100.0 * deviation(found),
        shown(|summary| summary.min),
        shown(|summary| summary.max),
        100.0 * diff.noise.deviation()
    )?;
    writeln!(
        out,
        "# {} per side{}, {} of equal runs: {} ({:.1} %), {} would have failed; {} alarms for more \
         and {} for less",
        counted(found.runs as u64, "run"),
        match diff.design {
            Design::Paired => " in pairs",
            Design::Independent => "",
        },
        counted(found.splits as u64, "comparison"),
        counted(found.alarms as u64, "false alarm"),
        100.0 * found.alarm_share(),
        found.failed,
        found.directions[0],
        found.directions[1]
    )?;
    if let Some(plan) = words::plan(diff) {
        writeln!(out, "# {plan}")?;
    }
    for (name, times) in found.named.iter().take(3) {
        let name = clean(name);
        writeln!(out, "# false alarms: {name}, {times} times")?;
    }
    writeln!(out, "#")?;
    writeln!(
        out,
        "# smallest rise detected in four of five cases, with {} per side:",
        counted(found.runs as u64, "run")
    )?;
    writeln!(out, "# {:>8} {:>10}  function", "share", "rise")?;
    let visible = |visible: Option<f64>| visible.map_or("-".into(), percent);
    writeln!(
        out,
        "{:>8} % {:>10}  (the program)",
        "100.00",
        visible(diff.whole.visible)
    )?;
    for row in listed(found).take(LISTED) {
        let share = 100.0 * share(found, row);
        let rise = visible(row.own.visible);
        writeln!(out, "{share:>8.2} % {rise:>10}  {}", words::name(row))?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    headline: String,
    machine: &'a str,
    event: String,
    unit: String,
    threshold: f64,
    runs: usize,
    splits: usize,
    alarms: usize,
    alarm_share: f64,
    failed: usize,
    more: usize,
    less: usize,
    named: Vec<Named>,
    amounts: &'a [f64],
    deviation: f64,
    noise: f64,
    wanted: f64,
    visible: Option<f64>,
    runs_needed: Option<usize>,
    functions: Vec<CalibratedFunction>,
}

#[derive(Serialize)]
struct Named {
    function: String,
    times: usize,
}

#[derive(Serialize)]
struct CalibratedFunction {
    function: String,
    share: f64,
    samples: f64,
    visible: Option<f64>,
    runs_needed: Option<usize>,
}

/// Writes one JSON object and a newline. The format is stable: releases only add fields.
///
/// # Errors
/// Fails if the writer does.
pub fn write_json(found: &Calibration, machine: &str, out: &mut dyn Write) -> io::Result<()> {
    let diff = &found.diff;
    let machine = clean(machine);
    let document = Document {
        version: 1,
        headline: headline(found),
        machine: &machine,
        event: clean(&diff.event).into_owned(),
        unit: clean(diff.unit.as_str()).into_owned(),
        threshold: diff.threshold,
        runs: found.runs,
        splits: found.splits,
        alarms: found.alarms,
        alarm_share: found.alarm_share(),
        failed: found.failed,
        more: found.directions[0],
        less: found.directions[1],
        named: (found.named.iter())
            .map(|(name, times)| Named {
                function: clean(name).into_owned(),
                times: *times,
            })
            .collect(),
        amounts: &found.whole,
        deviation: deviation(found),
        noise: diff.noise.deviation(),
        wanted: diff.wanted,
        visible: diff.whole.visible,
        runs_needed: diff.whole.runs_needed,
        functions: listed(found)
            .map(|row| CalibratedFunction {
                function: words::full_name(row),
                share: share(found, row),
                samples: (row.own.samples[0] + row.own.samples[1]) / 2.0,
                visible: row.own.visible,
                runs_needed: row.own.runs_needed,
            })
            .collect(),
    };
    serde_json::to_writer_pretty(&mut *out, &document).map_err(io::Error::from)?;
    writeln!(out)
}

/// Returns the result as a sentence without a full stop.
pub fn headline(found: &Calibration) -> String {
    let (limit, visible) = (found.diff.threshold, found.diff.whole.visible);
    let is_blind = limit > 0.0 && visible.is_some_and(|visible| visible > limit);
    let visible = visible.map(percent).unwrap_or_default();
    match found.is_steady() {
        false => format!(
            "UNSTEADY: {:.1} % of comparisons of equal runs raise false alarms; make the machine \
             quieter, or raise --fail-above",
            100.0 * found.alarm_share()
        ),
        true if is_blind => format!(
            "TOO FEW RUNS: with {} per side, the smallest detectable rise of the program is \
             {visible}, above --fail-above ({}); {:.1} % of comparisons of equal runs raise a false \
             alarm",
            counted(found.runs as u64, "run"),
            percent(limit),
            100.0 * found.alarm_share()
        ),
        true => format!(
            "STEADY: with {} per side, the smallest detectable rise of the program is {visible}; \
             {:.1} % of comparisons of equal runs raise a false alarm",
            counted(found.runs as u64, "run"),
            100.0 * found.alarm_share()
        ),
    }
}

fn listed(found: &Calibration) -> impl Iterator<Item = &FunctionDiff> {
    sorted(&found.diff, SortBy::Own)
        .into_iter()
        .filter(|row| row.own.visible.is_some())
}

fn share(found: &Calibration, row: &FunctionDiff) -> f64 {
    let whole = found.diff.whole.old + found.diff.whole.new;
    (row.own.old + row.own.new) / whole.max(f64::MIN_POSITIVE)
}

/// Returns the standard deviation of the program's amounts, relative to their mean.
fn deviation(found: &Calibration) -> f64 {
    let summary = found.summary();
    let relative = summary.and_then(|s| Some(s.standard_deviation? / s.mean));
    relative
        .filter(|relative| relative.is_finite())
        .unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::compare::{CompareOptions, calibrate};
    use rprof_profile::{Filter, folded};

    #[test]
    fn a_limit_below_the_smallest_visible_rise_needs_more_runs() {
        let profiles = [1000, 1013, 990, 1004, 1021, 996, 985, 1010, 1002, 994].map(|samples| {
            let text = format!("main;f {samples}\n");
            folded::read(text.as_bytes(), "x".as_ref(), &Filter::default()).unwrap()
        });
        let options = CompareOptions::default();
        let mut found = calibrate(&profiles, 5, 20, &options).unwrap();
        found.alarms = 0;
        let visible = found.diff.whole.visible.unwrap();
        let mut with_limit = |limit| {
            found.diff.threshold = limit;
            headline(&found)
        };
        assert!(with_limit(visible / 2.0).starts_with("TOO FEW RUNS: with 5 runs per side"));
        assert!(with_limit(visible * 2.0).starts_with("STEADY: with 5 runs per side"));
        assert!(with_limit(0.0).starts_with("STEADY"));
    }
}

//! A comparison as JSON. The format is stable: releases only add fields.

use std::io::{self, Write};

use rprof_profile::compare::{
    Change, Design, Gate, Noise, Outcome, ProfileDiff, Scope, SideSummary, Work,
};
use serde::Serialize;

use super::cautions;
use super::csv::presence;
use super::rows::sorted;
use super::words;
use super::{DiffOptions, Environment};
use crate::clean::clean;

#[derive(Serialize)]
struct Document {
    version: u32,
    verdict: &'static str,
    gate: &'static str,
    certain: bool,
    headline: String,
    event: String,
    unit: String,
    per: &'static str,
    threshold: f64,
    wanted: f64,
    scope: &'static str,
    design: &'static str,
    noise: JsonNoise,
    old: JsonSide,
    new: JsonSide,
    total: JsonChange,
    functions: Vec<ComparedFunction>,
    renames: Vec<Rename>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct JsonNoise {
    deviation: f64,
    source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    whole: Option<f64>,
}

#[derive(Serialize)]
struct JsonSide {
    files: Vec<String>,
    runs: usize,
    weights: Vec<u64>,
    samples: u64,
    matched: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    complete: Option<f64>,
    lost: f64,
    damaged: usize,
    environments: Vec<JsonEnvironment>,
}

#[derive(Serialize)]
struct JsonEnvironment {
    cpu: Option<String>,
    cpus_online: Option<String>,
    kernel: Option<String>,
}

/// Amounts are means over the runs. Ratios are new divided by old.
#[derive(Serialize)]
struct JsonChange {
    old: f64,
    new: f64,
    difference: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    visible: Option<f64>,
    /// Runs per side that would show the wanted rise.
    #[serde(skip_serializing_if = "Option::is_none")]
    runs_needed: Option<usize>,
    samples: [f64; 2],
    verdict: &'static str,
}

#[derive(Serialize)]
struct ComparedFunction {
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    object: String,
    presence: &'static str,
    #[serde(rename = "self")]
    own: JsonChange,
    total: JsonChange,
    #[serde(skip_serializing_if = "Option::is_none")]
    counterpart: Option<String>,
    /// Descendant that accounts for most of the change of the total.
    #[serde(skip_serializing_if = "Option::is_none")]
    explained_by: Option<String>,
}

#[derive(Serialize)]
struct Rename {
    old: String,
    new: String,
}

/// Writes the comparison as one JSON object and a newline.
///
/// # Errors
/// Fails if the writer does.
pub fn write(diff: &ProfileDiff, options: &DiffOptions, out: &mut dyn Write) -> io::Result<()> {
    let most = options.limit.unwrap_or(usize::MAX);
    let name = |index: usize| words::full_name(&diff.functions[index]);
    let document = Document {
        version: 1,
        verdict: outcome_key(diff.outcome),
        gate: match diff.gate() {
            Gate::Passed => "passed",
            Gate::Regressed => "regressed",
            Gate::Inconclusive => "inconclusive",
        },
        certain: diff.is_certain(),
        headline: words::headline(diff),
        event: clean(&diff.event).into_owned(),
        unit: clean(diff.unit.as_str()).into_owned(),
        per: match diff.work {
            Work::Run => "run",
            Work::Units { .. } => "unit",
            Work::Seconds => "second",
            Work::Share => "total",
        },
        threshold: diff.threshold,
        wanted: diff.wanted,
        scope: scope_key(diff.rules.scope),
        design: match diff.design {
            Design::Independent => "independent",
            Design::Paired => "paired",
        },
        noise: JsonNoise {
            deviation: diff.noise.deviation(),
            source: match diff.noise {
                Noise::Learned(_) => "runs",
                Noise::Given(_) => "given",
                Noise::Assumed(_) => "assumed",
            },
            whole: diff.whole_deviation,
        },
        old: side(&diff.old, &options.environments[0]),
        new: side(&diff.new, &options.environments[1]),
        total: change(&diff.whole),
        functions: (sorted(diff, options.sort).into_iter().take(most))
            .map(|row| ComparedFunction {
                function: row.name.as_deref().map(|name| clean(name).into_owned()),
                object: clean(&row.object).into_owned(),
                presence: presence(row.presence),
                own: change(&row.own),
                total: change(&row.total),
                counterpart: row.counterpart.map(name),
                explained_by: row.explained_by.map(name),
            })
            .collect(),
        renames: (diff.renames.iter())
            .map(|rename| Rename {
                old: name(rename.old),
                new: name(rename.new),
            })
            .collect(),
        warnings: cautions::relevant(diff).map(cautions::caution).collect(),
    };
    serde_json::to_writer_pretty(&mut *out, &document).map_err(io::Error::from)?;
    writeln!(out)
}

fn side(side: &SideSummary, environments: &[Environment]) -> JsonSide {
    let known = |text: &Option<String>| text.as_deref().map(|text| clean(text).into_owned());
    let files = side
        .paths
        .iter()
        .map(|path| clean(&path.to_string_lossy()).into_owned());
    JsonSide {
        files: files.collect(),
        runs: side.weights.len(),
        weights: side.weights.clone(),
        samples: side.samples,
        matched: side.matched,
        complete: side.complete,
        lost: side.lost,
        damaged: side.damaged,
        environments: (environments.iter())
            .map(|environment| JsonEnvironment {
                cpu: known(&environment.cpu),
                cpus_online: known(&environment.cpus),
                kernel: known(&environment.kernel),
            })
            .collect(),
    }
}

fn change(change: &Change) -> JsonChange {
    JsonChange {
        old: change.old,
        new: change.new,
        difference: change.difference(),
        ratio: change.relative().map(|relative| relative + 1.0),
        interval: change.interval.map(|ratio| [ratio.low, ratio.high]),
        p: change.p,
        visible: change.visible,
        runs_needed: change.runs_needed,
        samples: change.samples,
        verdict: words::key(change.verdict),
    }
}

/// Returns the key of a gate's scope, which is also its command-line name.
fn scope_key(scope: Scope) -> &'static str {
    match scope {
        Scope::All => "all",
        Scope::Program => "total",
        Scope::Own => "self",
        Scope::Inclusive => "inclusive",
    }
}

fn outcome_key(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Same => "same",
        Outcome::Regressed => "regressed",
        Outcome::Improved => "improved",
        Outcome::Mixed => "mixed",
        Outcome::Uniform => "uniform",
        Outcome::Suspected => "suspected",
        Outcome::Moved => "moved",
        Outcome::BelowThreshold => "below_threshold",
        Outcome::Unchanged => "unchanged",
        Outcome::Inconclusive => "inconclusive",
    }
}

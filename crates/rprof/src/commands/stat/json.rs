//! The result as one JSON document.
//!
//! Numbers are JSON numbers, times are in seconds, and unknown values are null. docs/stat.md
//! describes the form; `version` changes with it.

use std::os::unix::process::ExitStatusExt;

use rprof_counting::session::CountedEvent;
use rprof_counting::{Count, EventState, Part, Per};
use rprof_export::clean::clean;
use rprof_perf_event::Limits;
use rprof_statistics::summary::outliers;
use rprof_statistics::{CONFIDENCE, RunSummary};
use serde_json::{Value, json};

use super::compare::{Comparison, Judged, word};
use super::job::Job;
use super::rows::{Row, Unit, metrics_of, rows};
use super::run::{Interval, Run, reason};
use super::runs::{Measured, Side};
use super::text::part_name;
use crate::wording::messages::Failure;

const VERSION: u32 = 1;

pub(super) fn document(
    job: &Job,
    measured: &Measured,
    comparison: Option<&Comparison>,
) -> Result<String, Failure> {
    let document = json!({
        "version": VERSION,
        "generator": concat!("rprof ", env!("CARGO_PKG_VERSION")),
        "environment": environment(),
        "commands": measured.sides.iter().map(|side| side_value(job, side)).collect::<Vec<_>>(),
        "comparison": comparison.map(comparison_value),
    });
    // Each line is a document.
    let text = match job.interval {
        Some(_) => serde_json::to_string(&document)?,
        None => serde_json::to_string_pretty(&document)?,
    };
    Ok(text + "\n")
}

pub(super) fn interval(job: &Job, interval: &Interval<'_>) -> Result<String, Failure> {
    let line = json!({
        "version": VERSION,
        "interval": {
            "end": interval.end.as_secs_f64(),
            "length": interval.length.as_secs_f64(),
            "counts": counts(interval.events, &interval.counts.table(job.per)),
        },
    });
    Ok(serde_json::to_string(&line)? + "\n")
}

/// Returns the properties of the machine that affect results.
fn environment() -> Value {
    let read = |path: &str| {
        std::fs::read_to_string(path)
            .ok()
            .map(|text| text.trim().to_owned())
    };
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    json!({
        "kernel": read("/proc/sys/kernel/osrelease"),
        "cpus_online": rprof_events::cpus::online().ok().map(|cpus| cpus.len()),
        "cpu": model.map(|(_, name)| clean(name.trim()).into_owned()),
        "perf_event_paranoid": Limits::read().paranoid,
        "nmi_watchdog": read("/proc/sys/kernel/nmi_watchdog").map(|text| text == "1"),
    })
}

fn side_value(job: &Job, side: &Side) -> Value {
    let words: Vec<String> = side
        .command
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    json!({
        "command": words,
        "events": side.events.iter().map(event_value).collect::<Vec<_>>(),
        "notices": side.notices.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "runs": side.runs.iter().map(|run| run_value(job, side, run)).collect::<Vec<_>>(),
        "left_out": side.left_out.iter().map(|status| status_value(*status)).collect::<Vec<_>>(),
        "summary": rows(side).iter().map(summary_value).collect::<Vec<_>>(),
    })
}

fn event_value(event: &CountedEvent) -> Value {
    let state = match &event.state {
        EventState::Counted => "counted",
        EventState::NoPlace => "no place",
        EventState::Refused(_) => "refused",
        EventState::KernelOnly { .. } => "kernel only",
    };
    json!({
        "name": event.name,
        "asked": event.event.describe(),
        "state": state,
        "reason": (!event.state.is_counted()).then(|| reason(event)),
        "scale": event.event.scale().map(rprof_events::pmu::Scale::factor),
        "unit": event.event.scale().map(|scale| scale.unit().to_owned()),
    })
}

fn run_value(job: &Job, side: &Side, run: &Run) -> Value {
    let table = run.counts.table(job.per);
    let all = run.counts.table(Per::All);
    let whole: Vec<Option<Count>> = (0..side.events.len())
        .map(|event| all.count(Part::All, event))
        .collect();
    let metrics: Vec<Value> = (metrics_of(&side.events, &whole, run.wall).into_iter())
        .map(|metric| {
            json!({"name": metric.name, "value": metric.value, "estimate": metric.is_estimate})
        })
        .collect();
    json!({
        "status": run.status.map(status_value),
        "wall": run.wall.as_secs_f64(),
        "usage": run.usage.map(|usage| json!({
            "user": usage.user.as_secs_f64(),
            "system": usage.system.as_secs_f64(),
            "max_rss_bytes": usage.max_rss,
            "minor_faults": usage.minor_faults,
            "major_faults": usage.major_faults,
            "voluntary_switches": usage.voluntary_switches,
            "involuntary_switches": usage.involuntary_switches,
        })),
        "counts": counts(&side.events, &table),
        "metrics": metrics,
    })
}

fn status_value(status: std::process::ExitStatus) -> Value {
    json!({"exit": status.code(), "signal": status.signal()})
}

/// Returns the raw and extrapolated counts of all parts.
fn counts(events: &[CountedEvent], table: &rprof_counting::CountTable) -> Vec<Value> {
    let mut values = Vec::new();
    for part in table.parts() {
        for (index, event) in events.iter().enumerate() {
            let Some(count) = table.count(part, index) else {
                continue;
            };
            values.push(json!({
                "event": event.name,
                "part": part_name(part),
                "value": count.value(),
                "exact": count.is_exact(),
                "share": count.share(),
                "raw": count.raw,
                "enabled_ns": count.enabled,
                "running_ns": count.running,
                "failure": count.failure.map(|failure| failure.to_string()),
            }));
        }
    }
    values
}

fn summary_value(row: &Row) -> Value {
    let (factor, unit) = match &row.unit {
        Unit::Time => (1e-9, "s".to_owned()),
        Unit::Bytes => (1.0, "B".to_owned()),
        Unit::Count | Unit::Metric(_) => (1.0, String::new()),
        Unit::Scaled(factor, unit) => (*factor, unit.clone()),
    };
    let numbers: Vec<f64> = row
        .numbers()
        .unwrap_or_default()
        .iter()
        .map(|n| n * factor)
        .collect();
    let summary = RunSummary::of(&numbers);
    let of = |field: fn(&RunSummary) -> Option<f64>| summary.as_ref().and_then(field);
    json!({
        "name": row.name,
        "unit": unit,
        "runs": summary.map(|summary| summary.runs),
        "mean": of(|s| Some(s.mean)),
        "median": of(|s| Some(s.median)),
        "standard_deviation": of(|s| s.standard_deviation),
        "standard_error": of(|s| s.standard_error),
        "min": of(|s| Some(s.min)),
        "max": of(|s| Some(s.max)),
        "lowest_share": row.lowest_share(),
        "outliers": outliers(&numbers),
    })
}

fn comparison_value(comparison: &Comparison) -> Value {
    let rows: Vec<Value> = (comparison.lines.iter())
        .map(|line| {
            let tested = line.compared.map(|(compared, verdict)| {
                let interval = compared.confidence_interval(CONFIDENCE);
                json!({
                    "ratio": compared.ratio(),
                    "low": interval.low,
                    "high": interval.high,
                    "p": compared.p(),
                    "degrees_of_freedom": compared.degrees_of_freedom,
                    "smallest_visible": compared.smallest_visible(0.05, 0.8),
                    "verdict": word(&compared, verdict),
                })
            });
            json!({
                "name": line.name,
                "tested": tested,
                "why_not": line.compared.is_none().then(|| line.verdict.clone()).filter(|why| !why.is_empty()),
            })
        })
        .collect();
    let limits: Vec<Value> = (comparison.limits.iter())
        .map(|limit| {
            let judged = match limit.judged {
                Judged::Passed => "passed",
                Judged::Failed => "failed",
                Judged::Inconclusive => "inconclusive",
            };
            json!({
                "name": limit.name,
                "above": limit.share,
                "result": judged,
                "verdict": limit.compared.map(|(compared, verdict)| word(&compared, verdict)),
            })
        })
        .collect();
    json!({"design": "paired", "rows": rows, "limits": limits})
}

//! The top functions and the verdict as JSON. The format is stable: releases only add fields.

use std::collections::BTreeMap;
use std::io::{self, Write};

use rprof_profile::Profile;
use serde::Serialize;

use crate::names::{CleanName, CleanNames};
use crate::options::ReportOptions;
use crate::rows::{COMM, ReportRow, ReportRows, rows, title};
use crate::tree::{TreeEntry, entries};

#[derive(Serialize)]
struct Report<'p> {
    version: u32,
    events: Vec<Event<'p>>,
    quality: Quality<'p>,
}

#[derive(Serialize)]
struct Event<'p> {
    name: CleanName<'p>,
    weight_total: u64,
    samples: u64,
    lost: u64,
    rows: Vec<JsonRow<'p>>,
}

#[derive(Serialize)]
struct JsonRow<'p> {
    #[serde(skip_serializing_if = "Option::is_none")]
    comm: Option<CleanName<'p>>,
    /// Value of the request's attribute, by the name of the attribute.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    by: BTreeMap<&'p str, CleanName<'p>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<CleanName<'p>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    symbol: Option<CleanName<'p>>,
    /// True if the symbol is an address: see `rprof_profile::Function::located`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    located: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<CleanName<'p>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    srcline: Option<CleanName<'p>>,
    #[serde(rename = "self")]
    own: u64,
    /// Absent if the options exclude callers.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    self_samples: u64,
    /// Callers or callees in preorder, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    tree: Option<Vec<TreeEntry>>,
}

#[derive(Serialize)]
struct Quality<'p> {
    stacks: Stacks,
    frames: Frames,
    lost: u64,
    throttled: u64,
    /// True if the code of interpreters is folded into the functions that it runs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    by_language: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_time: Option<CpuTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency: Option<Latency>,
    warnings: Vec<CleanName<'p>>,
}

/// In nanoseconds. Unknown values are absent.
#[derive(Serialize)]
struct CpuTime {
    used: u128,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampled: Option<u128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wall: Option<u128>,
    period: u128,
    tasks: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<u128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttled: Option<u128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<u128>,
}

/// In nanoseconds: see `rprof_profile::LatencyTally`.
#[derive(Serialize)]
struct Latency {
    used: u64,
    ran: u64,
    waited: u64,
}

#[derive(Serialize)]
struct Stacks {
    total: u64,
    complete: u64,
    truncated: u64,
    no_unwind_info: u64,
    other: u64,
}

#[derive(Serialize)]
struct Frames {
    total: u64,
    named: u64,
    located: u64,
    unnamed_by_reason: BTreeMap<&'static str, u64>,
}

/// Writes one JSON object and a newline. Omits events without samples, unless all are empty.
///
/// # Errors
/// Fails if the writer does.
pub fn write(profile: &Profile, options: &ReportOptions, out: &mut dyn Write) -> io::Result<()> {
    let (q, names) = (&profile.quality, CleanNames::new(profile));
    let none = profile.main_event().is_none();
    let key = profile.request_key.as_ref().map(|_| title(profile, COMM));
    let key = key.as_deref();
    let events = (profile.events.iter().enumerate())
        .filter(|(_, event)| event.samples > 0 || none)
        .map(|(index, event)| {
            let ReportRows { whole, rows, .. } = rows(profile, index, &options.rows);
            Event {
                name: names.event(index),
                weight_total: whole,
                samples: event.samples,
                lost: event.lost,
                rows: (rows.into_iter())
                    .map(|mut row: ReportRow<'_>| JsonRow {
                        by: key
                            .zip(row.comm.take_if(|_| key.is_some()))
                            .into_iter()
                            .collect(),
                        comm: row.comm,
                        pid: row.top.key.pid,
                        tid: row.top.key.tid,
                        state: row.state,
                        language: row.language,
                        located: (row.top.key.function)
                            .is_some_and(|id| profile.function(id).located.is_some()),
                        symbol: row.symbol,
                        object: row.object,
                        srcline: row.line,
                        own: row.top.self_weight,
                        total: (!options.rows.without_total).then_some(row.top.total_weight),
                        self_samples: row.top.self_samples,
                        tree: (row.tree.zip(options.rows.trees))
                            .map(|(tree, trees)| entries(profile, &tree, whole, &trees)),
                    })
                    .collect(),
            }
        })
        .collect();
    let report = Report {
        version: 1,
        events,
        quality: Quality {
            stacks: Stacks {
                total: q.stacks.total,
                complete: q.stacks.complete,
                truncated: q.stacks.truncated,
                no_unwind_info: q.stacks.no_unwind_info,
                other: q.stacks.other,
            },
            frames: Frames {
                total: q.frames,
                named: q.named,
                located: q.located,
                unnamed_by_reason: q.unnamed.iter().map(|(r, n)| (r.key(), *n)).collect(),
            },
            lost: q.lost,
            throttled: q.throttled,
            by_language: q.is_by_language,
            cpu_time: q.cpu_time.map(|time| CpuTime {
                used: time.used.as_nanos(),
                sampled: time.sampled.map(|sampled| sampled.as_nanos()),
                wall: time.wall.map(|wall| wall.as_nanos()),
                period: time.period.as_nanos(),
                tasks: time.tasks,
                waiting: time.waiting.map(|waiting| waiting.as_nanos()),
                throttled: time.throttled.map(|throttled| throttled.as_nanos()),
                stopped: time.stopped.map(|stopped| stopped.as_nanos()),
            }),
            latency: q.latency.map(|tally| Latency {
                used: tally.used,
                ran: tally.ran,
                waited: tally.waited,
            }),
            warnings: names.warnings().collect(),
        },
    };
    serde_json::to_writer_pretty(&mut *out, &report).map_err(io::Error::from)?;
    writeln!(out)
}

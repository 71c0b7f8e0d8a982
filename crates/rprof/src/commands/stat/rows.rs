//! Quantities with their value in each run: metrics, time and memory, events.

use std::time::Duration;

use rprof_counting::metrics::Counted;
use rprof_counting::session::CountedEvent;
use rprof_counting::{Count, MetricUnit, Part, Per, metrics};
use rprof_launch::ResourceUsage;
use rprof_records::EventKind;

use super::run::Run;
use super::runs::Side;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Unit {
    Time,
    Bytes,
    Count,
    /// Counts times a factor, with a unit.
    Scaled(f64, String),
    Metric(MetricUnit),
}

/// Value of a quantity in one run, in the row's unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Value {
    pub(super) number: f64,
    /// Share of the time that it was counted; below 1 the number is extrapolated.
    pub(super) share: f64,
    pub(super) is_exact: bool,
}

impl Value {
    fn exact(number: f64) -> Value {
        Value {
            number,
            share: 1.0,
            is_exact: true,
        }
    }
}

/// A quantity in all runs of a side.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) unit: Unit,
    /// Smallest step of its values.
    pub(super) resolution: f64,
    pub(super) values: Vec<Option<Value>>,
    /// True if compared. Other quantities derive from compared ones.
    pub(super) is_compared: bool,
}

impl Row {
    /// Returns the numbers of all runs; `None` if one is missing.
    pub(super) fn numbers(&self) -> Option<Vec<f64>> {
        let numbers = self.values.iter().map(|value| Some((*value)?.number));
        numbers.collect()
    }

    /// Returns the lowest counted share over the runs; `None` if no value is extrapolated.
    pub(super) fn lowest_share(&self) -> Option<f64> {
        let estimates = self.values.iter().flatten().filter(|value| !value.is_exact);
        estimates.map(|value| value.share).reduce(f64::min)
    }

    fn is_empty(&self) -> bool {
        self.values.iter().all(Option::is_none)
    }
}

/// Name of the CPU time row, which limits use by default.
pub(super) const CPU: &str = "cpu";

pub(super) fn rows(side: &Side) -> Vec<Row> {
    let mut rows = metric_rows(side);
    rows.extend(resource_rows(side));
    for (index, event) in side.events.iter().enumerate() {
        let mut row = event_row(event);
        row.values = (side.runs.iter())
            .map(|run| value_of(event, count_of(run, Part::All, index)))
            .collect();
        rows.push(row);
    }
    rows.retain(|row| !row.is_empty());
    rows
}

pub(super) fn event_row(event: &CountedEvent) -> Row {
    let unit = match event.event.scale() {
        Some(scale) => Unit::Scaled(scale.factor(), scale.unit().to_owned()),
        None if is_clock(event) => Unit::Time,
        None => Unit::Count,
    };
    Row {
        name: event.name.clone(),
        unit,
        resolution: 1.0,
        values: Vec::new(),
        is_compared: true,
    }
}

/// Returns true for `cpu-clock` and `task-clock`, which count nanoseconds.
fn is_clock(event: &CountedEvent) -> bool {
    event.event.kind() == EventKind::SOFTWARE && event.event.config() < 2
}

fn count_of(run: &Run, part: Part, event: usize) -> Option<Count> {
    run.counts.table(Per::All).count(part, event)
}

/// Returns the value of a count; `None` if the event was not counted for long enough.
pub(super) fn value_of(event: &CountedEvent, count: Option<Count>) -> Option<Value> {
    let count = count.filter(|_| event.state.is_counted())?;
    Some(Value {
        number: count.value()? as f64,
        share: count.share(),
        is_exact: count.is_exact(),
    })
}

pub(super) fn metrics_of(
    events: &[CountedEvent],
    counts: &[Option<Count>],
    wall: Duration,
) -> Vec<rprof_counting::Metric> {
    let counted: Vec<Counted<'_>> = (events.iter().zip(counts))
        .map(|(event, count)| (&event.event, *count))
        .collect();
    metrics(&counted, Some(wall))
}

fn metric_rows(side: &Side) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (number, run) in side.runs.iter().enumerate() {
        let table = run.counts.table(Per::All);
        let counts: Vec<Option<Count>> = (0..side.events.len())
            .map(|event| table.count(Part::All, event))
            .collect();
        for metric in metrics_of(&side.events, &counts, run.wall) {
            let known = rows.iter_mut().find(|row| row.name == metric.name);
            let value = Value {
                is_exact: !metric.is_estimate,
                ..Value::exact(metric.value)
            };
            match known {
                Some(row) => row.values[number] = Some(value),
                None => {
                    let mut values = vec![None; side.runs.len()];
                    values[number] = Some(value);
                    rows.push(Row {
                        name: metric.name,
                        unit: Unit::Metric(metric.unit),
                        resolution: 0.0,
                        values,
                        is_compared: false,
                    });
                }
            }
        }
    }
    rows
}

/// Resource from wait4(2): name, unit, smallest step, whether it is compared, value.
type Resource = (&'static str, Unit, f64, bool, fn(&ResourceUsage) -> f64);

/// Returns time and memory, and the counts of wait4(2) that replace uncounted events.
fn resource_rows(side: &Side) -> Vec<Row> {
    let nanoseconds = |time: Duration| time.as_nanos() as f64;
    let mut rows = vec![Row {
        name: "wall".to_owned(),
        unit: Unit::Time,
        resolution: 1.0,
        values: (side.runs.iter())
            .map(|run| Some(Value::exact(nanoseconds(run.wall))))
            .collect(),
        is_compared: true,
    }];
    // rusage has microseconds.
    const STEP: f64 = 1e3;
    let resources: [Resource; 4] = [
        ("user", Unit::Time, STEP, false, |usage| {
            usage.user.as_nanos() as f64
        }),
        ("system", Unit::Time, STEP, false, |usage| {
            usage.system.as_nanos() as f64
        }),
        (CPU, Unit::Time, STEP, true, |usage| {
            (usage.user + usage.system).as_nanos() as f64
        }),
        ("max RSS", Unit::Bytes, 1024.0, true, |usage| {
            usage.max_rss as f64
        }),
    ];
    let instead: [Resource; 2] = [
        ("page-faults", Unit::Count, 1.0, true, |usage| {
            (usage.minor_faults + usage.major_faults) as f64
        }),
        ("context-switches", Unit::Count, 1.0, true, |usage| {
            (usage.voluntary_switches + usage.involuntary_switches) as f64
        }),
    ];
    let is_uncounted = |name: &str| {
        let mut events = side.events.iter();
        events.any(|event| event.event.name() == name && !event.state.is_counted())
    };
    let instead = instead.into_iter().filter(|(name, ..)| is_uncounted(name));
    for (name, unit, resolution, is_compared, of) in resources.into_iter().chain(instead) {
        rows.push(Row {
            name: name.to_owned(),
            unit,
            resolution,
            values: (side.runs.iter())
                .map(|run| run.usage.as_ref().map(|usage| Value::exact(of(usage))))
                .collect(),
            is_compared,
        });
    }
    rows
}

//! [`Metric`]: ratios of counts.

use crate::count::Count;
use rprof_events::{Event, Modifiers};
use std::time::Duration;

/// Unit of a metric's value, which decides how it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetricUnit {
    /// Dimensionless number.
    Plain,
    /// Share: 0.01 is 1 %.
    Share,
    /// Billions per second.
    Gigahertz,
}

/// Ratio of counts over the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Name, such as `instructions per cycle`.
    pub name: String,
    /// The value, in `unit`.
    pub value: f64,
    /// The unit of `value`.
    pub unit: MetricUnit,
    /// True if it is based on an extrapolated count.
    pub is_estimate: bool,
}

/// Event, with its count in one part of a target.
pub type Counted<'a> = (&'a Event, Option<Count>);

/// Shares of failures: name, failures, all attempts. Cache events follow another rule.
const SHARES: [(&str, &str, &str); 2] = [
    ("branches mispredicted", "branch-misses", "branches"),
    (
        "cache references missed",
        "cache-misses",
        "cache-references",
    ),
];

/// Categories of pipeline slots and the names of Intel's events (Yasin, *A Top-Down Method for
/// Performance Analysis*, ISPASS 2014, level 1).
const TOP_DOWN: [(&str, &str); 4] = [
    ("top-down: retiring", "topdown-retiring"),
    ("top-down: bad speculation", "topdown-bad-spec"),
    ("top-down: front end bound", "topdown-fe-bound"),
    ("top-down: back end bound", "topdown-be-bound"),
];

/// Metric with a short name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedMetric {
    /// Name on the command line.
    pub name: &'static str,
    /// Required events, as an event list.
    pub events: &'static str,
}

impl NamedMetric {
    /// Named metrics, in the order of the output.
    pub const ALL: &'static [NamedMetric] = &[
        NamedMetric::new("cpus", "task-clock"),
        NamedMetric::new("ipc", "cycles,instructions"),
        NamedMetric::new("clock", "cycles,task-clock"),
        NamedMetric::new("branch-misses", "branches,branch-misses"),
        NamedMetric::new("cache-misses", "cache-references,cache-misses"),
        NamedMetric::new("l1d-misses", "L1-dcache-loads,L1-dcache-load-misses"),
        NamedMetric::new("llc-misses", "LLC-loads,LLC-load-misses"),
        NamedMetric::new("dtlb-misses", "dTLB-loads,dTLB-load-misses"),
        NamedMetric::new("itlb-misses", "iTLB-loads,iTLB-load-misses"),
        NamedMetric::new("topdown", TOP_DOWN_EVENTS),
    ];

    const fn new(name: &'static str, events: &'static str) -> NamedMetric {
        NamedMetric { name, events }
    }

    /// Finds a metric by its name.
    pub fn find(name: &str) -> Option<&'static NamedMetric> {
        NamedMetric::ALL.iter().find(|metric| metric.name == name)
    }
}

/// Events of top-down analysis on Intel's PMUs. `slots` must lead the group.
pub const TOP_DOWN_EVENTS: &str =
    "{slots,topdown-retiring,topdown-bad-spec,topdown-fe-bound,topdown-be-bound}:W";

/// Computes the possible metrics. `wall` is the measured wall time.
///
/// Both sides of a ratio have the same modifiers and the same kind of core. Otherwise the ratio
/// would be meaningless.
pub fn metrics(counts: &[Counted<'_>], wall: Option<Duration>) -> Vec<Metric> {
    let known: Vec<Known<'_>> = counts.iter().filter_map(Known::of).collect();
    let mut found = Vec::new();
    if let (Some(clock), Some(wall)) = (processor_time(&known), wall.filter(|wall| !wall.is_zero()))
    {
        found.push(Metric {
            name: "CPUs used".to_owned(),
            value: clock.value / wall.as_nanos() as f64,
            unit: MetricUnit::Plain,
            is_estimate: clock.is_estimate,
        });
    }
    for cycles in known.iter().filter(|known| known.name == "cycles") {
        let instructions = cycles.beside(&known, "instructions");
        found.extend(quotient(
            cycles,
            "instructions per cycle",
            MetricUnit::Plain,
            instructions,
            Some(cycles),
        ));
        // The clock runs in user and kernel mode.
        if let (Some(clock), true) = (
            processor_time(&known),
            cycles.modifiers.is_empty() && cycles.kind.is_empty(),
        ) {
            found.extend(quotient(
                cycles,
                "clock",
                MetricUnit::Gigahertz,
                Some(cycles),
                Some(clock),
            ));
        }
    }
    for missed in &known {
        if let Some((name, of)) = share_of(missed.name) {
            let all = missed.beside(&known, &of);
            found.extend(quotient(
                missed,
                &name,
                MetricUnit::Share,
                Some(missed),
                all,
            ));
        }
    }
    found.extend(top_down(&known));
    found
}

/// Returns the name of a share, and the event of the whole.
fn share_of(name: &str) -> Option<(String, String)> {
    if let Some((share, _, all)) = SHARES.iter().find(|(_, missed, _)| *missed == name) {
        return Some(((*share).to_owned(), (*all).to_owned()));
    }
    // L1-dcache-load-misses of L1-dcache-loads; similarly for stores and prefetches.
    let all = name.strip_suffix("-misses")?;
    let plural = match all.ends_with("-prefetch") {
        true => format!("{all}es"),
        false => format!("{all}s"),
    };
    let is_cache = all.ends_with("-load") || all.ends_with("-store") || all.ends_with("-prefetch");
    is_cache.then(|| (format!("{plural} missed"), plural))
}

fn top_down(known: &[Known<'_>]) -> Vec<Metric> {
    let parts: Vec<(&str, &Known<'_>)> = (TOP_DOWN.iter())
        .filter_map(|(name, event)| Some((*name, known.iter().find(|k| k.name == *event)?)))
        .collect();
    let total: f64 = parts.iter().map(|(_, part)| part.value).sum();
    // The shares need all four counts.
    if parts.len() < TOP_DOWN.len() || total <= 0.0 {
        return Vec::new();
    }
    let is_estimate = parts.iter().any(|(_, part)| part.is_estimate);
    (parts.into_iter())
        .map(|(name, part)| Metric {
            name: name.to_owned(),
            value: part.value / total,
            unit: MetricUnit::Share,
            is_estimate,
        })
        .collect()
}

struct Known<'a> {
    /// Name without PMU and modifiers.
    name: &'a str,
    /// Kind of core, such as `cpu_atom`; empty if there is only one.
    kind: &'a str,
    modifiers: Modifiers,
    value: f64,
    is_estimate: bool,
}

impl<'a> Known<'a> {
    fn of((event, count): &Counted<'a>) -> Option<Known<'a>> {
        let count = (*count)?;
        let full = event.name();
        let (kind, name) = match full.strip_suffix('/').and_then(|name| name.split_once('/')) {
            Some((pmu, name)) if pmu.starts_with("cpu_") => (pmu, name),
            Some(("cpu", name)) => ("", name),
            _ => ("", full),
        };
        Some(Known {
            name,
            kind,
            modifiers: event.modifiers(),
            value: count.value()? as f64,
            is_estimate: !count.is_exact(),
        })
    }

    /// Finds another event with the same kind of core and modifiers.
    fn beside<'k>(&self, known: &'k [Known<'a>], name: &str) -> Option<&'k Known<'a>> {
        let is_same = |other: &&Known<'_>| {
            other.name == name && other.kind == self.kind && other.modifiers == self.modifiers
        };
        known.iter().find(is_same)
    }
}

fn processor_time<'k, 'a>(known: &'k [Known<'a>]) -> Option<&'k Known<'a>> {
    known.iter().find(|known| known.name == "task-clock")
}

fn quotient(
    of: &Known<'_>,
    name: &str,
    unit: MetricUnit,
    above: Option<&Known<'_>>,
    below: Option<&Known<'_>>,
) -> Option<Metric> {
    let (above, below) = (above?, below.filter(|below| below.value > 0.0)?);
    let side = match of.modifiers.is_empty() {
        true => String::new(),
        false => of.modifiers.to_string(),
    };
    let kind = match of.kind {
        "" => String::new(),
        kind => format!(" ({kind})"),
    };
    Some(Metric {
        name: format!("{name}{side}{kind}"),
        value: above.value / below.value,
        unit,
        is_estimate: above.is_estimate || below.is_estimate,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_perf_event::Reading;

    fn count(value: u64, running: u64) -> Option<Count> {
        let mut count = Count::default();
        count.add(Ok(Reading {
            value,
            enabled: Some(100),
            running: Some(running),
            ..Reading::default()
        }));
        Some(count)
    }

    fn of(list: &str, counts: &[Option<Count>]) -> Vec<(String, f64, bool)> {
        let events = Event::parse_list(list).unwrap();
        let counted: Vec<Counted<'_>> = events.iter().zip(counts.iter().copied()).collect();
        let found = metrics(&counted, Some(Duration::from_nanos(2_000)));
        (found.into_iter())
            .map(|metric| {
                (
                    metric.name,
                    (metric.value * 1e6).round() / 1e6,
                    metric.is_estimate,
                )
            })
            .collect()
    }

    #[test]
    fn counts_of_one_time_make_ratios() {
        let list = "task-clock,cycles,instructions,branches,branch-misses,L1-dcache-loads,L1-dcache-load-misses";
        let values = [1_000, 3_000, 4_500, 400, 10, 200, 50];
        let found = of(list, &values.map(|value| count(value, 100)));
        let expected = [
            ("CPUs used", 0.5),
            ("instructions per cycle", 1.5),
            ("clock", 3.0),
            ("branches mispredicted", 0.025),
            ("L1-dcache-loads missed", 0.25),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value, false));
        assert_eq!(found, expected);
    }

    #[test]
    fn what_was_extrapolated_is_marked_and_what_was_not_counted_makes_nothing() {
        let found = of("cycles,instructions", &[count(100, 100), count(50, 50)]);
        assert_eq!(found, [("instructions per cycle".to_owned(), 1.0, true)]);
        assert_eq!(
            of("cycles,instructions", &[count(100, 100), count(50, 1)]),
            []
        );
        assert_eq!(
            of("cycles,instructions", &[count(0, 100), count(50, 100)]),
            []
        );
        assert_eq!(of("cycles,instructions", &[None, count(50, 100)]), []);
    }

    #[test]
    fn sides_are_not_mixed() {
        let full = count(100, 100);
        assert_eq!(of("cycles:u,instructions", &[full, full]), []);
        let found = of("cycles:u,instructions:u,task-clock", &[full, full, full]);
        let names: Vec<&str> = found.iter().map(|(name, ..)| &name[..]).collect();
        // No frequency: the clock includes kernel mode.
        assert_eq!(names, ["CPUs used", "instructions per cycle:u"]);
    }

    #[test]
    fn top_down_has_four_parts_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let pmu = folder.path().join("cpu");
        std::fs::create_dir_all(pmu.join("events")).unwrap();
        std::fs::create_dir_all(pmu.join("format")).unwrap();
        std::fs::write(pmu.join("type"), "4\n").unwrap();
        std::fs::write(pmu.join("format/event"), "config:0-7\n").unwrap();
        let names = [
            "slots",
            "topdown-retiring",
            "topdown-bad-spec",
            "topdown-fe-bound",
            "topdown-be-bound",
        ];
        for name in names {
            std::fs::write(pmu.join("events").join(name), "event=0x00\n").unwrap();
        }
        let parser = rprof_events::EventParser::new().pmus(folder.path());
        let events = parser.parse_list(&names.join(",")).unwrap();
        let values = [1_000, 400, 100, 200, 300].map(|value| count(value, 100));
        let counted: Vec<Counted<'_>> = events.iter().zip(values).collect();
        let found = metrics(&counted, None);
        let shares: Vec<f64> = found.iter().map(|metric| metric.value).collect();
        assert_eq!(shares, [0.4, 0.1, 0.2, 0.3]);
        assert_eq!(found[0].name, "top-down: retiring");
        assert_eq!(metrics(&counted[..4], None), []);
    }

    #[test]
    fn each_named_metric_comes_of_its_events() {
        for metric in NamedMetric::ALL
            .iter()
            .filter(|metric| metric.name != "topdown")
        {
            let values = [1_000, 500].map(|value| count(value, 100));
            let found = of(
                metric.events,
                &values[..1 + metric.events.matches(',').count()],
            );
            assert!(!found.is_empty(), "{}", metric.name);
            assert_eq!(NamedMetric::find(metric.name), Some(metric));
        }
        assert_eq!(NamedMetric::find("speed"), None);
    }
}

//! Converts sample types to events.

use rprof_profile::WeightUnit;

use super::parts::{Parts, numbers};
use crate::collector::Collector;

/// Event of one or two sample types: indices of count and weight in a sample's values.
pub(super) struct EventOf {
    pub(super) samples: Option<usize>,
    pub(super) weight: usize,
    /// Factor to nanoseconds, if the weight is a time.
    pub(super) factor: u64,
    pub(super) event: usize,
}

/// Creates events for the sample types, the default one first.
pub(super) fn events(parts: &Parts<'_>, out: &mut Collector<'_>) -> Result<Vec<EventOf>, String> {
    let mut types = Vec::new();
    for message in &parts.sample_types {
        let [_, name, unit] = numbers(message)?;
        let (title, unit) = (parts.string(name)?, parts.string(unit)?);
        out.hold(title.len() + unit.len())?;
        types.push((name, title, unit));
    }
    let is_count = |at: usize| {
        let (_, name, unit) = &types[at];
        unit == "count"
            && (name == "samples" || name.ends_with("_samples") || name.ends_with("_sample"))
    };
    // Indices of count and weight.
    let mut places: Vec<(Option<usize>, usize)> = Vec::new();
    let mut at = 0;
    while at < types.len() {
        let is_pair = is_count(at) && at + 1 < types.len() && !is_count(at + 1);
        places.push(match is_pair {
            true => (Some(at), at + 1),
            false => (is_count(at).then_some(at), at),
        });
        at += 1 + usize::from(is_pair);
    }
    let default = match parts.default_type {
        // pprof's default is the last one.
        0 => places.len() - 1,
        wanted => {
            let is_it = |(samples, weight): &(Option<usize>, usize)| {
                types[*weight].0 == wanted || samples.is_some_and(|at| types[at].0 == wanted)
            };
            places.iter().position(is_it).unwrap_or(0)
        }
    };
    places.rotate_left(default);
    let event = |(samples, weight): (Option<usize>, usize)| {
        let (_, name, unit) = &types[weight];
        let (factor, unit) = match &**unit {
            "nanoseconds" => (1, WeightUnit::Nanoseconds),
            "microseconds" => (1_000, WeightUnit::Nanoseconds),
            "milliseconds" => (1_000_000, WeightUnit::Nanoseconds),
            "seconds" => (1_000_000_000, WeightUnit::Nanoseconds),
            "bytes" => (1, WeightUnit::Bytes),
            "count" if is_count(weight) => (1, WeightUnit::Samples),
            "count" | "" => (1, WeightUnit::Named((**name).into())),
            unit => (1, WeightUnit::Named(unit.into())),
        };
        EventOf {
            samples,
            weight,
            factor,
            event: out.event(name, unit),
        }
    };
    Ok(places.into_iter().map(event).collect())
}

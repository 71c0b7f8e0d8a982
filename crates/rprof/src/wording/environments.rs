//! Environments of recordings, which must match for a comparison.

use rprof_export::diff::Environment;
use rprof_perfdata::{Feature, PerfData};
use rprof_profile::compare::Work;
use rprof_profile::memory::is_of_memory;

use crate::wording::recording_facts;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RecordedOn {
    cpu: Option<String>,
    cpus: Option<String>,
    kernel: Option<String>,
    /// Seconds from the first to the last sample; `None` if a command's exit ended the recording,
    /// and for memory.
    seconds: Option<f64>,
}

impl RecordedOn {
    pub(crate) fn of(data: &PerfData) -> RecordedOn {
        let features = data.features();
        // Memory in use is a state, no rate.
        let is_memory = (data.events().list().first()).is_some_and(|e| is_of_memory(&e.name));
        let seconds = (features.sample_time()).filter(|(first, last)| last > first);
        RecordedOn {
            cpu: features.string(Feature::CPUDESC),
            cpus: features.cpu_counts().map(|(_, online)| online.to_string()),
            kernel: features.string(Feature::OSRELEASE),
            seconds: seconds
                .filter(|_| !is_memory && !recording_facts::is_of_command(data))
                .map(|(first, last)| (last - first) as f64 / 1e9),
        }
    }

    /// Returns the environments of a side, without duplicates.
    pub(crate) fn environments(machines: &[RecordedOn]) -> Vec<Environment> {
        let mut environments: Vec<Environment> = Vec::new();
        for machine in machines {
            let environment = Environment {
                cpu: machine.cpu.clone(),
                cpus: machine.cpus.clone(),
                kernel: machine.kernel.clone(),
            };
            if !environments.contains(&environment) {
                environments.push(environment);
            }
        }
        environments
    }
}

/// Returns the reasons why the sides may not compare.
pub(crate) fn reservations(sides: [&[RecordedOn]; 2], per: Option<Work>) -> Vec<String> {
    let mut reservations = Vec::new();
    let distinct = |of: fn(&RecordedOn) -> Option<&String>| {
        let all = sides.into_iter().flatten().filter_map(of);
        let mut all: Vec<&String> = all.collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    if let [one, other, ..] = distinct(|machine| machine.cpu.as_ref())[..] {
        reservations.push(format!("processors differ ({one}; {other})"));
    }
    if let [one, other, ..] = distinct(|machine| machine.cpus.as_ref())[..] {
        reservations.push(format!("numbers of CPUs differ ({one}; {other})"));
    }
    if let [one, other, ..] = distinct(|machine| machine.kernel.as_ref())[..] {
        reservations.push(format!("kernels differ ({one}; {other})"));
    }
    let seconds = |side: &[RecordedOn]| {
        let known: Vec<f64> = side.iter().filter_map(|m| m.seconds).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    if let (Some(old), Some(new)) = (seconds(sides[0]), seconds(sides[1]))
        && per.is_none_or(|work| work == Work::Run)
        && (old / new).max(new / old) > 1.2
    {
        reservations.push(format!(
            "recorded times differ ({old:.1} s; {new:.1} s): --per second compares rates, --per \
             total shares"
        ));
    }
    reservations
}

//! Warnings about a recording, for profiles and for single samples.

use rprof_perfdata::{Feature, PerfData};
use rprof_profile::Filter;
use rprof_profile::unit::counted;
use rprof_records::SampleType;
use rprof_symbols::Symbolizer;

use crate::comms::unknown_comms;
use crate::sample_pass::results::SampleFaults;
use crate::sideband_pass::Index;

/// Returns warnings, as sentences, about all data that the output omits or changes. Complete only
/// after symbolization.
pub(crate) fn warnings(
    index: &Index<'_>,
    symbolizer: &Symbolizer,
    faults: SampleFaults,
    filter: &Filter,
) -> Vec<String> {
    let mut warnings = index.data.warnings().to_vec();
    if let Some(damage) = &index.damage {
        warnings.push(format!(
            "{} is {damage}; only the part before is shown",
            index.data.path().display()
        ));
    }
    let mut skipped = |n: u64, noun: &str, cause: &str| {
        if n > 0 {
            warnings.push(format!("skipped {}{cause}", counted(n, noun)));
        }
    };
    skipped(
        index.samples_of_unknown_events,
        "sample",
        ": the file does not describe the event",
    );
    skipped(index.unreadable, "damaged record", "");
    skipped(faults.unreadable, "damaged sample", "");
    skipped(
        symbolizer.memory().refused(),
        "file part",
        " that would take too much memory or time",
    );
    if faults.inconsistent > 0 {
        warnings.push(format!(
            "{} whose fields contradict the size: they count, but their stacks may be wrong",
            counted(faults.inconsistent, "sample")
        ));
    }
    if index.unknown.count > 0 {
        warnings.push(index.unknown.to_string());
    }
    warnings.extend(samples_without_address(index));
    // They explain nothing in a recording without samples.
    if index.events.iter().any(|tally| tally.samples > 0) {
        warnings.extend(unknown_sections(index.data));
    }
    warnings.extend(counts_only(index.data));
    if index.aux.has_gaps() {
        warnings.push(index.aux.to_string());
    }
    warnings.extend(index.runtimes.warnings());
    for comm in unknown_comms(filter, &index.timeline) {
        warnings.push(format!("the recording has no thread named {comm:?}"));
    }
    warnings
}

fn samples_without_address(index: &Index<'_>) -> impl Iterator<Item = String> {
    let addresses = SampleType::IP | SampleType::CALLCHAIN | SampleType::BRANCH_STACK;
    let events = index.data.events().list().iter().zip(&index.events);
    let without = events.filter(move |(event, tally)| {
        tally.samples > 0 && !event.attr.sample_type.intersects(addresses)
    });
    without.map(|(event, tally)| {
        let fields = match event.attr.sample_type.is_empty() {
            true => "any field",
            false => "an address",
        };
        format!(
            "{} of {} without {fields}: unknown code",
            counted(tally.samples, "sample"),
            event.name
        )
    })
}

/// Returns a warning for a file of `perf stat record`: it has counts and no samples.
fn counts_only(data: &PerfData) -> Option<String> {
    let is_of_stat = data.features().has(Feature::STAT);
    is_of_stat.then(|| {
        format!(
            "{path} has counts of `perf stat record`: `perf stat report -i {path}` shows them",
            path = data.path().display()
        )
    })
}

/// Returns a warning about header sections unknown to perf, simpleperf and rprof.
fn unknown_sections(data: &PerfData) -> Option<String> {
    /// Maximum number of section numbers listed.
    const LIMIT: usize = 4;
    let unknown = || {
        let sections = data.features().iter().map(|(feature, _)| feature);
        sections.filter(|feature| feature.name().is_none())
    };
    let numbers: Vec<String> = unknown().take(LIMIT).map(|one| one.0.to_string()).collect();
    match unknown().count() {
        0 => None,
        n => Some(format!(
            "skipped {} of unknown type ({}): from a newer recorder",
            counted(n as u64, "header section"),
            numbers.join(", ")
        )),
    }
}

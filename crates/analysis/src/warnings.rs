//! Warnings about a recording, for profiles and for single samples.

use rprof_perfdata::PerfData;
use rprof_profile::Filter;
use rprof_records::SampleType;
use rprof_symbols::Symbolizer;

use crate::comms::unknown_comms;
use crate::sample_pass::results::SampleFaults;
use crate::sideband_pass::Index;

/// Returns warnings, as sentences, about all data that the output omits or changes. All commands
/// that read recordings print them. Complete only after symbolization.
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
    let mut count = |n: u64, what: &str| {
        if n > 0 {
            warnings.push(format!("{n} {what}"));
        }
    };
    count(
        index.samples_of_unknown_events,
        "samples were skipped: the file does not describe their event",
    );
    count(index.unreadable, "damaged records were skipped");
    count(faults.unreadable, "damaged samples were skipped");
    count(
        faults.inconsistent,
        "samples have fields that contradict their size: they are counted, and their stacks may be wrong",
    );
    count(
        symbolizer.memory().refused(),
        "files, or parts of files, were skipped: they would take too much memory or time",
    );
    if index.unknown.count > 0 {
        warnings.push(index.unknown.to_string());
    }
    warnings.extend(samples_without_address(index));
    warnings.extend(unknown_sections(index.data));
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
            true => "no fields at all",
            false => "no address",
        };
        format!(
            "{} samples of {} have {fields}: their code is unknown",
            tally.samples, event.name
        )
    })
}

/// Returns a warning if the header has sections unknown to perf, simpleperf and rprof.
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
            "{n} header sections of unknown types ({}) were skipped: a newer recorder wrote them",
            numbers.join(", ")
        )),
    }
}

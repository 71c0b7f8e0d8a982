//! Warnings about a recording, shared by profiles and single samples.

use rprof_profile::Filter;
use rprof_symbols::Symbolizer;

use crate::comms::unknown_comms;
use crate::sideband_pass::Index;

/// Returns the warnings about a recording, in sentences; `unreadable` is the number of samples
/// that could not be read. Complete once the samples are symbolized.
pub(crate) fn warnings(
    index: &Index<'_>,
    symbolizer: &Symbolizer,
    unreadable: u64,
    filter: &Filter,
) -> Vec<String> {
    let mut warnings = index.data.warnings().to_vec();
    if let Some(damage) = &index.damage {
        warnings.push(format!(
            "{} is {damage}; what stands before is shown",
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
        "samples belong to no event that the file describes and are left out",
    );
    count(index.unreadable, "records are damaged and left out");
    count(unreadable, "samples are damaged and left out");
    count(
        symbolizer.memory().refused(),
        "files, or parts of them, are not read, as they would take too much memory or time",
    );
    if index.aux.has_gaps() {
        warnings.push(index.aux.to_string());
    }
    warnings.extend(index.runtimes.warnings());
    for comm in unknown_comms(filter, &index.timeline) {
        warnings.push(format!("no thread of the recording is called {comm:?}"));
    }
    warnings
}

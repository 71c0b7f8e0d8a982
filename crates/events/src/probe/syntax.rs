//! The four types of probes, and their PMUs.

use super::place;
use crate::error::EventError;
use crate::event::{Event, EventDetail};
use crate::pmu::Pmu;
use crate::sources::Sources;

/// Prefix, PMU, and true for return probes.
const KINDS: [(&str, &str, bool); 4] = [
    ("uprobe:", "uprobe", false),
    ("uretprobe:", "uprobe", true),
    ("kprobe:", "kprobe", false),
    ("kretprobe:", "kprobe", true),
];

pub(crate) fn is_probe(text: &str) -> bool {
    KINDS.iter().any(|(start, ..)| text.starts_with(start))
}

pub(crate) fn parse(text: &str, sources: &Sources<'_>) -> Result<Event, EventError> {
    let wrong = |why| EventError::Syntax {
        event: text.to_owned(),
        why,
    };
    let Some((at, pmu_name, on_return)) = KINDS
        .iter()
        .find_map(|(start, pmu, on_return)| Some((text.strip_prefix(start)?, *pmu, *on_return)))
    else {
        return Err(wrong("it is not a probe"));
    };
    let pmu = Pmu::open(&sources.pmus, pmu_name).ok_or_else(|| EventError::NoProbes {
        event: text.to_owned(),
        pmu: pmu_name,
        sources: sources.pmus.display().to_string(),
    })?;
    let (target, offset) = match pmu_name {
        "uprobe" => place::of_program(text, at, sources)?,
        _ => place::of_kernel(text, at)?,
    };
    let mut event = Event::numbered(text, pmu.kind(), 0);
    event.config[2] = offset;
    if on_return {
        // From sysfs, or the lowest bit as in all kernels since 4.17.
        let bit = pmu
            .format("retprobe")
            .and_then(|f| Some((f.word, f.encode(1)?)));
        let (word, bit) = bit.unwrap_or((0, 1));
        event.config[word] |= bit;
    }
    event.detail = EventDetail::Probe(target);
    Ok(event)
}

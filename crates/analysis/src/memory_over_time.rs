//! [`OverTime`]: memory in use at any time of a recording of memory.
//!
//! Such a recording has its moments as events, and snapshots as two events of changes. A change's
//! address is the time of its snapshot. Its own time is one when its code was mapped.

use std::borrow::Cow;

use rprof_jit::InterpretedNames;
use rprof_perfdata::features::embedded::compress;
use rprof_perfdata::{EmbeddedFile, EmbeddedKind, PerfData};
use rprof_profile::Profile;
use rprof_profile::memory::{
    FIRST_FRAMES, GROWTH, HEAP, RELEASE, RESIDENT, is_of_memory_over_time,
};
use rprof_records::{RecordType, Sample};

use crate::options::{MemoryOptions, MemoryTime, Options};

/// Returns the times of the first and last snapshot, in nanoseconds of the recording's clock.
fn snapshot_times(data: &PerfData) -> Option<(u64, u64)> {
    let events = data.events();
    let mut times: Option<(u64, u64)> = None;
    for block in data.blocks().map_while(Result::ok) {
        for walked in block.walk() {
            let record = walked.record;
            if record.kind != RecordType::SAMPLE {
                continue;
            }
            let event = events
                .of_sample(&record)
                .and_then(|at| events.list().get(at));
            let Some(event) = event.filter(|event| is_of_memory_over_time(&event.name)) else {
                continue;
            };
            let sample = Sample::parse(record.body, &event.layout).ok();
            if let Some(time) = sample.and_then(|sample| sample.addr()) {
                let (first, last) = times.unwrap_or((time, time));
                times = Some((first.min(time), last.max(time)));
            }
        }
    }
    times
}

fn has_changes(data: &PerfData) -> bool {
    let mut events = data.events().list().iter();
    events.any(|event| is_of_memory_over_time(&event.name))
}

/// Choice of events, and the step after the analysis.
pub(crate) struct OverTime(MemoryOptions);

impl OverTime {
    pub(crate) fn choose(data: &PerfData, options: &mut Options) -> OverTime {
        if !has_changes(data) {
            return OverTime(MemoryOptions::Moments);
        }
        let filter = &mut options.filter;
        let wants_end = [RESIDENT, HEAP].iter().any(|name| filter.wants_event(name));
        // A killed recorder has written changes, but no moments.
        let memory = match options.memory {
            MemoryOptions::Moments if wants_end && data.features().is_unfinished() => {
                MemoryOptions::At(None, MemoryTime::BeforeEnd(0))
            }
            memory => memory,
        };
        let names = || data.events().list().iter().map(|event| &*event.name);
        let changes = [GROWTH, RELEASE].map(str::to_owned);
        match memory {
            MemoryOptions::Moments if filter.events.is_empty() => {
                let moments = names().filter(|name| !is_of_memory_over_time(name));
                filter.events = moments.map(str::to_owned).collect();
            }
            MemoryOptions::Moments => {}
            MemoryOptions::At(from, to) => {
                let times = snapshot_times(data).unwrap_or_default();
                // Memory that was in use at `from` was gained until then.
                let from = from.map_or(0, |from| from.resolve(times).saturating_add(1));
                filter.time = Some((from, to.resolve(times)));
                filter.events = changes.into();
                options.streams = false;
            }
            MemoryOptions::OverTime => {
                let others = names().filter(|name| ![RESIDENT, HEAP].contains(name));
                let wanted = others.filter(|name| filter.wants_event(name));
                let mut wanted: Vec<String> = wanted.map(str::to_owned).collect();
                if wants_end {
                    wanted.extend(changes);
                }
                filter.events = wanted;
            }
        }
        OverTime(memory)
    }

    pub(crate) fn settle(self, profile: &mut Profile) {
        if self.0 == MemoryOptions::Moments {
            return;
        }
        profile.settle_memory();
        if let (MemoryOptions::At(..), Some((_, last))) = (self.0, profile.time) {
            profile.memory_as_of(last);
        }
    }
}

/// Returns the embedded files of a recording. A killed recorder of memory wrote no names of frames.
/// But it numbers [`FIRST_FRAMES`] first, so these processes get a perf map of them.
pub(crate) fn embedded_files(
    data: &PerfData,
    pids: impl Iterator<Item = i32>,
) -> Vec<EmbeddedFile<'_>> {
    let mut files = data.features().embedded_files().unwrap_or_default();
    if !data.features().is_unfinished() || !has_changes(data) {
        return files;
    }
    let names = InterpretedNames::default();
    let addresses: Vec<u64> = (FIRST_FRAMES.iter())
        .filter_map(|name| names.address_of(name))
        .collect();
    names.mark_used(0, &addresses);
    let text = names.perf_map(0);
    let Ok(compressed) = compress(&text) else {
        return files;
    };
    files.extend(pids.map(|pid| EmbeddedFile {
        kind: EmbeddedKind::PERF_MAP,
        pid,
        since: 0,
        device: (0, 0),
        inode: 0,
        build_id: Cow::Borrowed(&[]),
        path: Cow::Borrowed(b"[memory]"),
        len: text.len() as u64,
        compressed: Cow::Owned(compressed.clone()),
    }));
    files
}

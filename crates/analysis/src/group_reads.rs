//! What the members of a group counted from one sample to the next.
//!
//! Of a group such as `{cycles,instructions}:S` only the first event samples; each
//! sample has the counts of all (`PERF_SAMPLE_READ`). perf makes of it a sample for each
//! member that counted anything since the sample before, with the difference as its
//! period (`deliver_sample_group` in its `util/session.c`), and so does this.

use rprof_perfdata::Events;
use rprof_records::{AttrFlags, RawRecord, Sample, SampleType};
use rustc_hash::FxHashMap;

/// One member's share in a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberDelta {
    pub(crate) event: u32,
    /// What it counted; never 0.
    pub(crate) period: u64,
}

/// The shares of all samples that have counts.
#[derive(Debug, Default)]
pub(crate) struct GroupReadDeltas {
    /// Places in the recording, rising, each with the end of its members.
    samples: Vec<(u64, usize)>,
    members: Vec<MemberDelta>,
}

impl GroupReadDeltas {
    /// The shares in the sample at a place; `None` where it is a sample of its own event.
    pub(crate) fn of(&self, place: u64) -> Option<&[MemberDelta]> {
        let at = (self.samples)
            .binary_search_by_key(&place, |(p, _)| *p)
            .ok()?;
        let start = match at {
            0 => 0,
            _ => self.samples[at - 1].1,
        };
        self.members.get(start..self.samples[at].1)
    }
}

/// The count of one member in a sample.
struct MemberCount {
    time: u64,
    place: u64,
    event: u32,
    id: u64,
    /// The thread, where each has a count of its own.
    tid: i32,
    value: u64,
}

/// Collects the counts; see [`finish`](Self::finish).
#[derive(Default)]
pub(crate) struct GroupReadCollector {
    samples: Vec<u64>,
    counts: Vec<MemberCount>,
}

impl GroupReadCollector {
    /// Takes a sample of an event, if it has counts.
    pub(crate) fn add_sample(
        &mut self,
        events: &Events,
        event: usize,
        record: &RawRecord<'_>,
        place: u64,
    ) {
        let Some(event) = events.list().get(event) else {
            return;
        };
        if !event.attr.sample_type.contains(SampleType::READ) {
            return;
        }
        let Ok(sample) = Sample::parse(record.body, &event.layout) else {
            return;
        };
        // Without ids nobody can tell whose the counts are.
        let values = sample.read().map(|read| read.values).unwrap_or_default();
        if values.is_empty() || values.iter().any(|v| v.id.is_none()) {
            return;
        }
        let tid = match event.attr.flags.contains(AttrFlags::INHERIT) {
            true => sample.tid().unwrap_or(-1),
            false => -1,
        };
        self.samples.push(place);
        for value in values {
            let id = value.id.unwrap_or(0);
            if let Some(event) = events.by_id(id) {
                self.counts.push(MemberCount {
                    time: sample.time().unwrap_or(0),
                    place,
                    event: event as u32,
                    id,
                    tid,
                    value: value.value,
                });
            }
        }
    }

    /// The differences, each from the sample before in time.
    pub(crate) fn finish(self) -> GroupReadDeltas {
        let GroupReadCollector {
            samples,
            mut counts,
        } = self;
        // Stable: members stay in the order of their group.
        counts.sort_by_key(|c| (c.time, c.place));
        let mut before = FxHashMap::default();
        for count in &mut counts {
            let before = before.entry((count.id, count.tid)).or_insert(0);
            let value = std::mem::replace(before, count.value);
            // A count that went down began anew.
            count.value = count.value.checked_sub(value).unwrap_or(count.value);
        }
        counts.retain(|c| c.value > 0);
        counts.sort_by_key(|c| c.place);
        let mut reads = GroupReadDeltas::default();
        let mut rest = counts.into_iter().peekable();
        for place in samples {
            while let Some(count) = rest.next_if(|c| c.place == place) {
                reads.members.push(MemberDelta {
                    event: count.event,
                    period: count.value,
                });
            }
            reads.samples.push((place, reads.members.len()));
        }
        reads
    }
}

//! Group reads: how far each member's count advanced between samples.
//!
//! Only the leader of a group such as `{cycles,instructions}:S` samples, with the counts of all
//! members (`PERF_SAMPLE_READ`). Like perf (`deliver_sample_group` in `util/session.c`), the
//! analysis makes one sample for each member whose count changed. The difference is the period.

use rprof_perfdata::Events;
use rprof_records::{AttrFlags, RawRecord, Sample, SampleType};
use rustc_hash::FxHashMap;

use crate::groups::RecordPosition;

/// Increase of a member's count since the previous sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberDelta {
    pub(crate) event: u32,
    /// Never 0.
    pub(crate) period: u64,
}

#[derive(Debug, Default)]
pub(crate) struct GroupReadDeltas {
    /// Position of each sample, ascending, with the end of its range in `members`.
    samples: Vec<(RecordPosition, usize)>,
    members: Vec<MemberDelta>,
}

impl GroupReadDeltas {
    /// Returns the deltas of the sample at a position; `None` without a group read.
    pub(crate) fn at(&self, position: RecordPosition) -> Option<&[MemberDelta]> {
        let at = (self.samples)
            .binary_search_by_key(&position, |(p, _)| *p)
            .ok()?;
        let start = match at {
            0 => 0,
            _ => self.samples[at - 1].1,
        };
        self.members.get(start..self.samples[at].1)
    }
}

struct MemberCount {
    time: u64,
    position: RecordPosition,
    event: u32,
    id: u64,
    /// -1 unless the event is inherited, and so counts per thread.
    tid: i32,
    value: u64,
}

#[derive(Default)]
pub(crate) struct GroupReadCollector {
    samples: Vec<RecordPosition>,
    counts: Vec<MemberCount>,
}

impl GroupReadCollector {
    pub(crate) fn add_sample(
        &mut self,
        events: &Events,
        event: usize,
        record: &RawRecord<'_>,
        position: RecordPosition,
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
        // Counts without ids have no event.
        let values = sample.read().map(|read| read.values).unwrap_or_default();
        if values.is_empty() || values.iter().any(|v| v.id.is_none()) {
            return;
        }
        let tid = match event.attr.flags.contains(AttrFlags::INHERIT) {
            true => sample.tid().unwrap_or(-1),
            false => -1,
        };
        self.samples.push(position);
        for value in values {
            let id = value.id.unwrap_or(0);
            if let Some(event) = events.by_id(id) {
                self.counts.push(MemberCount {
                    time: sample.time().unwrap_or(0),
                    position,
                    event: event as u32,
                    id,
                    tid,
                    value: value.value,
                });
            }
        }
    }

    pub(crate) fn finish(self) -> GroupReadDeltas {
        let GroupReadCollector {
            samples,
            mut counts,
        } = self;
        // Stable: members keep their order in the group.
        counts.sort_by_key(|c| (c.time, c.position));
        let mut before = FxHashMap::default();
        for count in &mut counts {
            let before = before.entry((count.id, count.tid)).or_insert(0);
            let value = std::mem::replace(before, count.value);
            // The counter was reset.
            count.value = count.value.checked_sub(value).unwrap_or(count.value);
        }
        counts.retain(|c| c.value > 0);
        counts.sort_by_key(|c| c.position);
        let mut reads = GroupReadDeltas::default();
        let mut rest = counts.into_iter().peekable();
        for position in samples {
            while let Some(count) = rest.next_if(|c| c.position == position) {
                reads.members.push(MemberDelta {
                    event: count.event,
                    period: count.value,
                });
            }
            reads.samples.push((position, reads.members.len()));
        }
        reads
    }
}

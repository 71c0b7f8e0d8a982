//! [`InheritedEventFilter`]: drops duplicate samples, and the recorder's own samples.
//!
//! A thread attached after its creator may have inherited events and its own (see
//! `open/attach.rs`). Every record contains its event's id, so:
//!
//! - a thread that was attached late counts only under the ids of its own events;
//! - its children inherit both, and count under their creator's ids;
//! - every other thread has one event, and all its samples count.

use crate::drain::Stream;
use crate::target_only::TargetOnly;
use rprof_records::{
    Endian, ProcessEvent, RawBytes, RawRecord, RecordType, SampleId, SampleLayout, SampleType,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Drops duplicate samples. It follows FORK, EXIT and COMM records, so every record must pass in
/// time order.
#[derive(Clone, Debug)]
pub struct InheritedEventFilter {
    samples: SampleLayout,
    sideband: SampleLayout,
    /// Threads that were attached late, by event id.
    owner_of_id: HashMap<u64, u32>,
    /// Owner of the ids under which a thread counts. Others count under any id.
    owner_of_thread: HashMap<u32, u32>,
    /// Ids of closed events, without an attr.
    abandoned: HashSet<u64>,
    excluded: Option<u32>,
    only: Option<TargetOnly>,
    /// Last exec that set an owner.
    last_exec: (u32, u64),
    rejected: u64,
}

impl InheritedEventFilter {
    /// Creates a filter that accepts every record.
    pub fn of_everything(samples: SampleLayout, sideband: SampleLayout) -> InheritedEventFilter {
        InheritedEventFilter::new(samples, sideband, &BTreeMap::new(), None)
    }

    pub(crate) fn new(
        samples: SampleLayout,
        sideband: SampleLayout,
        suspects: &BTreeMap<u32, Vec<u64>>,
        excluded: Option<u32>,
    ) -> InheritedEventFilter {
        let ids = |(tid, ids): (&u32, &Vec<u64>)| -> Vec<(u64, u32)> {
            ids.iter().map(|id| (*id, *tid)).collect()
        };
        InheritedEventFilter {
            samples,
            sideband,
            owner_of_id: suspects.iter().flat_map(ids).collect(),
            owner_of_thread: suspects.keys().map(|tid| (*tid, *tid)).collect(),
            abandoned: HashSet::new(),
            excluded,
            only: None,
            last_exec: (0, 0),
            rejected: 0,
        }
    }

    /// Drops records with these ids of closed events, which perf 6.1 rejects.
    pub(crate) fn abandoned(mut self, ids: impl IntoIterator<Item = u64>) -> InheritedEventFilter {
        self.abandoned.extend(ids);
        self
    }

    pub(crate) fn only(mut self, only: Option<TargetOnly>) -> InheritedEventFilter {
        self.only = only;
        self
    }

    pub(crate) fn accepts_all(&self) -> bool {
        self.owner_of_thread.is_empty()
            && self.excluded.is_none()
            && self.abandoned.is_empty()
            && self.only.is_none()
    }

    /// Returns the number of rejected samples.
    pub fn rejected(&self) -> u64 {
        self.rejected
    }

    /// Returns false for duplicate samples and for records of closed events.
    pub fn accepts(&mut self, stream: Stream, record: &[u8]) -> bool {
        if self.accepts_all() {
            return true;
        }
        let Some(raw) = RawRecord::parse(RawBytes::from(record), Endian::NATIVE) else {
            return true;
        };
        // All events with samples stayed open.
        if stream == Stream::Sideband
            && !self.abandoned.is_empty()
            && (self.sideband.sample_id(&raw).id).is_some_and(|id| self.abandoned.contains(&id))
        {
            return false;
        }
        if let Some(only) = &mut self.only
            && !is_of_target(only, (&self.samples, &self.sideband), stream, &raw)
        {
            return false;
        }
        match raw.kind {
            RecordType::SAMPLE => {
                let accepts = self.accepts_sample(&raw.body);
                self.rejected += u64::from(!accepts);
                accepts
            }
            RecordType::SWITCH | RecordType::SWITCH_CPU_WIDE if stream == Stream::Samples => {
                self.accepts_switch(&raw)
            }
            RecordType::FORK | RecordType::EXIT | RecordType::COMM
                if stream == Stream::Sideband && !self.owner_of_thread.is_empty() =>
            {
                let layout = self.sideband.clone();
                let id = layout.sample_id(&raw);
                if let Ok(Some(event)) = ProcessEvent::decode(&raw, Some(&layout)) {
                    self.follow(&event, &id);
                }
                true
            }
            _ => true,
        }
    }

    fn accepts_sample(&self, body: &RawBytes<'_>) -> bool {
        let ids = self.samples.fixed_offset(SampleType::TID);
        let number = |at: usize| body.u32(at, Endian::NATIVE);
        let (pid, tid) = (ids.and_then(number), ids.and_then(|at| number(at + 4)));
        let at = self.samples.sample_id_offset();
        let id = at.and_then(|at| body.u64(at, Endian::NATIVE));
        self.accepts_ids(pid, tid, id)
    }

    fn accepts_switch(&self, raw: &RawRecord<'_>) -> bool {
        let SampleId { pid, tid, id, .. } = self.samples.sample_id(raw);
        self.accepts_ids(pid.map(i32::cast_unsigned), tid.map(i32::cast_unsigned), id)
    }

    fn accepts_ids(&self, pid: Option<u32>, tid: Option<u32>, id: Option<u64>) -> bool {
        if self.excluded.is_some() && pid == self.excluded {
            return false;
        }
        let owner = tid.and_then(|tid| self.owner_of_thread.get(&tid));
        match (owner, id) {
            (Some(owner), Some(id)) => self.owner_of_id.get(&id) == Some(owner),
            _ => true,
        }
    }

    fn follow(&mut self, event: &ProcessEvent<'_>, id: &SampleId) {
        match event {
            // The creator of an attached thread is unknown.
            ProcessEvent::Forked {
                tid, parent_tid, ..
            } => {
                let (tid, creator) = (tid.cast_unsigned(), parent_tid.cast_unsigned());
                let attached = self.owner_of_thread.get(&tid) == Some(&tid);
                match self.owner_of_thread.get(&creator) {
                    // Its creator's FORK record comes late.
                    _ if attached => {}
                    Some(owner) => {
                        self.owner_of_thread.insert(tid, *owner);
                    }
                    None => {
                        self.owner_of_thread.remove(&tid);
                    }
                }
            }
            ProcessEvent::Ended { tid, .. } => {
                self.owner_of_thread.remove(&tid.cast_unsigned());
            }
            // A thread in exec gets the first thread's id (execve(2)).
            ProcessEvent::Executed { tid, .. } => {
                let (tid, time) = (tid.cast_unsigned(), id.time.unwrap_or(0));
                match id.id.and_then(|id| self.owner_of_id.get(&id)) {
                    Some(owner) => {
                        self.owner_of_thread.insert(tid, *owner);
                        self.last_exec = (tid, time);
                    }
                    // Both events of a thread report the exec.
                    None if self.last_exec.0 == tid
                        && time.abs_diff(self.last_exec.1) < SAME_EXEC => {}
                    None => {
                        self.owner_of_thread.remove(&tid);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Returns false for records of other processes, which nobody counts.
fn is_of_target(
    only: &mut TargetOnly,
    (samples, sideband): (&SampleLayout, &SampleLayout),
    stream: Stream,
    raw: &RawRecord<'_>,
) -> bool {
    match (stream, raw.kind) {
        (_, RecordType::SAMPLE) => {
            let ids = samples.fixed_offset(SampleType::TID);
            let number = |at: usize| raw.body.u32(at, Endian::NATIVE);
            only.has_thread(ids.and_then(number), ids.and_then(|at| number(at + 4)))
        }
        (Stream::Samples, RecordType::SWITCH | RecordType::SWITCH_CPU_WIDE) => {
            let SampleId { pid, tid, .. } = samples.sample_id(raw);
            only.has_thread(pid.map(i32::cast_unsigned), tid.map(i32::cast_unsigned))
        }
        (Stream::Sideband, _) => match ProcessEvent::decode(raw, Some(sideband)) {
            Ok(Some(event)) => only.follow(&event),
            _ => true,
        },
        _ => true,
    }
}

/// Maximum ns between two COMM records of one exec.
const SAME_EXEC: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_records::{Attr, AttrFlags, Comm, Misc, Record, Task};

    fn attr() -> Attr {
        Attr {
            sample_type: SampleType::IDENTIFIER | SampleType::TID | SampleType::TIME,
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..Attr::default()
        }
    }

    /// Threads were attached late. Event ids are 100 above the thread ids.
    fn filter(late: &[u32], excluded: Option<u32>) -> InheritedEventFilter {
        let layout = SampleLayout::new(&attr(), Endian::NATIVE);
        let suspects = late
            .iter()
            .map(|tid| (*tid, vec![u64::from(tid + 100)]))
            .collect();
        InheritedEventFilter::new(layout.clone(), layout, &suspects, excluded)
    }

    fn accepts(filter: &mut InheritedEventFilter, pid: i32, tid: i32, id: u64) -> bool {
        let mut record = Vec::new();
        let words = [id, u64::from(pid as u32) | u64::from(tid as u32) << 32, 5];
        record.extend(9u32.to_ne_bytes());
        record.extend([2, 0, 32, 0]);
        record.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        filter.accepts(Stream::Samples, &record)
    }

    fn tell(
        filter: &mut InheritedEventFilter,
        record: &Record<'_>,
        misc: Misc,
        id: u64,
        time: u64,
    ) {
        let layout = SampleLayout::new(&attr(), Endian::NATIVE);
        let trailer = SampleId {
            id: Some(id),
            time: Some(time),
            ..SampleId::default()
        };
        let mut out = Vec::new();
        record.encode(misc, &layout, &trailer, &mut out).unwrap();
        assert!(filter.accepts(Stream::Sideband, &out));
    }

    fn fork(tid: i32, ptid: i32) -> Record<'static> {
        Record::Fork(Task {
            pid: 1,
            ppid: 1,
            tid,
            ptid,
            time: 0,
        })
    }

    #[test]
    fn a_late_thread_counts_under_its_own_ids() {
        let mut filter = filter(&[7], None);
        assert!(accepts(&mut filter, 1, 7, 107));
        assert!(!accepts(&mut filter, 1, 7, 50), "inherited from another");
        assert!(accepts(&mut filter, 1, 8, 50) && accepts(&mut filter, 1, 8, 60));
        assert_eq!(filter.rejected(), 1);
    }

    #[test]
    fn switches_count_as_samples_do() {
        let layout = SampleLayout::new(&attr(), Endian::NATIVE);
        let mut filter = filter(&[7], Some(3));
        let mut accepts = |pid, tid, id| {
            let trailer = SampleId {
                pid: Some(pid),
                tid: Some(tid),
                id: Some(id),
                time: Some(5),
                ..SampleId::default()
            };
            let mut out = Vec::new();
            (Record::Switch.encode(Misc::SWITCH_OUT, &layout, &trailer, &mut out)).unwrap();
            filter.accepts(Stream::Samples, &out)
        };
        assert!(accepts(1, 7, 107) && accepts(1, 8, 50));
        assert!(!accepts(1, 7, 50), "inherited from another");
        assert!(!accepts(3, 8, 50), "the recorder itself");
        assert_eq!(filter.rejected(), 0, "it is no sample");
    }

    #[test]
    fn what_a_late_thread_starts_counts_under_its_ids() {
        let mut filter = filter(&[7, 9], None);
        tell(&mut filter, &fork(8, 7), Misc(0), 50, 1);
        tell(&mut filter, &fork(9, 7), Misc(0), 50, 1);
        tell(&mut filter, &fork(10, 8), Misc(0), 50, 1);
        for (tid, id, counts) in [
            (8, 107, true),
            (8, 50, false),
            (10, 107, true),
            (10, 50, false),
        ] {
            assert_eq!(accepts(&mut filter, 1, tid, id), counts, "{tid} {id}");
        }
        assert!(accepts(&mut filter, 1, 9, 109) && !accepts(&mut filter, 1, 9, 107));
        let Record::Fork(task) = fork(8, 7) else {
            return;
        };
        tell(&mut filter, &Record::Exit(task), Misc(0), 107, 2);
        assert!(accepts(&mut filter, 1, 8, 50));
        tell(&mut filter, &fork(10, 3), Misc(0), 50, 3);
        assert!(accepts(&mut filter, 1, 10, 50));
    }

    #[test]
    fn an_exec_takes_the_first_threads_number() {
        let exec = |tid| {
            Record::Comm(Comm {
                pid: 7,
                tid,
                name: b"x".into(),
            })
        };
        // The late thread 8 calls exec and becomes 7. Its events report it in either order.
        for order in [[108, 50], [50, 108]] {
            let mut filter = filter(&[7, 8], None);
            for (place, id) in order.into_iter().enumerate() {
                tell(
                    &mut filter,
                    &exec(7),
                    Misc::COMM_EXEC,
                    id,
                    10 + place as u64,
                );
            }
            assert!(accepts(&mut filter, 7, 7, 108) && !accepts(&mut filter, 7, 7, 50));
        }
        let mut filter = filter(&[7, 8], None);
        tell(&mut filter, &exec(7), Misc::COMM_EXEC, 50, 10);
        assert!(accepts(&mut filter, 7, 7, 50));
    }

    #[test]
    fn records_of_events_that_were_closed_again_are_dropped() {
        let layout = SampleLayout::new(&attr(), Endian::NATIVE);
        let mut filter = filter(&[], None).abandoned([50]);
        assert!(!filter.accepts_all());
        let mut accepts = |id, stream| {
            let trailer = SampleId {
                id: Some(id),
                time: Some(1),
                ..SampleId::default()
            };
            let mut out = Vec::new();
            (fork(8, 7).encode(Misc(0), &layout, &trailer, &mut out)).unwrap();
            filter.accepts(stream, &out)
        };
        assert!(!accepts(50, Stream::Sideband));
        assert!(accepts(51, Stream::Sideband));
        assert_eq!(filter.rejected(), 0, "it is no sample");
    }

    #[test]
    fn the_recorder_itself_is_left_out() {
        let mut filter = filter(&[], Some(3));
        assert!(!filter.accepts_all());
        assert!(!accepts(&mut filter, 3, 4, 50) && accepts(&mut filter, 4, 4, 50));
    }
}

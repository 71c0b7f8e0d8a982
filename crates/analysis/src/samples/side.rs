//! [`RecordView`]: records other than samples.

use std::borrow::Cow;

use rprof_processes::{Pid, Tid};
use rprof_records::{Misc, RawRecord, Record, RecordType, SampleLayout};

use crate::comms::thread_name;
use crate::groups::RecordPosition;
use crate::sideband_pass::Index;
use rprof_profile::Filter;
use rprof_profile::filter::Origin;

#[derive(Clone, Copy, Debug)]
pub(super) struct SidePosition {
    pub(super) time: u64,
    pub(super) position: RecordPosition,
}

/// Record other than a sample, with its thread, CPU and time.
#[derive(Debug)]
pub struct RecordView<'s> {
    /// Name of the record's subject thread after the record.
    pub comm: Cow<'s, str>,
    /// Process that caused the record.
    pub pid: i32,
    /// Thread that caused the record.
    pub tid: i32,
    /// CPU of the record, if known.
    pub cpu: Option<u32>,
    /// Nanoseconds of the recording's clock; 0 for the state found at the start.
    pub time: u64,
    /// Index of its event, in file order.
    pub event_index: usize,
    /// Type of the record.
    pub kind: RecordType,
    /// Bits that depend on the type.
    pub misc: Misc,
    /// The decoded record.
    pub record: Record<'s>,
}

/// Returns the positions of all accepted records of these types, by time.
pub(super) fn collect(
    index: &Index<'_>,
    filter: &Filter,
    kinds: &[RecordType],
) -> Vec<SidePosition> {
    let mut positions = Vec::new();
    if kinds.is_empty() {
        return positions;
    }
    for (block_index, block) in index.kept_blocks().unwrap_or_default().iter().enumerate() {
        let mut walk = block.walk();
        loop {
            let at = walk.consumed();
            let Some(walked) = walk.next() else { break };
            if !kinds.contains(&walked.record.kind) {
                continue;
            }
            let Some(view) = view(index, &walked.record) else {
                continue;
            };
            let origin = Origin {
                pid: Some(view.pid),
                tid: Some(view.tid),
                cpu: view.cpu,
                time: Some(view.time),
                comm: Some(view.comm.as_bytes()),
            };
            if filter.wants_origin(&origin) {
                positions.push(SidePosition {
                    time: view.time,
                    position: RecordPosition::new(block_index, at),
                });
            }
        }
    }
    positions.sort_unstable_by_key(|p| (p.time, p.position));
    positions
}

fn subject(record: &Record<'_>) -> Option<(i32, i32)> {
    match record {
        Record::Mmap(m) => Some((m.pid, m.tid)),
        Record::Mmap2(m) => Some((m.pid, m.tid)),
        Record::Comm(c) => Some((c.pid, c.tid)),
        Record::Fork(t) | Record::Exit(t) => Some((t.pid, t.tid)),
        Record::Namespaces { pid, tid, .. } => Some((*pid, *tid)),
        _ => None,
    }
}

/// Decodes a record; `None` if it is damaged.
pub(super) fn view<'s>(index: &'s Index<'_>, raw: &RawRecord<'s>) -> Option<RecordView<'s>> {
    let events = index.data.events();
    let event_index = events.of_other(raw)?;
    let layout: &SampleLayout = &events.list()[event_index].layout;
    let record = Record::decode(raw, Some(layout)).ok()?;
    let id = layout.sample_id(raw);
    let about = subject(&record);
    let (pid, tid) = match (id.pid, id.tid, about) {
        (Some(pid), Some(tid), _) => (pid, tid),
        // Without a trailer, the body's ids apply.
        (.., about) => about.unwrap_or((-1, -1)),
    };
    let time = match (&record, id.time) {
        (_, Some(time)) => time,
        (Record::Fork(thread) | Record::Exit(thread), None) => thread.time,
        _ => 0,
    };
    let (about_pid, about_tid) = about.unwrap_or((pid, tid));
    // Thread 0 is the idle task of every process.
    let comm = match about_tid {
        0 => None,
        _ => (index.timeline).comm(Pid(about_pid), Tid(about_tid), time),
    };
    Some(RecordView {
        comm: Cow::Owned(thread_name(comm, about_tid)),
        pid,
        tid,
        cpu: id.cpu,
        time,
        event_index,
        kind: raw.kind,
        misc: raw.misc,
        record,
    })
}

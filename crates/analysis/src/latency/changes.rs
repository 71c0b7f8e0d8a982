//! [`Changes`]: records that start or stop threads.

use rprof_perfdata::Walk;
use rprof_processes::PrivilegedExecs;
use rprof_profile::waits::is_of_waits;
use rprof_records::{Misc, ProcessEvent, RawRecord, RecordType, Sample, WaitEnd};
use rustc_hash::FxHashMap;

use super::has_switches;
use crate::sideband_pass::Index;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Created by this process; waits for a CPU.
    Born { parent_pid: i32 },
    /// It existed before the recording.
    Found,
    /// It got a CPU.
    In,
    /// It left its CPU.
    Out,
    /// It ended.
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) time: u64,
    pub(super) pid: i32,
    pub(super) tid: i32,
    pub(super) kind: Kind,
}

#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Sorted by time.
    pub(super) sorted: Vec<Change>,
    /// First and last time of all records with a time.
    pub(super) time: Option<(u64, u64)>,
    /// Length of each wait for a CPU after a wakeup, by thread and end.
    pub(super) awake: FxHashMap<(i32, u64), u64>,
}

#[derive(Clone, Copy, Debug)]
struct RecordedWait {
    end: u64,
    length: u64,
    pid: i32,
    tid: i32,
    is_awake: bool,
}

impl Changes {
    /// Reads a recording. Context switches are exact; without them, waits show when threads did not
    /// run.
    pub(super) fn of(index: &Index<'_>) -> Changes {
        let mut reader = Reader {
            index,
            has_switches: has_switches(index.data),
            changes: Changes::default(),
            waits: Vec::new(),
            privileged_execs: PrivilegedExecs::default(),
            ends_at_exec: Vec::new(),
            sampled: FxHashMap::default(),
        };
        index.for_each_block(|walk| reader.handle_block(walk));
        reader.finish()
    }
}

struct Reader<'i> {
    index: &'i Index<'i>,
    has_switches: bool,
    changes: Changes,
    waits: Vec<RecordedWait>,
    privileged_execs: PrivilegedExecs,
    /// EXIT records at execs that changed privileges. With events of whole CPUs, the thread lives.
    ends_at_exec: Vec<(u64, i32, i32)>,
    /// Process and first sample on a CPU, by thread.
    sampled: FxHashMap<i32, (i32, u64)>,
}

impl Reader<'_> {
    fn handle_block(&mut self, walk: Walk<'_>) {
        for walked in walk {
            self.handle_record(&walked.record);
        }
    }

    fn handle_record(&mut self, raw: &RawRecord<'_>) {
        match raw.kind {
            RecordType::SAMPLE => self.handle_sample(raw),
            RecordType::SWITCH | RecordType::SWITCH_CPU_WIDE => {
                let layout = self.index.data.events().layout_of(raw);
                let Some(id) = layout.map(|layout| layout.sample_id(raw)) else {
                    return;
                };
                let (Some(time), Some(pid), Some(tid)) = (id.time, id.pid, id.tid) else {
                    return;
                };
                let kind = match raw.misc.has(Misc::SWITCH_OUT) {
                    true => Kind::Out,
                    false => Kind::In,
                };
                self.push(time, pid, tid, kind);
            }
            kind if ProcessEvent::is_recorded_as(kind) => {
                let layout = self.index.data.events().layout_of(raw);
                let Ok(Some(event)) = ProcessEvent::decode(raw, layout) else {
                    return;
                };
                self.handle_event(&event, ProcessEvent::time_of(raw, layout));
            }
            _ => {}
        }
    }

    fn handle_event(&mut self, event: &ProcessEvent<'_>, time: u64) {
        let is_privileged_exec = self.privileged_execs.handle(event);
        let (pid, tid, kind) = match *event {
            ProcessEvent::Forked {
                pid,
                tid,
                parent_pid,
                ..
            } => (pid, tid, Kind::Born { parent_pid }),
            ProcessEvent::Found { pid, tid, .. } => (pid, tid, Kind::Found),
            ProcessEvent::Ended { pid, tid } if is_privileged_exec => {
                self.ends_at_exec.push((time, pid, tid));
                return;
            }
            ProcessEvent::Ended { pid, tid } => (pid, tid, Kind::Ended),
            _ => return,
        };
        self.push(time, pid, tid, kind);
    }

    fn handle_sample(&mut self, raw: &RawRecord<'_>) {
        let events = self.index.data.events();
        let Some(event) = (events.of_sample(raw)).and_then(|event| events.list().get(event)) else {
            return;
        };
        let Ok(sample) = Sample::parse(raw.body, &event.layout) else {
            return;
        };
        let (Some(time), Some(pid), Some(tid)) = (sample.time(), sample.pid(), sample.tid()) else {
            return;
        };
        if !is_of_waits(&event.name) {
            self.note_time(time);
            let (_, first) = self.sampled.entry(tid).or_insert((pid, time));
            *first = time.min(*first);
            return;
        }
        let length = sample.period().unwrap_or(0);
        let is_awake = sample.addr().map(WaitEnd::from_addr) == Some(WaitEnd::Awake);
        if is_awake {
            self.changes.awake.insert((tid, time), length);
        }
        if !self.has_switches {
            self.waits.push(RecordedWait {
                end: time,
                length,
                pid,
                tid,
                is_awake,
            });
        }
    }

    fn note_time(&mut self, time: u64) {
        let (first, last) = self.changes.time.unwrap_or((time, time));
        self.changes.time = Some((first.min(time), last.max(time)));
    }

    fn push(&mut self, time: u64, pid: i32, tid: i32, kind: Kind) {
        // Idle thread of a CPU.
        if tid <= 0 {
            return;
        }
        // Records at time 0 describe the state before the start.
        if time > 0 {
            self.note_time(time);
        }
        self.changes.sorted.push(Change {
            time,
            pid,
            tid,
            kind,
        });
    }

    fn finish(mut self) -> Changes {
        let oldest = self.index.began.unwrap_or(0);
        let mut waits = std::mem::take(&mut self.waits);
        // A wait for a CPU follows the wait that ended at the same time.
        waits.sort_by_key(|wait| (wait.tid, wait.end, wait.is_awake));
        // A record may sum short waits, and is written after the last of them. So a wait that
        // overlaps a later one of its thread moves back as a whole.
        let mut ended: FxHashMap<i32, u64> = FxHashMap::default();
        for change in &self.changes.sorted {
            match change.kind {
                Kind::Ended => ended.insert(change.tid, change.time),
                Kind::Born { .. } => ended.remove(&change.tid),
                _ => None,
            };
        }
        let mut next: Option<(i32, u64)> = None;
        let mut placed = Vec::with_capacity(waits.len());
        for wait in waits.into_iter().rev() {
            let later = next.filter(|(tid, _)| *tid == wait.tid);
            let limit = match later {
                Some((_, start)) => Some(start),
                None => ended.get(&wait.tid).copied(),
            };
            let end = limit.map_or(wait.end, |limit| wait.end.min(limit));
            let start = end.saturating_sub(wait.length).max(oldest.min(end));
            next = Some((wait.tid, start));
            if start < end {
                placed.push((start, end, wait));
            }
        }
        // Of two adjacent waits, the first ends before the second begins.
        for (start, end, wait) in placed.into_iter().rev() {
            self.push(start, wait.pid, wait.tid, Kind::Out);
            self.push(end, wait.pid, wait.tid, Kind::In);
        }
        // Time of the last switch by thread.
        let mut switched: FxHashMap<i32, u64> = FxHashMap::default();
        for change in &self.changes.sorted {
            if matches!(change.kind, Kind::In | Kind::Out) {
                let last = switched.entry(change.tid).or_default();
                *last = change.time.max(*last);
            }
        }
        for (time, pid, tid) in std::mem::take(&mut self.ends_at_exec) {
            if switched.get(&tid).is_none_or(|last| *last <= time) {
                self.push(time, pid, tid, Kind::Ended);
            }
        }
        let mut never: Vec<(i32, i32, u64)> = (self.sampled.iter())
            .filter(|(tid, _)| !switched.contains_key(tid))
            .map(|(tid, (pid, first))| (*tid, *pid, *first))
            .collect();
        never.sort_unstable();
        // Never switched: it ran all the time.
        for (tid, pid, first) in never {
            self.push(first, pid, tid, Kind::In);
        }
        self.changes.sorted.sort_by_key(|change| change.time);
        self.changes
    }
}

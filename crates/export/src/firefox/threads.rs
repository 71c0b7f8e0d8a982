//! Samples of each thread, in time order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::iter::Peekable;

use rprof_profile::{
    AggregatedStack, Profile, StreamIter, StreamedSample, Thread, ThreadId, WeighBy,
};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::json;

use super::Json;
use super::markers::Markers;
use super::tables::Tables;
use crate::json_writer::milliseconds;
use crate::names::CleanNames;

/// Samples of an event. Without times, all samples of a stack and a thread are one row.
#[derive(Clone, Copy)]
pub(super) struct Rows<'p> {
    profile: &'p Profile,
    event: usize,
    by: WeighBy,
}

/// A sample with its time. `entry` is an index in [`Profile::aggregated`].
struct TimedSample {
    time: u64,
    entry: usize,
    thread: ThreadId,
    weight: u64,
}

impl<'p> Rows<'p> {
    pub(super) fn new(profile: &'p Profile, event: usize, by: WeighBy) -> Rows<'p> {
        Rows { profile, event, by }
    }

    fn entry(&self, index: usize) -> Option<&'p AggregatedStack> {
        let entry = self.profile.aggregated.get(index)?;
        (entry.event == self.event).then_some(entry)
    }

    fn is_wait(&self, entry: &AggregatedStack) -> bool {
        let profile = self.profile;
        profile.reason_at(entry.stack).is_some() || profile.waits() == Some(entry.event)
    }
}

/// Thread of the file. It has one profile thread per name.
pub(super) struct ThreadSamples {
    name: String,
    process: String,
    pid: Option<i32>,
    tid: Option<i32>,
    threads: Vec<ThreadId>,
    /// Indexes of the thread's profile entries, if samples have no time.
    entries: Vec<usize>,
    weight: u64,
}

/// Pid and tid, or else the name.
#[derive(PartialEq, Eq, Hash)]
enum ThreadKey {
    Numbers(i32, i32),
    Name(ThreadId),
}

/// Returns the threads with samples, heaviest first.
pub(super) fn of(rows: Rows<'_>) -> Vec<ThreadSamples> {
    let profile = rows.profile;
    let mut threads: Vec<ThreadSamples> = Vec::new();
    let mut by_key: FxHashMap<ThreadKey, usize> = FxHashMap::default();
    let mut seen: FxHashSet<ThreadId> = FxHashSet::default();
    for (index, entry) in profile.aggregated.iter().enumerate() {
        if entry.event != rows.event {
            continue;
        }
        let Thread { pid, tid, .. } = *profile.thread(entry.thread);
        let key = match (pid, tid) {
            (Some(pid), Some(tid)) => ThreadKey::Numbers(pid, tid),
            _ => ThreadKey::Name(entry.thread),
        };
        let place = *by_key.entry(key).or_insert_with(|| {
            threads.push(ThreadSamples {
                name: String::new(),
                process: String::new(),
                pid,
                tid,
                threads: Vec::new(),
                entries: Vec::new(),
                weight: 0,
            });
            threads.len() - 1
        });
        let thread = &mut threads[place];
        thread.weight = thread.weight.saturating_add(rows.by.of(entry));
        if seen.insert(entry.thread) {
            thread.threads.push(entry.thread);
        }
        if profile.streams.is_none() {
            thread.entries.push(index);
        }
    }
    let names = CleanNames::new(profile);
    for thread in &mut threads {
        // Independent of the order of entries.
        let comm = |id: &ThreadId| &profile.comms[profile.thread(*id).comm as usize];
        thread.threads.sort_by_key(comm);
        // A renamed thread gets its last name.
        let last = match thread.threads[..] {
            [only] => Some(only),
            _ => thread.rows(rows).last().map(|row| row.thread),
        };
        if let Some(last) = last {
            let Thread {
                comm, process_comm, ..
            } = *profile.thread(last);
            thread.name = names.comm(comm).into_owned();
            thread.process = names.comm(process_comm.unwrap_or(comm)).into_owned();
        }
    }
    threads.sort_by_cached_key(|thread| {
        let name = thread.name.clone();
        (Reverse(thread.weight), thread.pid, thread.tid, name)
    });
    threads
}

impl ThreadSamples {
    fn rows<'p>(&'p self, rows: Rows<'p>) -> impl Iterator<Item = TimedSample> + 'p {
        let profile = rows.profile;
        let of_thread = |id: &ThreadId| Some(profile.streams.as_ref()?.of(*id).peekable());
        let streams: Vec<_> = self.threads.iter().filter_map(of_thread).collect();
        let one_by_one = InTime::new(streams).filter_map(move |sample| {
            let entry = rows.entry(sample.entry as usize)?;
            // A wait is recorded at its end.
            let before = match rows.is_wait(entry) {
                true => sample.weight,
                false => 0,
            };
            Some(TimedSample {
                time: sample.time.saturating_sub(before),
                entry: sample.entry as usize,
                thread: entry.thread,
                weight: rows.by.of_sample(sample.weight),
            })
        });
        let summed = self.entries.iter().filter_map(move |index| {
            let entry = rows.entry(*index)?;
            Some(TimedSample {
                time: 0,
                entry: *index,
                thread: entry.thread,
                weight: rows.by.of(entry),
            })
        });
        one_by_one.chain(summed)
    }

    /// Writes the thread, and adds its stacks to the tables. `is_time`: weights are nanoseconds.
    pub(super) fn write(
        &self,
        rows: Rows<'_>,
        tables: &mut Tables<'_>,
        origin: u64,
        is_time: bool,
        markers: &Markers<'_>,
        json: &mut Json<'_>,
    ) -> io::Result<()> {
        let all = || self.rows(rows);
        let first = all().next();
        let first = first.map_or(0, |row| row.time.saturating_sub(origin));
        json.begin()?;
        json.value("name", &self.name)?;
        json.value("processName", &self.process)?;
        json.value("processType", &"default")?;
        json.value("processStartupTime", &0)?;
        json.value("processShutdownTime", &())?;
        json.value_with("registerTime", first, milliseconds)?;
        json.value("unregisterTime", &())?;
        json.value("pausedRanges", &json!([]))?;
        let is_main = self.pid == self.tid;
        json.value("isMainThread", &is_main)?;
        json.value("pid", &self.pid.unwrap_or(0).to_string())?;
        json.value("tid", &self.tid.unwrap_or(0))?;
        json.key("markers")?;
        markers.write(json)?;
        json.key("samples")?;
        json.begin()?;
        let mut length = 0usize;
        let stacks = all().inspect(|_| length += 1);
        json.column("stack", stacks.map(|row| tables.number(row.entry)))?;
        let mut before = origin;
        let deltas = all().map(|row| {
            let delta = row.time.saturating_sub(before);
            before = row.time.max(before);
            delta
        });
        json.column_with("timeDeltas", deltas, milliseconds)?;
        match is_time {
            true => {
                json.column_with("weight", all().map(|row| row.weight), milliseconds)?;
                json.value("weightType", &"tracing-ms")?;
                let ran = |row: TimedSample| match rows
                    .entry(row.entry)
                    .is_some_and(|entry| rows.is_wait(entry))
                {
                    true => 0,
                    false => row.weight,
                };
                json.column("threadCPUDelta", all().map(ran))?;
            }
            false => {
                json.column("weight", all().map(|row| row.weight))?;
                json.value("weightType", &"samples")?;
            }
        }
        json.value("length", &length)?;
        json.end()?;
        json.end()
    }
}

/// Merges the sample streams of one thread (one per name) in time order.
struct InTime<'p> {
    streams: Vec<Peekable<StreamIter<&'p [u8]>>>,
    /// Time of the next sample of each stream, with the stream's index.
    next: BinaryHeap<Reverse<(u64, usize)>>,
}

impl<'p> InTime<'p> {
    fn new(mut streams: Vec<Peekable<StreamIter<&'p [u8]>>>) -> InTime<'p> {
        let first = streams.iter_mut().zip(0..);
        let next = first.filter_map(|(stream, index)| Some(Reverse((stream.peek()?.time, index))));
        InTime {
            next: next.collect(),
            streams,
        }
    }
}

impl Iterator for InTime<'_> {
    type Item = StreamedSample;

    fn next(&mut self) -> Option<StreamedSample> {
        if let [only] = &mut self.streams[..] {
            return only.next();
        }
        let Reverse((_, index)) = self.next.pop()?;
        let stream = self.streams.get_mut(index)?;
        let sample = stream.next();
        if let Some(following) = stream.peek() {
            self.next.push(Reverse((following.time, index)));
        }
        sample
    }
}

//! Samples of each thread, in order of time.

use std::cmp::Reverse;
use std::io;

use rprof_profile::{Profile, StackId, Thread, ThreadId, WeighBy};
use rustc_hash::FxHashMap;
use serde_json::json;

use super::Json;
use super::markers::Markers;
use super::tables::Tables;
use crate::names::CleanNames;

/// Samples one by one, or where none has a time, all samples of a stack and a thread as one.
pub(super) struct Rows<'p> {
    profile: &'p Profile,
    by: WeighBy,
}

/// One of the [`Rows`].
struct Row {
    event: usize,
    thread: ThreadId,
    time: u64,
    stack: StackId,
    weight: u64,
}

impl<'p> Rows<'p> {
    pub(super) fn new(profile: &'p Profile, by: WeighBy) -> Rows<'p> {
        Rows { profile, by }
    }

    fn len(&self) -> usize {
        match &self.profile.samples {
            Some(samples) => samples.len(),
            None => self.profile.aggregated.len(),
        }
    }

    /// Returns true if the thread did not run.
    fn is_wait(&self, event: usize, stack: StackId) -> bool {
        self.profile.reason_at(stack).is_some() || self.profile.waits() == Some(event)
    }

    fn get(&self, index: usize) -> Option<Row> {
        Some(match &self.profile.samples {
            Some(samples) => {
                let sample = samples.get(index)?;
                // A wait is shown from where it begins, and is recorded where it ends.
                let before = match self.is_wait(sample.event, sample.stack) {
                    true => sample.weight,
                    false => 0,
                };
                Row {
                    event: sample.event,
                    thread: sample.thread,
                    time: sample.time.saturating_sub(before),
                    stack: sample.stack,
                    weight: self.by.of_sample(sample.weight),
                }
            }
            None => {
                let entry = self.profile.aggregated.get(index)?;
                Row {
                    event: entry.event,
                    thread: entry.thread,
                    time: 0,
                    stack: entry.stack,
                    weight: self.by.of(entry),
                }
            }
        })
    }
}

/// A thread with its samples.
pub(super) struct ThreadSamples {
    name: String,
    process: String,
    pid: Option<i32>,
    tid: Option<i32>,
    /// Indexes of its rows, in order of time.
    rows: Vec<u32>,
    weight: u64,
}

/// Identity of a thread in the file: by its numbers, or by its name where it has none.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Numbers(i32, i32),
    Name(ThreadId),
}

/// Returns the threads with rows of an event, the one with most weight first.
pub(super) fn of(
    profile: &Profile,
    event: usize,
    rows: &Rows<'_>,
    tables: &mut Tables<'_>,
) -> Vec<ThreadSamples> {
    let names = CleanNames::new(profile);
    let mut threads: Vec<ThreadSamples> = Vec::new();
    let mut by_key: FxHashMap<Key, usize> = FxHashMap::default();
    // Place of each thread of the profile in the list, and the name that it has there.
    let mut by_id: Vec<Option<usize>> = vec![None; profile.threads.len()];
    for (index, row) in (0..rows.len()).filter_map(|index| Some((index, rows.get(index)?))) {
        if row.event != event {
            continue;
        }
        let known = by_id.get(row.thread.0 as usize).copied().flatten();
        let place = known.unwrap_or_else(|| {
            let Thread { pid, tid, .. } = *profile.thread(row.thread);
            let key = match (pid, tid) {
                (Some(pid), Some(tid)) => Key::Numbers(pid, tid),
                _ => Key::Name(row.thread),
            };
            let place = *by_key.entry(key).or_insert_with(|| {
                threads.push(ThreadSamples {
                    name: String::new(),
                    process: String::new(),
                    pid,
                    tid,
                    rows: Vec::new(),
                    weight: 0,
                });
                threads.len() - 1
            });
            by_id[row.thread.0 as usize] = Some(place);
            place
        });
        let thread = &mut threads[place];
        thread.rows.push(index as u32);
        thread.weight = thread.weight.saturating_add(row.weight);
        tables.stack(row.stack);
    }
    for thread in &mut threads {
        let time = |row: &u32| rows.get(*row as usize).map(|row| row.time);
        thread.rows.sort_by_key(time);
        // A thread that changed its name has its last one.
        let last = thread.rows.last().and_then(|row| rows.get(*row as usize));
        if let Some(last) = last {
            let Thread {
                comm, process_comm, ..
            } = *profile.thread(last.thread);
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
    /// Writes the thread. `is_time`: weights are nanoseconds.
    pub(super) fn write(
        &self,
        rows: &Rows<'_>,
        tables: &Tables<'_>,
        origin: u64,
        is_time: bool,
        markers: &Markers<'_>,
        json: &mut Json<'_>,
    ) -> io::Result<()> {
        let all = || (self.rows.iter()).filter_map(|row| rows.get(*row as usize));
        let first = all()
            .next()
            .map_or(0, |row| row.time.saturating_sub(origin));
        json.begin()?;
        json.value("name", &self.name)?;
        json.value("processName", &self.process)?;
        json.value("processType", &"default")?;
        json.value("processStartupTime", &0)?;
        json.value("processShutdownTime", &())?;
        json.value("registerTime", &milliseconds(first))?;
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
        json.column("stack", all().map(|row| tables.number(row.stack)))?;
        let mut before = origin;
        let deltas = all().map(|row| {
            let delta = row.time.saturating_sub(before);
            before = row.time.max(before);
            milliseconds(delta)
        });
        json.column("timeDeltas", deltas)?;
        match is_time {
            true => {
                json.column("weight", all().map(|row| milliseconds(row.weight)))?;
                json.value("weightType", &"tracing-ms")?;
                let ran = |row: Row| match rows.is_wait(row.event, row.stack) {
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
        json.value("length", &self.rows.len())?;
        json.end()?;
        json.end()
    }
}

fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

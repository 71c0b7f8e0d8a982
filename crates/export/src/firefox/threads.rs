//! Samples of each thread, in order of time.

use std::cmp::Reverse;
use std::io;

use rprof_profile::{Profile, SampleColumns, StackId, Thread, ThreadId};
use rustc_hash::FxHashMap;
use serde_json::json;

use super::json::Json;
use super::markers::Markers;
use super::tables::Tables;
use crate::names::CleanNames;

/// A thread with its samples.
pub(super) struct ThreadSamples {
    name: String,
    process: String,
    pid: Option<i32>,
    tid: Option<i32>,
    samples: Vec<Row>,
}

/// One sample, or all samples of a stack where none has a time.
struct Row {
    time: u64,
    stack: Option<u32>,
    weight: u64,
}

/// Identity of a thread in the file: by its numbers, or by its name where it has none.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Numbers(i32, i32),
    Name(ThreadId),
}

/// Returns the threads with samples of an event, the one with most weight first.
pub(super) fn of(profile: &Profile, event: usize, tables: &mut Tables<'_>) -> Vec<ThreadSamples> {
    let names = CleanNames::new(profile);
    let mut threads: FxHashMap<Key, ThreadSamples> = FxHashMap::default();
    let mut add = |thread: ThreadId, stack: StackId, time: u64, weight: u64| {
        let Thread {
            pid,
            tid,
            comm,
            process_comm,
        } = *profile.thread(thread);
        let key = match (pid, tid) {
            (Some(pid), Some(tid)) => Key::Numbers(pid, tid),
            _ => Key::Name(thread),
        };
        let entry = threads.entry(key).or_insert_with(|| ThreadSamples {
            name: String::new(),
            process: String::new(),
            pid,
            tid,
            samples: Vec::new(),
        });
        // A thread that changed its name has its last one.
        if entry.name != *names.comm(comm) {
            entry.name = names.comm(comm).into_owned();
            entry.process = names.comm(process_comm.unwrap_or(comm)).into_owned();
        }
        entry.samples.push(Row {
            time,
            stack: tables.stack(stack),
            weight,
        });
    };
    match &profile.samples {
        Some(samples) => {
            for sample in SampleColumns::iter(samples).filter(|sample| sample.event == event) {
                add(sample.thread, sample.stack, sample.time, sample.weight);
            }
        }
        None => {
            for entry in profile
                .aggregated
                .iter()
                .filter(|entry| entry.event == event)
            {
                add(entry.thread, entry.stack, 0, entry.weight);
            }
        }
    }
    let mut threads: Vec<ThreadSamples> = threads.into_values().collect();
    threads.sort_by_cached_key(|thread| {
        let weight: u64 = thread.samples.iter().map(|row| row.weight).sum();
        (Reverse(weight), thread.pid, thread.tid, thread.name.clone())
    });
    threads
}

impl ThreadSamples {
    /// Writes the thread. `is_time`: weights are nanoseconds.
    pub(super) fn write(
        &self,
        origin: u64,
        is_time: bool,
        markers: &Markers<'_>,
        json: &mut Json<'_>,
    ) -> io::Result<()> {
        let since = |row: &Row| milliseconds(row.time.saturating_sub(origin));
        let first = self.samples.first().map_or(0.0, since);
        json.begin()?;
        json.value("name", &self.name)?;
        json.value("processName", &self.process)?;
        json.value("processType", &"default")?;
        json.value("processStartupTime", &0)?;
        json.value("processShutdownTime", &())?;
        json.value("registerTime", &first)?;
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
        json.column("stack", self.samples.iter().map(|row| row.stack))?;
        let mut before = origin;
        let deltas = self.samples.iter().map(|row| {
            let delta = row.time.saturating_sub(before);
            before = row.time.max(before);
            milliseconds(delta)
        });
        json.column("timeDeltas", deltas)?;
        match is_time {
            true => {
                let weights = self.samples.iter().map(|row| milliseconds(row.weight));
                json.column("weight", weights)?;
                json.value("weightType", &"tracing-ms")?;
                json.column("threadCPUDelta", self.samples.iter().map(|row| row.weight))?;
            }
            false => {
                json.column("weight", self.samples.iter().map(|row| row.weight))?;
                json.value("weightType", &"samples")?;
            }
        }
        json.value("length", &self.samples.len())?;
        json.end()?;
        json.end()
    }
}

fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

//! speedscope's own format: a profile for each thread, in order of time, over one table of frames.
//!
//! Source: <https://www.speedscope.app/file-format-schema.json>, version 1.25. Weights of clocks are nanoseconds; time in
//! which a thread did not run is an empty stack, so that all threads have one time line. Of a profile without single
//! samples each thread's stacks come in no order, and without gaps.

use std::io::{self, Write};

use rprof_profile::{FileId, FrameId, Profile, SampleColumns, StackId, ThreadId, WeightUnit};
use rustc_hash::FxHashMap;
use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};

use crate::frame_text::frame_name;
use crate::names::CleanNames;
use crate::options::ReportOptions;

#[derive(Serialize)]
struct File<'p> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: &'static str,
    name: String,
    #[serde(rename = "activeProfileIndex")]
    active: usize,
    shared: Shared,
    profiles: Vec<Sampled<'p>>,
}

#[derive(Serialize)]
struct Shared {
    frames: Vec<FrameEntry>,
}

#[derive(Serialize)]
struct FrameEntry {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
struct Sampled<'p> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    #[serde(rename = "startValue")]
    start: u64,
    #[serde(rename = "endValue")]
    end: u64,
    samples: Stacks<'p>,
    weights: Vec<u64>,
}

/// Stacks of a thread, `None` where it did not run; written without being held as lists.
struct Stacks<'p> {
    profile: &'p Profile,
    numbers: &'p FxHashMap<FrameId, u32>,
    stacks: Vec<Option<StackId>>,
}

impl Serialize for Stacks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.stacks.len()))?;
        for stack in &self.stacks {
            let frames = stack.iter().flat_map(|stack| self.profile.frames(*stack));
            // Root first, as speedscope has them.
            let numbers: Vec<u32> = frames
                .filter_map(|frame| self.numbers.get(&frame).copied())
                .collect();
            list.serialize_element(&numbers)?;
        }
        list.end()
    }
}

/// Writes the samples of the main event.
///
/// # Errors
/// `out` does.
pub fn write(profile: &Profile, _: &ReportOptions, out: &mut dyn Write) -> io::Result<()> {
    let event = profile.main_event();
    let (frames, numbers) = frame_table(profile);
    let is_time = event.is_some_and(|event| profile.events[event].unit == WeightUnit::Nanoseconds);
    let origin = profile.time.map_or(0, |(first, _)| first);
    let mut threads = match event {
        Some(event) if profile.samples.is_some() => in_time(profile, event, origin, is_time),
        Some(event) => summed(profile, event),
        None => Vec::new(),
    };
    let weight = |entry: &OfThread| {
        entry
            .runs
            .iter()
            .filter(|run| run.0.is_some())
            .map(|run| run.1)
            .sum::<u64>()
    };
    threads.sort_by_cached_key(|entry| (std::cmp::Reverse(weight(entry)), entry.name.clone()));
    let profiles: Vec<Sampled<'_>> = (threads.into_iter())
        .map(|entry| Sampled {
            kind: "sampled",
            unit: if is_time { "nanoseconds" } else { "none" },
            start: 0,
            end: entry.runs.iter().map(|run| run.1).sum(),
            samples: Stacks {
                profile,
                numbers: &numbers,
                stacks: entry.runs.iter().map(|run| run.0).collect(),
            },
            weights: entry.runs.iter().map(|run| run.1).collect(),
            name: entry.name,
        })
        .collect();
    let name = event.map(|event| CleanNames::new(profile).event(event).into_owned());
    let file = File {
        schema: "https://www.speedscope.app/file-format-schema.json",
        exporter: concat!("rprof@", env!("CARGO_PKG_VERSION")),
        name: name.unwrap_or_default(),
        active: 0,
        shared: Shared { frames },
        profiles,
    };
    serde_json::to_writer(&mut *out, &file)?;
    out.write_all(b"\n")
}

/// Runs of a thread: stacks, each with a weight, in order; `None` where it did not run.
struct OfThread {
    name: String,
    runs: Vec<(Option<StackId>, u64)>,
}

impl OfThread {
    /// Adds a sample. Neighbours of one stack are one.
    fn push(&mut self, stack: Option<StackId>, weight: u64) {
        match self.runs.last_mut() {
            Some((last, sum)) if *last == stack => *sum = sum.saturating_add(weight),
            _ => self.runs.push((stack, weight)),
        }
    }
}

/// Returns the table of frames, each once by what it shows, and the place of each frame in it.
fn frame_table(profile: &Profile) -> (Vec<FrameEntry>, FxHashMap<FrameId, u32>) {
    let mut frames = Vec::new();
    let mut numbers = FxHashMap::default();
    let mut known: FxHashMap<(String, Option<FileId>, Option<u32>), u32> = FxHashMap::default();
    for entry in &profile.aggregated {
        for id in profile.frames(entry.stack) {
            if numbers.contains_key(&id) {
                continue;
            }
            let frame = profile.frame(id);
            let line = frame.line.filter(|line| line.line > 0);
            let key = (
                frame_name(profile, frame.function),
                line.map(|l| l.file),
                line.map(|l| l.line),
            );
            let number = *known.entry(key).or_insert_with_key(|(name, file, line)| {
                frames.push(FrameEntry {
                    name: name.clone(),
                    file: file.map(|file| {
                        crate::clean::clean(&profile.files[file.0 as usize]).into_owned()
                    }),
                    line: *line,
                });
                frames.len() as u32 - 1
            });
            numbers.insert(id, number);
        }
    }
    (frames, numbers)
}

/// Returns the samples of each thread in order of time. A sample of a clock stands for the time before it.
fn in_time(profile: &Profile, event: usize, origin: u64, is_time: bool) -> Vec<OfThread> {
    let mut threads: FxHashMap<ThreadId, (OfThread, u64)> = FxHashMap::default();
    for sample in profile.samples.iter().flat_map(SampleColumns::iter) {
        if sample.event != event {
            continue;
        }
        let (thread, until) = threads.entry(sample.thread).or_insert_with(|| {
            let runs = Vec::new();
            (
                OfThread {
                    name: thread_title(profile, sample.thread),
                    runs,
                },
                0,
            )
        });
        if is_time {
            let now = sample.time.saturating_sub(origin);
            let gap = now.saturating_sub(sample.weight).saturating_sub(*until);
            // Less than a period is what timers are late by.
            if gap > sample.weight {
                thread.push(None, gap);
                *until = until.saturating_add(gap);
            }
            *until = until.saturating_add(sample.weight);
        }
        thread.push(Some(sample.stack), sample.weight);
    }
    threads.into_values().map(|(thread, _)| thread).collect()
}

/// Returns the stacks of each thread, in no order.
fn summed(profile: &Profile, event: usize) -> Vec<OfThread> {
    let mut threads: FxHashMap<ThreadId, OfThread> = FxHashMap::default();
    for entry in profile
        .aggregated
        .iter()
        .filter(|entry| entry.event == event)
    {
        let thread = threads.entry(entry.thread).or_insert_with(|| OfThread {
            name: thread_title(profile, entry.thread),
            runs: Vec::new(),
        });
        thread.push(Some(entry.stack), entry.weight);
    }
    threads.into_values().collect()
}

fn thread_title(profile: &Profile, id: ThreadId) -> String {
    let thread = profile.thread(id);
    let name = CleanNames::new(profile).comm(thread.comm);
    match (thread.pid, thread.tid) {
        (Some(pid), Some(tid)) => format!("{name} {pid}/{tid}"),
        _ => name.into_owned(),
    }
}

//! speedscope's own format: a profile for each thread, in order of time, over one table of frames.
//!
//! Source: <https://www.speedscope.app/file-format-schema.json>, version 1.25. Weights of clocks are nanoseconds, unless each sample
//! counts as one; time in which a thread did not run is an empty stack, so that all threads have one time line. Of a profile without single
//! samples each thread's stacks come in no order, and without gaps.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::ops::Range;

use rprof_profile::{
    FileId, FrameId, FrameListId, Profile, SampleColumns, StackId, ThreadId, WeighBy, WeightUnit,
};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use crate::frame_text::frame_name;
use crate::json_writer::JsonWriter;
use crate::names::{CleanName, CleanNames};
use crate::options::ReportOptions;

#[derive(Serialize)]
struct FrameEntry {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

/// Writes the samples of the main event.
///
/// # Errors
/// `out` does.
pub fn write(profile: &Profile, options: &ReportOptions, out: &mut dyn Write) -> io::Result<()> {
    let event = profile.main_event();
    let (frames, numbers) = frame_table(profile);
    let by = options.rows.weight;
    let is_time = by == WeighBy::Period
        && event.is_some_and(|event| profile.events[event].unit == WeightUnit::Nanoseconds);
    let origin = profile.time.map_or(0, |(first, _)| first);
    let mut threads = match event {
        Some(event) if profile.samples.is_some() => in_time(profile, event, by, origin, is_time),
        Some(event) => summed(profile, event, by),
        None => Vec::new(),
    };
    let weight = |entry: &OfThread| {
        let runs = entry.runs.iter().filter(|run| run.0.is_some());
        runs.map(|run| run.1).sum::<u64>()
    };
    threads.sort_by_cached_key(|entry| (std::cmp::Reverse(weight(entry)), entry.name.clone()));
    let name = event.map(|event| CleanNames::new(profile).event(event).into_owned());
    let lists = ListTexts::new(profile, &numbers);
    // Values come one by one.
    let mut json = JsonWriter::new(BufWriter::with_capacity(64 << 10, out));
    json.begin()?;
    json.value(
        "$schema",
        &"https://www.speedscope.app/file-format-schema.json",
    )?;
    json.value("exporter", &concat!("rprof@", env!("CARGO_PKG_VERSION")))?;
    json.value("name", &name.unwrap_or_default())?;
    json.value("activeProfileIndex", &0)?;
    json.key("shared")?;
    json.begin()?;
    json.value("frames", &frames)?;
    json.end()?;
    json.key("profiles")?;
    json.begin_list()?;
    for thread in &threads {
        thread.write(is_time, &lists, &mut json)?;
    }
    json.end_list()?;
    json.end()?;
    json.finish()?.flush()
}

/// Lists of frames as JSON: numbers with commas between them, root first.
struct ListTexts<'p> {
    profile: &'p Profile,
    /// All of them, one behind the other.
    text: String,
    places: FxHashMap<FrameListId, Range<usize>>,
}

impl<'p> ListTexts<'p> {
    /// Makes those of all stacks with samples.
    fn new(profile: &'p Profile, numbers: &[u32]) -> ListTexts<'p> {
        let (mut text, mut places) = (String::new(), FxHashMap::default());
        for entry in &profile.aggregated {
            let (outer, inner) = profile.lists(entry.stack);
            for list in [outer, inner] {
                places.entry(list).or_insert_with(|| {
                    let begin = text.len();
                    for frame in profile.list(list) {
                        if text.len() > begin {
                            text.push(',');
                        }
                        let number = numbers.get(frame.0 as usize).copied().unwrap_or(0);
                        // Writing into memory does not fail.
                        let _ = write!(text, "{number}");
                    }
                    begin..text.len()
                });
            }
        }
        ListTexts {
            profile,
            text,
            places,
        }
    }

    fn get(&self, list: FrameListId) -> &str {
        let place = self.places.get(&list).cloned().unwrap_or_default();
        self.text.get(place).unwrap_or_default()
    }

    /// Returns the two lists of a stack, callers first.
    fn of(&self, stack: StackId) -> [&str; 2] {
        let (outer, inner) = self.profile.lists(stack);
        [self.get(outer), self.get(inner)]
    }
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

    /// Writes the thread. `is_time`: weights are nanoseconds.
    fn write<W: Write>(
        &self,
        is_time: bool,
        lists: &ListTexts<'_>,
        json: &mut JsonWriter<W>,
    ) -> io::Result<()> {
        json.begin()?;
        json.value("type", &"sampled")?;
        json.value("name", &self.name)?;
        let unit = if is_time { "nanoseconds" } else { "none" };
        json.value("unit", &unit)?;
        json.value("startValue", &0)?;
        let end: u64 = self.runs.iter().map(|run| run.1).sum();
        json.value("endValue", &end)?;
        json.key("samples")?;
        json.begin_list()?;
        for (stack, _) in &self.runs {
            json.begin_list()?;
            for frames in stack.iter().flat_map(|stack| lists.of(*stack)) {
                json.raw_items(frames)?;
            }
            json.end_list()?;
        }
        json.end_list()?;
        json.column("weights", self.runs.iter().map(|run| run.1))?;
        json.end()
    }
}

/// Returns the table of frames, each once by what it shows, and the place of each frame in it by its id.
fn frame_table(profile: &Profile) -> (Vec<FrameEntry>, Vec<u32>) {
    const UNKNOWN: u32 = u32::MAX;
    let mut frames = Vec::new();
    let mut numbers: Vec<u32> = Vec::new();
    let mut known: FxHashMap<(String, Option<FileId>, Option<u32>), u32> = FxHashMap::default();
    let mut add = |id: FrameId| {
        let place = id.0 as usize;
        if numbers.len() <= place {
            numbers.resize(place + 1, UNKNOWN);
        }
        if numbers[place] != UNKNOWN {
            return;
        }
        let frame = profile.frame(id);
        let line = frame.line.filter(|line| line.line > 0);
        let key = (
            frame_name(profile, frame.function),
            line.map(|l| l.file),
            line.map(|l| l.line),
        );
        numbers[place] = *known.entry(key).or_insert_with_key(|(name, file, line)| {
            let path = |file: FileId| CleanName::new(&profile.files[file.0 as usize]).into_owned();
            frames.push(FrameEntry {
                name: name.clone(),
                file: file.map(path),
                line: *line,
            });
            frames.len() as u32 - 1
        });
    };
    let mut seen: FxHashSet<FrameListId> = FxHashSet::default();
    for entry in &profile.aggregated {
        let (outer, inner) = profile.lists(entry.stack);
        for list in [outer, inner] {
            if seen.insert(list) {
                profile.list(list).for_each(&mut add);
            }
        }
    }
    (frames, numbers)
}

/// Returns the samples of each thread in order of time. A sample of a clock stands for the time before it.
fn in_time(
    profile: &Profile,
    event: usize,
    by: WeighBy,
    origin: u64,
    is_time: bool,
) -> Vec<OfThread> {
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
        thread.push(Some(sample.stack), by.of_sample(sample.weight));
    }
    threads.into_values().map(|(thread, _)| thread).collect()
}

/// Returns the stacks of each thread, in no order.
fn summed(profile: &Profile, event: usize, by: WeighBy) -> Vec<OfThread> {
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
        thread.push(Some(entry.stack), by.of(entry));
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

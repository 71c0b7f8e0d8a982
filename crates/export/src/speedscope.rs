//! speedscope's own format: one profile per thread, in time order, with a shared frame table.
//!
//! Source: <https://www.speedscope.app/file-format-schema.json>, version 1.25. Weights of clocks
//! are nanoseconds, unless the options weigh each sample as 1. An empty stack marks time off the
//! CPU, so that all threads share one timeline. If the profile has no single samples, the stacks of
//! a thread are unordered and have no gaps.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::Range;

use rprof_profile::{FileId, FrameId, FrameListId, Profile, ThreadId, WeighBy, WeightUnit};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use crate::frame_text::frame_name;
use crate::json_writer::{JsonWriter, number};
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
/// Fails if the writer does.
pub fn write(profile: &Profile, options: &ReportOptions, out: &mut dyn Write) -> io::Result<()> {
    let event = profile.main_event();
    let (frames, numbers) = frame_table(profile);
    let by = options.rows.weight;
    let is_time = by == WeighBy::Period
        && event.is_some_and(|event| profile.events[event].unit == WeightUnit::Nanoseconds);
    let origin = profile.time.map_or(0, |(first, _)| first);
    let threads = event.map_or_else(Vec::new, |event| threads(profile, event, by));
    let samples = Samples {
        profile,
        // Without a main event, no thread has samples.
        event: event.unwrap_or_default(),
        by,
        origin,
        is_time,
    };
    let name = event.map(|event| CleanNames::new(profile).event(event).into_owned());
    let lists = ListTexts::new(profile, &numbers);
    let mut json = JsonWriter::new(out);
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
        thread.write(&samples, &lists, &mut json)?;
    }
    json.end_list()?;
    json.end()?;
    json.finish()?.flush()
}

/// Frame lists as JSON text: comma-separated numbers, root first.
struct ListTexts {
    text: String,
    places: FxHashMap<FrameListId, Range<usize>>,
}

impl ListTexts {
    fn new(profile: &Profile, numbers: &[u32]) -> ListTexts {
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
                        let number = numbers.get(frame.index()).copied().unwrap_or(0);
                        // Writing into memory does not fail.
                        let _ = write!(text, "{number}");
                    }
                    begin..text.len()
                });
            }
        }
        ListTexts { text, places }
    }

    fn get(&self, list: FrameListId) -> &str {
        let place = self.places.get(&list).cloned().unwrap_or_default();
        self.text.get(place).unwrap_or_default()
    }

    fn of(&self, stack: (FrameListId, FrameListId)) -> [&str; 2] {
        [self.get(stack.0), self.get(stack.1)]
    }
}

struct ThreadEntry {
    id: ThreadId,
    name: String,
    weight: u64,
    /// Indexes of the thread's profile entries, if samples have no time.
    entries: Vec<usize>,
}

/// Returns the threads with samples of an event, heaviest first.
fn threads(profile: &Profile, event: usize, by: WeighBy) -> Vec<ThreadEntry> {
    let mut threads: FxHashMap<ThreadId, ThreadEntry> = FxHashMap::default();
    let entries = profile.aggregated.iter().enumerate();
    for (index, entry) in entries.filter(|(_, entry)| entry.event == event) {
        let thread = threads.entry(entry.thread).or_insert_with(|| ThreadEntry {
            id: entry.thread,
            name: thread_title(profile, entry.thread),
            weight: 0,
            entries: Vec::new(),
        });
        thread.weight = thread.weight.saturating_add(by.of(entry));
        if profile.streams.is_none() {
            thread.entries.push(index);
        }
    }
    let mut threads: Vec<ThreadEntry> = threads.into_values().collect();
    threads.sort_by_cached_key(|thread| {
        (
            std::cmp::Reverse(thread.weight),
            thread.name.clone(),
            thread.id,
        )
    });
    threads
}

impl ThreadEntry {
    fn write<W: Write>(
        &self,
        samples: &Samples<'_>,
        lists: &ListTexts,
        json: &mut JsonWriter<W>,
    ) -> io::Result<()> {
        json.begin()?;
        json.value("type", &"sampled")?;
        json.value("name", &self.name)?;
        let is_time = samples.is_time;
        json.value("unit", if is_time { &"nanoseconds" } else { &"none" })?;
        json.value("startValue", &0)?;
        json.key("samples")?;
        json.begin_list()?;
        let mut end = 0u64;
        for run in samples.runs(self) {
            end = end.saturating_add(run.weight);
            json.begin_list()?;
            for frames in run.stack.iter().flat_map(|stack| lists.of(*stack)) {
                json.raw_items(frames)?;
            }
            json.end_list()?;
        }
        json.end_list()?;
        json.column_with("weights", samples.runs(self).map(|run| run.weight), number)?;
        json.value("endValue", &end)?;
        json.end()
    }
}

/// Adjacent samples with the same stack; `None` means off-CPU.
#[derive(Clone, Copy)]
struct Run {
    stack: Option<(FrameListId, FrameListId)>,
    weight: u64,
}

struct Samples<'p> {
    profile: &'p Profile,
    event: usize,
    by: WeighBy,
    origin: u64,
    is_time: bool,
}

impl Samples<'_> {
    /// Iterates over the runs of a thread, in time order if samples have times.
    fn runs<'a>(&'a self, thread: &'a ThreadEntry) -> impl Iterator<Item = Run> + 'a {
        let mut runs = self.in_time(thread).chain(self.summed(thread)).peekable();
        std::iter::from_fn(move || {
            let mut run = runs.next()?;
            while let Some(more) = runs.next_if(|next| next.stack == run.stack) {
                run.weight = run.weight.saturating_add(more.weight);
            }
            Some(run)
        })
    }

    /// Iterates over samples and gaps. A clock sample covers the time before it.
    fn in_time<'a>(&'a self, thread: &'a ThreadEntry) -> impl Iterator<Item = Run> + 'a {
        let mut until = 0u64;
        let streams = self.profile.streams.as_ref();
        let samples = streams
            .into_iter()
            .flat_map(|streams| streams.of(thread.id));
        samples
            .filter_map(|sample| {
                let entry = self.profile.aggregated.get(sample.entry as usize)?;
                (entry.event == self.event).then_some((sample, entry.stack))
            })
            .flat_map(move |(sample, stack)| {
                let mut idle = None;
                if self.is_time {
                    let now = sample.time.saturating_sub(self.origin);
                    let gap = now.saturating_sub(sample.weight).saturating_sub(until);
                    // A gap shorter than a period is timer latency.
                    if gap > sample.weight {
                        idle = Some(Run {
                            stack: None,
                            weight: gap,
                        });
                        until = until.saturating_add(gap);
                    }
                    until = until.saturating_add(sample.weight);
                }
                let run = Run {
                    stack: Some(self.profile.lists(stack)),
                    weight: self.by.of_sample(sample.weight),
                };
                idle.into_iter().chain([run])
            })
    }

    fn summed<'a>(&'a self, thread: &'a ThreadEntry) -> impl Iterator<Item = Run> + 'a {
        let entries = thread.entries.iter();
        let entries = entries.filter_map(|index| self.profile.aggregated.get(*index));
        entries.map(|entry| Run {
            stack: Some(self.profile.lists(entry.stack)),
            weight: self.by.of(entry),
        })
    }
}

/// Returns the distinct frames, and the table index of each frame id.
fn frame_table(profile: &Profile) -> (Vec<FrameEntry>, Vec<u32>) {
    const UNKNOWN: u32 = u32::MAX;
    let mut frames = Vec::new();
    let mut numbers: Vec<u32> = Vec::new();
    let mut known: FxHashMap<(String, Option<FileId>, Option<u32>), u32> = FxHashMap::default();
    let mut add = |id: FrameId| {
        let place = id.index();
        if numbers.len() <= place {
            numbers.resize(place + 1, UNKNOWN);
        }
        if numbers[place] != UNKNOWN {
            return;
        }
        let frame = profile.frame(id);
        let line = frame.line.filter(|line| line.line > 0);
        let source = profile.function(frame.function).source.as_deref();
        let key = match source {
            Some(source) => (
                CleanName::new(&source.name).into_owned(),
                source.file,
                Some(source.line).filter(|line| *line > 0),
            ),
            None => (
                frame_name(profile, frame.function),
                line.map(|l| l.file),
                line.map(|l| l.line),
            ),
        };
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

fn thread_title(profile: &Profile, id: ThreadId) -> String {
    let thread = profile.thread(id);
    let name = CleanNames::new(profile).comm(thread.comm);
    match (thread.pid, thread.tid) {
        (Some(pid), Some(tid)) => format!("{name} {pid}/{tid}"),
        _ => name.into_owned(),
    }
}

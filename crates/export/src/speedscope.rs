//! speedscope's own format: one profile per thread, in time order, with a shared frame table.
//!
//! Source: <https://www.speedscope.app/file-format-schema.json>, version 1.25. Weights of clocks
//! are nanoseconds, unless the options weigh each sample as 1. An empty stack marks time off the
//! CPU, so that all threads share one timeline. If the profile has no single samples, the stacks of
//! a thread are unordered and have no gaps.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::Range;

use rprof_profile::{FileId, FrameId, FrameListId, Profile};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use crate::frame_text::shown_name;
use crate::json_writer::{JsonWriter, number};
use crate::names::{CleanName, CleanNames};
use crate::options::ReportOptions;
use crate::timelines::{Timeline, Timelines};

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
    // No thread has samples.
    let timelines = Timelines::new(profile, event.unwrap_or_default(), options.rows.weight);
    let threads = event.map_or_else(Vec::new, |_| timelines.threads());
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
        write_thread(thread, &timelines, &lists, &mut json)?;
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

fn write_thread<W: Write>(
    thread: &Timeline,
    timelines: &Timelines<'_>,
    lists: &ListTexts,
    json: &mut JsonWriter<W>,
) -> io::Result<()> {
    json.begin()?;
    json.value("type", &"sampled")?;
    json.value("name", &thread.name)?;
    let is_time = timelines.is_time;
    json.value("unit", if is_time { &"nanoseconds" } else { &"none" })?;
    json.value("startValue", &0)?;
    json.key("samples")?;
    json.begin_list()?;
    let mut end = 0u64;
    for run in timelines.runs(thread) {
        end = end.saturating_add(run.weight);
        json.begin_list()?;
        for frames in run.stack.iter().flat_map(|stack| lists.of(*stack)) {
            json.raw_items(frames)?;
        }
        json.end_list()?;
    }
    json.end_list()?;
    json.column_with(
        "weights",
        timelines.runs(thread).map(|run| run.weight),
        number,
    )?;
    json.value("endValue", &end)?;
    json.end()
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
                shown_name(profile, frame.function),
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

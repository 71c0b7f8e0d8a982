//! Output of `perf script` and `rprof script`: a line for each sample, and one for each frame, leaf
//! first.
//!
//! ```text
//! sh  1234/1235 [001]  12.345678:     250000 cpu-clock:
//!         7f12 __libc_read+0x12 (/usr/lib/libc.so.6)
//!         4010 main+0x10 (/usr/bin/sh)
//! ```
//!
//! Any selection of fields is accepted. Samples without callchains have their frame on the first
//! line; tracepoints have their payload there. A sample without any frame belongs to the thread
//! only. Lines of other records are skipped. Text is read by line: memory is linear in the distinct
//! stacks, and limited by the budget.

mod frame_line;
mod head;

use std::io::BufRead;
use std::path::Path;

use rprof_profile::limits::MAX_FRAMES;
use rprof_profile::{
    Frame, FrameAddress, FrameId, FunctionId, ObjectId, Profile, StackId, ThreadId, WeightUnit,
    is_modifier,
};
use rustc_hash::FxHashMap;

use crate::collector::{Collector, Row, UNKNOWN};
use crate::lines::{Lines, Refused};
use crate::{Failed, ImportOptions};
pub(crate) use frame_line::FrameLine;
use head::{Head, Line};

/// Evidence of the format in the first lines of a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Evidence {
    /// A line is the first of a sample or another record, or a frame follows one.
    Samples,
    /// Hexadecimal records of `perf script -D` or `perf report -D`.
    RawDump,
    /// Frames without a line above them, as `perf script -F ip,sym,dso` prints.
    FramesOnly,
    None,
}

/// Text that `perf script -D` prints before the bytes of a record.
const RAW_EVENT: &str = ". ... raw event: size ";

/// Returns the evidence in the first lines of a text.
pub(crate) fn evidence<'t>(lines: impl Iterator<Item = &'t str>) -> Evidence {
    let (mut is_below_a_line, mut has_frames) = (false, false);
    for line in lines {
        if line.trim().is_empty() || line.starts_with('#') {
            is_below_a_line = false;
            continue;
        }
        if line.starts_with(RAW_EVENT) {
            return Evidence::RawDump;
        }
        if FrameLine::is_proof(line) {
            if is_below_a_line && line.starts_with(char::is_whitespace) {
                return Evidence::Samples;
            }
            has_frames = true;
            continue;
        }
        match Line::parse(line) {
            // Folded stacks may have any text before a semicolon.
            Some(Line::Sample(head)) if !head.comm.contains(';') && is_evident(&head, line) => {
                return Evidence::Samples;
            }
            Some(Line::Record) => return Evidence::Samples,
            _ => {}
        }
        has_frames |= FrameLine::is_in_column(line);
        is_below_a_line |= !line.starts_with('\t');
    }
    match has_frames {
        true => Evidence::FramesOnly,
        false => Evidence::None,
    }
}

/// Returns true if the line alone proves that it is the first of a sample.
fn is_evident(head: &Head<'_>, line: &str) -> bool {
    let is_frame = || FrameLine::is_proof(head.rest) || FrameLine::is_in_column(line);
    match head.is_certain {
        true if head.time.is_some() => true,
        true => line.ends_with(": ") || is_tracepoint(head.event) || is_frame(),
        false => {
            let has_field = head.tid.is_some() || head.time.is_some() || !head.event.is_empty();
            has_field && is_frame()
        }
    }
}

/// Returns true if `perf script` prints such a line for only a thread, or its thread and event,
/// padded with spaces. It contains no frames. Folded stacks have another form.
pub(crate) fn is_padded_thread(line: &str) -> bool {
    let is_padded = line.starts_with(' ') && line.ends_with(' ');
    is_padded && matches!(Line::parse(line), Some(Line::Sample(head)) if head.tid.is_some())
}

/// First line of the current sample. It owns its strings, because the reader reuses the line.
#[derive(Debug, Default)]
struct Sample {
    comm: String,
    pid: Option<i32>,
    tid: Option<i32>,
    cpu: Option<u32>,
    time: Option<u64>,
    period: Option<u64>,
    event: String,
    rest: String,
    is_certain: bool,
    line: u64,
}

/// Index of a name in [`Known`].
type Name = u32;

/// Parsed frame line. Equal lines are parsed once.
#[derive(Clone, Copy)]
struct KnownLine {
    address: u64,
    function: Name,
    /// `None` for an inlined call, which has its caller's object.
    object: Option<ObjectId>,
}

/// Cache of lines, names and stacks.
#[derive(Default)]
struct Known {
    events: FxHashMap<Box<str>, usize>,
    lines: FxHashMap<Box<str>, u32>,
    of_lines: Vec<KnownLine>,
    names: FxHashMap<Box<str>, Name>,
    /// Names by index.
    texts: Vec<Box<str>>,
    functions: FxHashMap<(Name, ObjectId), FunctionId>,
    /// Stacks by their line indices, leaf first; `None` if the filter drops the stack.
    stacks: FxHashMap<Box<[u32]>, Option<StackId>>,
    thread: Option<(Origin, Option<ThreadId>)>,
}

/// Name, pid and tid of a thread.
type Origin = (String, Option<i32>, Option<i32>);

/// Approximate size of an entry of [`Known`] in bytes, without its text.
const ENTRY_BYTES: usize = 96;

impl Known {
    /// Returns the index of a frame line. Calls `parse` if it is new.
    fn line<'l>(
        &mut self,
        line: &'l str,
        parse: impl Fn(&'l str) -> Option<FrameLine<'l>>,
        out: &mut Collector<'_>,
    ) -> Result<Option<u32>, String> {
        let line = line.trim();
        if let Some(known) = self.lines.get(line) {
            return Ok(Some(*known));
        }
        match parse(line) {
            Some(frame) => self.add_line(line, &frame, out).map(Some),
            None => Ok(None),
        }
    }

    fn add_line(
        &mut self,
        line: &str,
        frame: &FrameLine<'_>,
        out: &mut Collector<'_>,
    ) -> Result<u32, String> {
        let function = match self.names.get(frame.function) {
            Some(known) => *known,
            None => {
                out.hold(2 * frame.function.len() + ENTRY_BYTES)?;
                let number = self.texts.len() as Name;
                self.texts.push(frame.function.into());
                self.names.insert(frame.function.into(), number);
                number
            }
        };
        let object = match (frame.is_inlined, frame.object) {
            (true, _) => None,
            (false, "") => Some(out.object(UNKNOWN, None)?),
            (false, object) => Some(out.object(object, None)?),
        };
        out.hold(line.len() + ENTRY_BYTES)?;
        let number = self.of_lines.len() as u32;
        self.of_lines.push(KnownLine {
            address: frame.address,
            function,
            object,
        });
        self.lines.insert(line.into(), number);
        Ok(number)
    }

    /// Returns the stack for some lines, leaf first.
    fn stack(&mut self, lines: &[u32], out: &mut Collector<'_>) -> Result<Option<StackId>, String> {
        if let Some(known) = self.stacks.get(lines) {
            return Ok(*known);
        }
        let mut frames: Vec<FrameId> = Vec::with_capacity(lines.len());
        // perf prints `inlined` instead of the object. An inlined call has its caller's object.
        let mut object = out.object(UNKNOWN, None)?;
        let mut depth = 0;
        for (nth, number) in lines.iter().enumerate().rev() {
            let line = self.of_lines[*number as usize];
            match line.object {
                None => depth += 1,
                Some(own) => (depth, object) = (0, own),
            }
            let key = (line.function, object);
            let function = match self.functions.get(&key) {
                Some(known) => *known,
                None => {
                    let made = out.function(&self.texts[line.function as usize], object)?;
                    out.hold(ENTRY_BYTES)?;
                    self.functions.insert(key, made);
                    made
                }
            };
            let address = match nth {
                0 => FrameAddress::InstructionPointer(line.address),
                _ => FrameAddress::ReturnAddress(line.address),
            };
            frames.push(out.frame(Frame {
                address: Some(address),
                inline_depth: depth,
                ..Frame::of(function)
            })?);
        }
        let stack = out.stack(&frames)?;
        out.hold(size_of_val(lines) + ENTRY_BYTES)?;
        self.stacks.insert(lines.into(), stack);
        Ok(stack)
    }
}

/// Parser state: the current sample, and the rejected lines.
struct Reader<'c, 'o> {
    out: &'c mut Collector<'o>,
    known: Known,
    head: Option<Sample>,
    /// Indices of its frame lines, leaf first.
    frames: Vec<u32>,
    /// True if the first of them begins with a tab, as perf prints it.
    has_tab: bool,
    samples: u64,
    refused: Refused,
    /// True if the text prints tids.
    has_ids: bool,
}

impl Reader<'_, '_> {
    fn read_line(&mut self, line: &str, number: u64) -> Result<(), String> {
        if line.trim().is_empty() {
            return self.end_sample();
        }
        if line.starts_with('#') {
            return Ok(());
        }
        let is_indented = line.starts_with(char::is_whitespace);
        let parsed = Line::parse_as(line, self.has_ids);
        // Without callchains, perf pads commands on the left.
        let is_certain = match &parsed {
            Some(Line::Sample(head)) => head.is_certain,
            Some(Line::Record) => true,
            None => false,
        };
        let takes_frames = |head: &Sample| {
            // A sample with its frame on the first line has no others, except in perf's tab
            // indentation.
            let is_below = line.starts_with('\t') || is_indented && head.rest.is_empty();
            is_below || is_bare_frame(line)
        };
        if !is_certain && self.head.as_ref().is_some_and(takes_frames) {
            // The leaf comes first. Callers beyond the limit are dropped anyway.
            if self.frames.len() <= MAX_FRAMES {
                if self.frames.is_empty() {
                    self.has_tab = line.starts_with('\t');
                }
                // Physical addresses and sizes of pages follow the frames, behind spaces.
                let is_frame = line.starts_with('\t') || !self.has_tab;
                let known = match is_frame {
                    true => self.known.line(line, FrameLine::parse, self.out)?,
                    false => None,
                };
                match known {
                    Some(frame) => self.frames.push(frame),
                    None if !is_frame && is_source_line(line) => {}
                    None => self
                        .refused
                        .add(number, "follows a sample but is not a frame"),
                }
            }
            return Ok(());
        }
        match parsed {
            None => self.refused.add(number, "is neither a sample nor a frame"),
            Some(Line::Record) => self.end_sample()?,
            // Without callchains, no blank line separates samples.
            Some(Line::Sample(head)) => {
                self.end_sample()?;
                self.head = Some(Sample::of(&head, number));
            }
        }
        Ok(())
    }

    /// Adds the current sample, if any.
    fn end_sample(&mut self) -> Result<(), String> {
        let Some(sample) = self.head.take() else {
            return Ok(());
        };
        if self.frames.is_empty() && !is_tracepoint(&sample.event) {
            let line = (self.known).line(&sample.rest, FrameLine::at_end, self.out)?;
            self.frames.extend(line);
        }
        if self.frames.is_empty() && !sample.is_certain {
            let why = "has no frames, and no thread id with a time or an event";
            self.refused.add(sample.line, why);
            return Ok(());
        }
        self.samples += 1;
        let event = match self.known.events.get(&*sample.event) {
            Some(event) => *event,
            None => {
                let event = match &*sample.event {
                    "" => self.out.event("samples", unit_of_nameless(sample.period)),
                    name => self.out.event(name, WeightUnit::of_event(name)),
                };
                self.out.hold(sample.event.len() + ENTRY_BYTES)?;
                self.known
                    .events
                    .insert(sample.event.as_str().into(), event);
                event
            }
        };
        let stack = self.known.stack(&self.frames, self.out)?;
        self.frames.clear();
        let name = match (&*sample.comm, sample.tid) {
            ("", Some(tid)) => format!(":{tid}"),
            ("", None) => UNKNOWN.to_owned(),
            _ => sample.comm,
        };
        let origin = (name, sample.pid, sample.tid);
        let thread = match &self.known.thread {
            Some((known, thread)) if *known == origin => *thread,
            _ => {
                let (name, pid, tid) = &origin;
                let thread = self.out.thread(*pid, *tid, name, None)?;
                self.known.thread = Some((origin, thread));
                thread
            }
        };
        self.out.add(&Row {
            event,
            thread,
            cpu: sample.cpu,
            time: sample.time,
            stack,
            samples: 1,
            weight: sample.period.unwrap_or(1),
        })
    }
}

impl Sample {
    fn of(head: &Head<'_>, line: u64) -> Sample {
        Sample {
            comm: head.comm.to_owned(),
            pid: head.pid,
            tid: head.tid,
            cpu: head.cpu,
            time: head.time,
            period: head.period,
            event: head.event.to_owned(),
            rest: head.rest.to_owned(),
            is_certain: head.is_certain,
            line,
        }
    }
}

/// Returns true if a line without indentation is a frame, as in text that lost its leading spaces.
fn is_bare_frame(line: &str) -> bool {
    FrameLine::parse(line).is_some_and(|frame| !frame.object.is_empty())
}

/// Returns true for a tracepoint, such as `sched:sched_switch`. Its payload follows its name.
fn is_tracepoint(event: &str) -> bool {
    let is_modifiers = |text: &str| text.chars().all(is_modifier);
    let mut parts = event.split(':');
    let group = parts.next().unwrap_or("");
    parts.next().is_some_and(|name| !is_modifiers(name)) && group != "mem" && !group.contains('/')
}

/// Returns the unit of samples without an event name.
fn unit_of_nameless(period: Option<u64>) -> WeightUnit {
    match period {
        Some(_) => WeightUnit::Events,
        None => WeightUnit::Samples,
    }
}

/// Returns true if the first lines of a text print tids. perf prints the same fields for all
/// samples. A command may end in a number.
fn has_ids(start: &str) -> bool {
    let (mut above, mut is_below_a_frame): (Option<Head<'_>>, _) = (None, false);
    for line in start.lines() {
        let is_frame = line.starts_with('\t') && FrameLine::parse(line).is_some();
        if is_frame && above.as_ref().is_some_and(|head| head.tid.is_none()) {
            return false;
        }
        // Source lines and registers stand between frames.
        is_below_a_frame = is_frame || is_below_a_frame && line.starts_with(char::is_whitespace);
        above = match Line::parse(line) {
            Some(Line::Sample(head)) if !is_below_a_frame => Some(head),
            _ => None,
        };
    }
    true
}

pub(crate) fn read(
    input: &mut dyn BufRead,
    source: &Path,
    options: &ImportOptions,
) -> Result<Profile, Failed> {
    let mut out = Collector::new(source, options, true);
    let start = String::from_utf8_lossy(input.fill_buf()?);
    let has_ids = has_ids(&start);
    let mut reader = Reader {
        out: &mut out,
        known: Known::default(),
        head: None,
        frames: Vec::new(),
        has_tab: false,
        samples: 0,
        refused: Refused::default(),
        has_ids,
    };
    let mut lines = Lines::new(input);
    while let Some((number, line)) = lines.next()? {
        match line {
            Ok(line) => reader.read_line(&line, number)?,
            Err(why) => reader.refused.add(number, why),
        }
    }
    reader.end_sample()?;
    let (samples, refused) = (reader.samples, reader.refused);
    if samples == 0 {
        return Err(match refused.first() {
            Some(first) => format!("it has no sample: {first}"),
            None => "it has no sample".to_owned(),
        }
        .into());
    }
    if let Some(told) = refused.told() {
        out.warn(told);
    }
    out.warn(
        "perf script text records neither why functions are unnamed nor whether stacks are \
         complete",
    );
    Ok(out.finish()?)
}

/// Returns true for the line of source code that `-F +srcline` adds below a frame: `  app.c:12`, or
/// `  app[401136]` without debug information.
fn is_source_line(line: &str) -> bool {
    let Some(place) = line.strip_prefix("  ").map(str::trim_end) else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_address = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    let is_line =
        (place.rsplit_once(':')).is_some_and(|(file, line)| !file.is_empty() && is_number(line));
    let bare = place
        .strip_suffix(']')
        .and_then(|place| place.rsplit_once('['));
    !place.starts_with(' ') && (is_line || bare.is_some_and(|(_, address)| is_address(address)))
}

#[cfg(test)]
mod tests;

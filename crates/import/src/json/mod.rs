//! Profiles in JSON: Firefox Profiler, speedscope and V8, also in Chrome traces.

mod cpuprofile;
mod document;
mod firefox;
mod speedscope;
mod stacks;
mod trace;
mod value;

use std::io::{self, BufRead, BufReader};
use std::path::Path;

use rprof_profile::Profile;
use serde::de::DeserializeSeed;
use serde_json::de::IoRead;

use crate::collector::Collector;
use crate::{Failed, ImportOptions};
use document::{Document, TraceEvent};
use value::{Held, Limited, List, Seed};

/// Converts a number to nanoseconds. `unit` is the unit's length in nanoseconds; NaN becomes 0.
fn nanoseconds(number: f64, unit: f64) -> u64 {
    // The cast saturates, and turns NaN into 0.
    (number * unit).round() as u64
}

pub(crate) fn read(
    input: &mut dyn BufRead,
    source: &Path,
    options: &ImportOptions,
) -> Result<Profile, Failed> {
    let mut out = Collector::new(source, options, true);
    let is_list = next_byte(input)? == Some(b'[');
    let mut input = BufReader::new(Limited::new(input));
    let held = Held::new(&mut out);
    let document = if is_list {
        Document {
            trace_events: Some(Box::new(events(&mut input, &held)?)),
            ..Document::default()
        }
    } else {
        let mut json = deserializer(&mut input);
        let document = Seed::<Document>::new(&held).deserialize(&mut json);
        let document = document.and_then(|document| json.end().map(|()| document));
        document.map_err(|error| failed(error, ""))?
    };
    Ok(of_document(document, out)?)
}

fn deserializer<R: BufRead>(input: &mut R) -> serde_json::Deserializer<IoRead<&mut R>> {
    let mut json = serde_json::Deserializer::from_reader(input);
    // `Limited` limits it. Calls of heap profiles are nested.
    json.disable_recursion_limit();
    json
}

/// Converts an error. `place` is a prefix of the message.
fn failed(error: serde_json::Error, place: &str) -> Failed {
    match error.is_io() {
        // I/O errors keep their kind.
        true => Failed::Read(error.into()),
        false if error.is_data() => Failed::Damaged(format!("{place}{KNOWN}, or damaged: {error}")),
        false => Failed::Damaged(format!("{place}{error}")),
    }
}

/// Reads a Chrome trace that is a list of events. Its writers may omit the end of the list, but not
/// of an event (Trace Event Format, "JSON Array Format").
fn events(input: &mut impl BufRead, held: &Held<'_, '_>) -> Result<List<TraceEvent>, Failed> {
    let mut events: Vec<TraceEvent> = Vec::new();
    let (mut count, mut wants_comma) = (0, false);
    next_byte(input)?;
    input.consume(1);
    loop {
        match (next_byte(input)?, wants_comma) {
            (None, _) => return Ok(List(events)),
            (Some(b']'), _) => {
                input.consume(1);
                return match next_byte(input)? {
                    None => Ok(List(events)),
                    Some(_) => Err(Failed::Damaged("text follows the list of events".into())),
                };
            }
            (Some(b','), true) => {
                input.consume(1);
                wants_comma = false;
            }
            (Some(b'{'), false) => {
                count += 1;
                let read = held.read_into(&mut deserializer(input), &mut events);
                read.map_err(|error| failed(error, &format!("event {count}: ")))?;
                wants_comma = true;
            }
            _ => {
                let message = format!("no object or end of the list follows event {count}");
                return Err(Failed::Damaged(message));
            }
        }
    }
}

/// Skips blanks, and returns the next byte without taking it; `None` at the end.
fn next_byte(input: &mut dyn BufRead) -> io::Result<Option<u8>> {
    loop {
        let bytes = input.fill_buf()?;
        let is_over = bytes.is_empty();
        let blanks = (bytes.iter().take_while(|byte| byte.is_ascii_whitespace())).count();
        let next = bytes.get(blanks).copied();
        input.consume(blanks);
        if next.is_some() || is_over {
            return Ok(next);
        }
    }
}

/// Selects the reader by the keys of the document.
fn of_document(mut document: Document, mut out: Collector<'_>) -> Result<Profile, String> {
    let has_frames = document.shared.frames.is_some();
    if document.schema.contains("speedscope") || has_frames && document.profiles.is_some() {
        speedscope::read(&document, &mut out)?;
    } else if document.meta.processed.is_some() && document.threads.is_some() {
        firefox::read(&document, &mut out)?;
    } else if !document.nodes.0.is_empty() {
        cpuprofile::read(&document, &mut out)?;
    } else if let Some(head) = &document.head {
        cpuprofile::read_heap(head, &document.samples.0, &mut out)?;
    } else if let Some(events) = document.trace_events.take() {
        trace::read(*events, &mut out)?;
    } else {
        return Err(unknown(&document));
    }
    out.finish()
}

/// Description of a document of no supported kind.
const KNOWN: &str = "it is no profile of the Firefox Profiler (meta.preprocessedProfileVersion, \
                     threads), of speedscope ($schema, shared.frames, profiles) or of V8 (nodes, \
                     head or traceEvents)";

/// Returns a description of an unsupported document.
fn unknown(document: &Document) -> String {
    if document.meta.version.is_some() {
        "it is Firefox's unprocessed format; load it in profiler.firefox.com and save it from there"
            .to_owned()
    } else {
        KNOWN.to_owned()
    }
}

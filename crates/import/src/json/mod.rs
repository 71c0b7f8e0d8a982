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
    let is_list = starts_list(input)?;
    let mut json = serde_json::Deserializer::from_reader(BufReader::new(Limited::new(input)));
    // `Limited` limits it. Calls of heap profiles are nested.
    json.disable_recursion_limit();
    let held = Held::new(&mut out);
    let document = match is_list {
        true => Seed::<List<TraceEvent>>::new(&held)
            .deserialize(&mut json)
            .map(|events| Document {
                trace_events: Some(Box::new(events)),
                ..Document::default()
            }),
        false => Seed::<Document>::new(&held).deserialize(&mut json),
    };
    let document = document.and_then(|document| json.end().map(|()| document));
    let document = document.map_err(|error| match error.is_io() {
        // I/O errors keep their kind.
        true => Failed::Read(error.into()),
        false if error.is_data() => Failed::Damaged(format!("{KNOWN}, or damaged: {error}")),
        false => Failed::Damaged(error.to_string()),
    })?;
    Ok(of_document(document, out)?)
}

/// Skips blanks, and returns true before a list: some Chrome traces are one.
fn starts_list(input: &mut dyn BufRead) -> io::Result<bool> {
    loop {
        let bytes = input.fill_buf()?;
        let blanks = (bytes.iter().take_while(|byte| byte.is_ascii_whitespace())).count();
        if blanks < bytes.len() || bytes.is_empty() {
            return Ok(bytes.get(blanks) == Some(&b'['));
        }
        input.consume(blanks);
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

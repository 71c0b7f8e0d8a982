//! Profiles in JSON: Firefox Profiler, speedscope and V8.

mod cpuprofile;
mod document;
mod firefox;
mod speedscope;
mod stacks;
mod value;

use std::io::{BufRead, BufReader};
use std::path::Path;

use rprof_profile::Profile;
use serde::de::DeserializeSeed;

use crate::collector::Collector;
use crate::detect::CHROME_TRACE;
use crate::{Failed, ImportOptions};
use document::Document;
use value::{Held, Limited, Seed};

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
    let mut json = serde_json::Deserializer::from_reader(BufReader::new(Limited::new(input)));
    let document = Seed::<Document>::new(&Held::new(&mut out))
        .deserialize(&mut json)
        .and_then(|document| json.end().map(|()| document));
    let document = document.map_err(|error| match error.is_io() {
        // I/O errors keep their kind.
        true => Failed::Read(error.into()),
        false if error.is_data() => Failed::Damaged(format!("{KNOWN}, or damaged: {error}")),
        false => Failed::Damaged(error.to_string()),
    })?;
    Ok(of_document(&document, out)?)
}

/// Selects the reader by the keys of the document.
fn of_document(document: &Document, mut out: Collector<'_>) -> Result<Profile, String> {
    let has_frames = document.shared.frames.is_some();
    if document.schema.contains("speedscope") || has_frames && document.profiles.is_some() {
        speedscope::read(document, &mut out)?;
    } else if document.meta.processed.is_some() && document.threads.is_some() {
        firefox::read(document, &mut out)?;
    } else if !document.nodes.0.is_empty() {
        cpuprofile::read(document, &mut out)?;
    } else {
        return Err(unknown(document));
    }
    out.finish()
}

/// Description of a document of no supported kind.
const KNOWN: &str = "it is no profile of the Firefox Profiler (meta.preprocessedProfileVersion, \
                     threads), of speedscope ($schema, shared.frames, profiles) or of V8 (nodes, \
                     samples)";

/// Returns a description of an unsupported document.
fn unknown(document: &Document) -> String {
    if document.meta.version.is_some() {
        "it is Firefox's unprocessed format; load it in profiler.firefox.com and save it from there"
            .to_owned()
    } else if !document.trace_events.0.is_empty() {
        format!("it {CHROME_TRACE}")
    } else {
        KNOWN.to_owned()
    }
}

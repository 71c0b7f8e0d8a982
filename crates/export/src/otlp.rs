//! OpenTelemetry's profiles: `ExportProfilesServiceRequest` of `opentelemetry.proto.profiles.v1development`, as proto
//! 1.10 has it, compressed with gzip.
//!
//! Experimental: the form has changed without a mark in it before (sample values had another number in 1.9), and may
//! again. Source: `opentelemetry/proto/profiles/v1development/profiles.proto` of
//! <https://github.com/open-telemetry/opentelemetry-proto>. Rules beside the fields: entry 0 of each table is the empty
//! value, no entry stands twice or is used by nobody, and each profile has one sample type.
//!
//! There is a profile for each event. That of a clock counts samples, with the time between two as its period, as
//! OpenTelemetry's own profiler writes it; others have sums of weights. When it was recorded is not known.

use std::io::{self, Write};

use flate2::{Compression, GzBuilder};
use rprof_profile::{ObjectKind, Profile, WeightUnit};
use rustc_hash::FxHashMap;

use crate::frame_text::unnamed;
use crate::locations::{LocationTables, Locations};
use crate::names::{CleanName, CleanNames};
use crate::options::ReportOptions;
use crate::protobuf::{Strings, packed_signed, part, signed, text, unsigned};
use crate::summed::summed;

/// Writes the samples of all events that have any.
///
/// # Errors
/// `out` does.
pub fn write(profile: &Profile, _: &ReportOptions, out: &mut dyn Write) -> io::Result<()> {
    let mut gzip = GzBuilder::new().mtime(0).write(out, Compression::default());
    gzip.write_all(&request(profile))?;
    gzip.finish()?;
    Ok(())
}

/// Tables of the dictionary that samples fill.
struct Dictionary<'p> {
    profile: &'p Profile,
    strings: Strings,
    attributes: Numbered<(i64, String)>,
    stacks: Numbered<Vec<i64>>,
}

/// Values with numbers from 1 in the order in which they came: 0 is the empty one.
struct Numbered<T> {
    numbers: FxHashMap<T, i64>,
    values: Vec<T>,
}

impl<T: Clone + Eq + std::hash::Hash> Numbered<T> {
    fn new() -> Numbered<T> {
        Numbered {
            numbers: FxHashMap::default(),
            values: Vec::new(),
        }
    }

    fn number(&mut self, value: T) -> i64 {
        if let Some(number) = self.numbers.get(&value) {
            return *number;
        }
        self.values.push(value.clone());
        let number = self.values.len() as i64;
        self.numbers.insert(value, number);
        number
    }
}

impl Dictionary<'_> {
    /// Returns the number of a text attribute.
    fn attribute(&mut self, key: &str, value: &str) -> i64 {
        let key = self.strings.index(key);
        self.attributes.number((key, value.to_owned()))
    }
}

fn request(profile: &Profile) -> Vec<u8> {
    let mut dictionary = Dictionary {
        profile,
        strings: Strings::new(),
        attributes: Numbered::new(),
        stacks: Numbered::new(),
    };
    let mut locations = Locations::new(profile);
    let mut scope = Vec::new();
    let mut about = Vec::new();
    text(1, "rprof", &mut about);
    text(2, env!("CARGO_PKG_VERSION"), &mut about);
    part(1, &about, &mut scope);
    for (event, summary) in profile.events.iter().enumerate() {
        if summary.samples > 0 {
            let message = profile_of(event, &mut locations, &mut dictionary);
            part(2, &message, &mut scope);
        }
    }
    let mut resource = Vec::new();
    let mut service = Vec::new();
    // The name that OpenTelemetry gives a service that nobody named.
    key_value("service.name", "unknown_service", &mut service);
    part(1, &service, &mut resource);
    let mut of_resource = Vec::new();
    part(1, &resource, &mut of_resource);
    part(2, &scope, &mut of_resource);
    let mut request = Vec::new();
    part(1, &of_resource, &mut request);
    part(2, &dictionary.message(&locations.tables()), &mut request);
    request
}

/// Returns the profile of one event.
fn profile_of(
    event: usize,
    locations: &mut Locations<'_>,
    dictionary: &mut Dictionary<'_>,
) -> Vec<u8> {
    let profile = dictionary.profile;
    let names = CleanNames::new(profile);
    let summary = &profile.events[event];
    let is_time = summary.unit == WeightUnit::Nanoseconds;
    let name = names.event(event).replace('-', "_");
    let mut value_type = |name: &str, unit: &str| {
        let mut message = Vec::new();
        signed(1, dictionary.strings.index(name), &mut message);
        signed(2, dictionary.strings.index(unit), &mut message);
        message
    };
    let (sample_type, period_type, period) = match is_time {
        true => (
            value_type("samples", "count"),
            value_type("cpu", "nanoseconds"),
            summary.weight / summary.samples.max(1),
        ),
        false => (value_type(&name, "count"), value_type(&name, "count"), 1),
    };
    let mut message = Vec::new();
    part(1, &sample_type, &mut message);
    for ((comm, stack), values) in summed(profile, locations, &[event]) {
        // Leaf first.
        let ids: Vec<i64> = (locations.ids(&stack).into_iter().rev())
            .map(u64::cast_signed)
            .collect();
        let thread = dictionary.attribute("thread.name", &names.comm(comm));
        let mut sample = Vec::new();
        signed(1, dictionary.stacks.number(ids), &mut sample);
        packed_signed(2, &[thread], &mut sample);
        let value = values.get(usize::from(!is_time)).copied().unwrap_or(0);
        packed_signed(4, &[value], &mut sample);
        part(2, &sample, &mut message);
    }
    if let Some((first, last)) = profile.time {
        unsigned(4, last.saturating_sub(first), &mut message);
    }
    part(5, &period_type, &mut message);
    signed(6, i64::try_from(period).unwrap_or(i64::MAX), &mut message);
    message
}

/// Writes an attribute of a resource.
fn key_value(key: &str, value: &str, out: &mut Vec<u8>) {
    text(1, key, out);
    part(2, &any_value(value), out);
}

fn any_value(value: &str) -> Vec<u8> {
    let mut message = Vec::new();
    text(1, value, &mut message);
    message
}

impl Dictionary<'_> {
    fn message(mut self, tables: &LocationTables) -> Vec<u8> {
        let profile = self.profile;
        let names = CleanNames::new(profile);
        let mut out = Vec::new();
        part(1, &[], &mut out);
        for (object, limit) in &tables.mappings {
            let mut message = Vec::new();
            unsigned(2, *limit, &mut message);
            signed(4, self.strings.index(&names.object(*object)), &mut message);
            if let Some(build_id) = &profile.object(*object).build_id {
                let key = "process.executable.build_id.gnu";
                let attribute = self.attribute(key, &build_id.to_string());
                packed_signed(5, &[attribute], &mut message);
            }
            part(1, &message, &mut out);
        }
        // One name in two objects is one function.
        let mut functions = Numbered::new();
        let numbers: Vec<i64> = (tables.functions.iter())
            .map(|row| {
                let name = match names.function(row.id) {
                    Some(name) => name.into_owned(),
                    None => unnamed(profile, profile.function(row.id).object),
                };
                let name = self.strings.index(&name);
                let file = row.file.map_or(0, |file| {
                    let path = CleanName::new(&profile.files[file.0 as usize]);
                    self.strings.index(&path)
                });
                functions.number((name, file, i64::from(row.start_line)))
            })
            .collect();
        part(2, &[], &mut out);
        for location in &tables.locations {
            let mut message = Vec::new();
            unsigned(1, location.mapping, &mut message);
            unsigned(2, location.address, &mut message);
            for row in &location.lines {
                let mut line = Vec::new();
                let function = numbers.get((row.function as usize).wrapping_sub(1));
                signed(1, function.copied().unwrap_or(0), &mut line);
                signed(2, i64::from(row.line), &mut line);
                signed(3, i64::from(row.column), &mut line);
                part(3, &line, &mut message);
            }
            let mapping = tables
                .mappings
                .get((location.mapping as usize).wrapping_sub(1));
            let kind = mapping.map(|(object, _)| profile.object(*object).kind);
            let kind = match kind {
                Some(ObjectKind::Kernel) => "kernel",
                _ => "native",
            };
            let attribute = self.attribute("profile.frame.type", kind);
            packed_signed(4, &[attribute], &mut message);
            part(2, &message, &mut out);
        }
        part(3, &[], &mut out);
        for (name, file, start_line) in &functions.values {
            let mut message = Vec::new();
            signed(1, *name, &mut message);
            signed(3, *file, &mut message);
            signed(4, *start_line, &mut message);
            part(3, &message, &mut out);
        }
        // Links to traces, of which there are none.
        part(4, &[], &mut out);
        part(6, &[], &mut out);
        for (key, value) in &self.attributes.values {
            let mut message = Vec::new();
            signed(1, *key, &mut message);
            part(2, &any_value(value), &mut message);
            part(6, &message, &mut out);
        }
        part(7, &[], &mut out);
        for stack in &self.stacks.values {
            let mut message = Vec::new();
            packed_signed(1, stack, &mut message);
            part(7, &message, &mut out);
        }
        for string in self.strings.in_order() {
            text(5, string, &mut out);
        }
        out
    }
}

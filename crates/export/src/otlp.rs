//! OpenTelemetry profiles: `ExportProfilesServiceRequest` of
//! `opentelemetry.proto.profiles.v1development`, proto version 1.10, compressed with gzip.
//!
//! Experimental: the format changes without a version number (1.9 had another field number for
//! sample values). Source: `opentelemetry/proto/profiles/v1development/profiles.proto` of
//! <https://github.com/open-telemetry/opentelemetry-proto>. Further rules: entry 0 of each table is
//! the empty value, tables have no duplicate and no unused entries, and each profile has one sample
//! type.
//!
//! Each event is one profile. A clock's profile counts samples, with the sampling interval as its
//! period, as OpenTelemetry's own profiler does. So does every event if the options weigh each
//! sample as 1. All other events have sums of weights.

use std::hash::Hash;
use std::io::{self, Write};
use std::ops::Range;

use rprof_profile::intern::{Lists, Values};
use rprof_profile::{ObjectKind, Profile, RequestIds, WeighBy, WeightUnit};

use crate::frame_lists::FrameLists;
use crate::frame_ranks::FrameRanks;
use crate::frame_text::unnamed;
use crate::gzip::Gzip;
use crate::locations::{LocationTables, Locations};
use crate::names::{CleanName, CleanNames};
use crate::options::{ExportOptions, ReportOptions};
use crate::parts::{Encoded, PartEncoder};
use crate::pprof::time_type;
use crate::protobuf::{Strings, fixed, number, packed_signed, part, signed, text, unsigned};
use crate::summed::{CommOrder, LabelValue, Rows, summed};

/// Writes the samples of all events.
///
/// # Errors
/// Fails if the writer does.
pub fn write(profile: &Profile, options: &ReportOptions, out: &mut dyn Write) -> io::Result<()> {
    let mut encoder = Encoder::new(profile, options.rows.weight, &options.export);
    encoder.encode(0..encoder.rows(), out).map(drop)
}

/// Encoder of a profile or of parts of it.
pub struct Encoder<'p> {
    profile: &'p Profile,
    weight: WeighBy,
    options: ExportOptions,
    locations: Locations<'p>,
    lists: FrameLists,
    comms: CommOrder<'p>,
    events: Vec<(usize, Rows)>,
}

impl<'p> Encoder<'p> {
    /// Sums up the samples of all events.
    pub fn new(profile: &'p Profile, weight: WeighBy, options: &ExportOptions) -> Encoder<'p> {
        let frames = FrameRanks::new(profile);
        let comms = CommOrder::new(profile);
        let lists = FrameLists::new(profile, &frames);
        let locations = Locations::new(profile, frames);
        let events = profile.events.iter().enumerate();
        let events = events
            .filter(|(_, summary)| summary.samples > 0)
            .map(|(event, _)| {
                let rows = summed(profile, &lists, &comms, &[event], &options.labels);
                (event, rows)
            });
        Encoder {
            profile,
            weight,
            options: options.clone(),
            events: events.collect(),
            locations,
            lists,
            comms,
        }
    }

    /// Splits a range of all rows by event. Returns the event's position in `events`, and its rows.
    fn of_events(&self, rows: &Range<usize>) -> Vec<(usize, Range<usize>)> {
        let (mut begin, mut found) = (0, Vec::new());
        for (place, (_, of_event)) in self.events.iter().enumerate() {
            let end = begin + of_event.len();
            let (from, to) = (rows.start.max(begin), rows.end.min(end));
            if from < to {
                found.push((place, from - begin..to - begin));
            }
            begin = end;
        }
        found
    }
}

impl PartEncoder for Encoder<'_> {
    fn rows(&self) -> usize {
        self.events.iter().map(|(_, rows)| rows.len()).sum()
    }

    fn samples(&self, rows: Range<usize>) -> u64 {
        let mut sum = 0u64;
        for (place, of_event) in self.of_events(&rows) {
            for row in of_event {
                let number = self.events[place].1.values(row)[0];
                sum = sum.saturating_add(number.cast_unsigned());
            }
        }
        sum
    }

    fn encode(&mut self, rows: Range<usize>, out: &mut dyn Write) -> io::Result<Encoded> {
        let (request, cut) = self.request(rows);
        let mut gzip = Gzip::new(out);
        gzip.write_all(&request)?;
        gzip.finish()?;
        Ok(Encoded {
            bytes: request.len() as u64,
            cut,
        })
    }
}

struct Dictionary<'p> {
    profile: &'p Profile,
    strings: Strings,
    attributes: Values<(i64, LabelValue)>,
    /// Links to spans.
    links: Values<RequestIds>,
    /// Location ids of each stack, leaf first. The empty stack (entry 0) is not stored.
    stacks: Lists<i64>,
}

/// Interns a value, and returns its index in a table whose entry 0 is the empty value.
fn index_of<T: Eq + Hash>(values: &mut Values<T>, value: T) -> i64 {
    i64::from(values.intern(value)) + 1
}

impl Dictionary<'_> {
    fn attribute(&mut self, key: &str, value: LabelValue) -> i64 {
        let key = self.strings.index(key);
        index_of(&mut self.attributes, (key, value))
    }

    fn stack(&mut self, ids: &[i64]) -> i64 {
        match ids.is_empty() {
            true => 0,
            false => i64::from(self.stacks.intern(ids).0) + 1,
        }
    }

    fn value_type(&mut self, name: &str, unit: &str) -> Vec<u8> {
        let mut message = Vec::new();
        signed(1, self.strings.index(name), &mut message);
        signed(2, self.strings.index(unit), &mut message);
        message
    }
}

impl Encoder<'_> {
    /// Encodes rows as a request. Returns it, and the number of truncated stacks.
    fn request(&mut self, rows: Range<usize>) -> (Vec<u8>, u64) {
        self.locations.restart();
        let mut dictionary = Dictionary {
            profile: self.profile,
            strings: Strings::new(),
            attributes: Values::default(),
            links: Values::default(),
            stacks: Lists::default(),
        };
        let mut scope = Vec::new();
        let mut about = Vec::new();
        text(1, "rprof", &mut about);
        text(2, env!("CARGO_PKG_VERSION"), &mut about);
        part(1, &about, &mut scope);
        let mut cut = 0;
        for (place, of_event) in self.of_events(&rows) {
            let (message, cut_there) = self.profile_of(place, of_event, &mut dictionary);
            part(2, &message, &mut scope);
            cut += cut_there;
        }
        let mut of_resource = Vec::new();
        part(1, &self.resource(), &mut of_resource);
        part(2, &scope, &mut of_resource);
        let mut request = Vec::new();
        part(1, &of_resource, &mut request);
        let tables = self.locations.tables();
        part(2, &dictionary.message(&tables), &mut request);
        (request, cut)
    }

    fn resource(&self) -> Vec<u8> {
        let mut resource = Vec::new();
        let mut add = |key: &str, value: &str| {
            let mut attribute = Vec::new();
            text(1, key, &mut attribute);
            let value = LabelValue::Text(CleanName::new(value).into_owned());
            part(2, &any_value(&value), &mut attribute);
            part(1, &attribute, &mut resource);
        };
        let given = &self.options.resource;
        if given.iter().all(|(key, _)| key != "service.name") {
            // OpenTelemetry's default.
            add("service.name", "unknown_service");
        }
        for (key, value) in given {
            add(&CleanName::new(key), value);
        }
        resource
    }

    fn profile_of(
        &mut self,
        place: usize,
        rows: Range<usize>,
        dictionary: &mut Dictionary<'_>,
    ) -> (Vec<u8>, u64) {
        let profile = self.profile;
        let (event, all) = &self.events[place];
        let summary = &profile.events[*event];
        let is_time = summary.unit == WeightUnit::Nanoseconds;
        let name = CleanNames::new(profile).event(*event).replace('-', "_");
        let is_counted = is_time || self.weight == WeighBy::Samples;
        let period_type = match is_time {
            true => (time_type(&summary.name), "nanoseconds"),
            false => (name.as_str(), "count"),
        };
        let (sample_type, period_type, period) = match is_counted {
            true => (
                dictionary.value_type("samples", "count"),
                dictionary.value_type(period_type.0, period_type.1),
                summary.weight / summary.samples.max(1),
            ),
            false => {
                let of_event = dictionary.value_type(&name, "count");
                (of_event.clone(), of_event, 1)
            }
        };
        let mut message = Vec::new();
        part(1, &sample_type, &mut message);
        let mut cut = 0;
        let most = self.options.max_depth.unwrap_or(usize::MAX);
        let mut ids = Vec::new();
        let mut attributes: Option<(u32, Vec<u8>)> = None;
        for index in rows {
            let row = all.row(index);
            ids.clear();
            let is_cut = (self.locations).ids(&self.lists, row.stack, most, &mut ids);
            let ids: Vec<i64> = ids.iter().copied().map(u64::cast_signed).collect();
            cut += u64::from(is_cut);
            // Rows with equal labels are adjacent.
            if attributes
                .as_ref()
                .is_none_or(|(known, _)| *known != row.labels)
            {
                let labels = all.labels(row);
                let link = labels.request();
                let values = self.comms.values(labels).into_iter();
                // A link replaces both attributes.
                let numbers = values
                    .filter(|(label, _)| link.is_none() || !label.is_of_request())
                    .map(|(label, value)| dictionary.attribute(label.attribute(), value));
                let mut bytes = Vec::new();
                packed_signed(2, &numbers.collect::<Vec<_>>(), &mut bytes);
                if let Some(ids) = link {
                    signed(3, index_of(&mut dictionary.links, ids), &mut bytes);
                }
                attributes = Some((row.labels, bytes));
            }
            let mut sample = Vec::new();
            signed(1, dictionary.stack(&ids), &mut sample);
            if let Some((_, bytes)) = &attributes {
                sample.extend_from_slice(bytes);
            }
            let value = all.values(index)[usize::from(!is_counted)];
            packed_signed(4, &[value], &mut sample);
            part(2, &sample, &mut message);
        }
        if let Some((first, _)) = profile.wall_time {
            fixed(3, first, &mut message);
        }
        if let Some((first, last)) = profile.time {
            unsigned(4, last.saturating_sub(first), &mut message);
        }
        part(5, &period_type, &mut message);
        signed(6, i64::try_from(period).unwrap_or(i64::MAX), &mut message);
        (message, cut)
    }
}

fn any_value(value: &LabelValue) -> Vec<u8> {
    let mut message = Vec::new();
    match value {
        LabelValue::Text(value) => text(1, value, &mut message),
        // A `oneof` field must be present.
        LabelValue::Number(value) => number(3, *value, &mut message),
    }
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
                let attribute = self.attribute(key, LabelValue::Text(build_id.to_string()));
                packed_signed(5, &[attribute], &mut message);
            }
            part(1, &message, &mut out);
        }
        // Functions of one name become one.
        let mut functions = Values::default();
        let numbers: Vec<i64> = (tables.functions.iter())
            .map(|row| {
                let name = match names.own_function(row.id) {
                    Some(name) => name.into_owned(),
                    None => unnamed(profile, profile.function(row.id).object),
                };
                let name = self.strings.index(&name);
                let file = row.file.map_or(0, |file| {
                    let path = CleanName::new(&profile.files[file.0 as usize]);
                    self.strings.index(&path)
                });
                index_of(&mut functions, (name, file, i64::from(row.start_line)))
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
            let attribute = self.attribute("profile.frame.type", LabelValue::Text(kind.to_owned()));
            packed_signed(4, &[attribute], &mut message);
            part(2, &message, &mut out);
        }
        part(3, &[], &mut out);
        for (name, file, start_line) in functions.as_slice() {
            let mut message = Vec::new();
            signed(1, *name, &mut message);
            signed(3, *file, &mut message);
            signed(4, *start_line, &mut message);
            part(3, &message, &mut out);
        }
        part(4, &[], &mut out);
        for ids in self.links.as_slice() {
            let mut message = Vec::new();
            part(1, &ids.trace, &mut message);
            part(2, &ids.span, &mut message);
            part(4, &message, &mut out);
        }
        part(6, &[], &mut out);
        for (key, value) in self.attributes.as_slice() {
            let mut message = Vec::new();
            signed(1, *key, &mut message);
            part(2, &any_value(value), &mut message);
            part(6, &message, &mut out);
        }
        part(7, &[], &mut out);
        for stack in 0..self.stacks.len() as u32 {
            let mut message = Vec::new();
            packed_signed(1, self.stacks.get(stack), &mut message);
            part(7, &message, &mut out);
        }
        for string in self.strings.in_order() {
            text(5, string, &mut out);
        }
        out
    }
}

//! pprof's format, version of 2024: gzip around one protocol buffer message, with addresses, lines and inlined calls.
//!
//! Source: `proto/profile.proto` of <https://github.com/google/pprof>. Beyond it:
//!
//! - Ids are numbered from 1 in the order of their first use, and samples are sorted: one profile makes one file.
//! - The first sample type is `samples`/`count`, and that of a clock is `cpu`/`nanoseconds`: Go's profile-guided
//!   optimization takes the first type that is one of the two (<https://go.dev/doc/pgo#alternative-sources>).
//! - Addresses are offsets into the object's file, those of callers within the call. So what address space
//!   randomization does is no difference between two profiles.
//! - Names and lines are in the profile. Every mapping says so, lest readers symbolize again.

mod message;
mod tables;

use std::io::{self, Write};

use rprof_profile::{Profile, WeightUnit};

use crate::locations::Locations;
use crate::names::CleanNames;
use crate::options::ReportOptions;
use crate::protobuf::{packed_signed, packed_unsigned, part, signed};
use crate::summed::summed;
use message::Message;

/// Writes the samples of all events that have any, two values for each: number of samples, and weight.
///
/// # Errors
/// `out` does.
pub fn write(profile: &Profile, _: &ReportOptions, out: &mut dyn Write) -> io::Result<()> {
    let mut out = Message::new(out);
    let events: Vec<usize> = (profile.events.iter().enumerate())
        .filter(|(_, event)| event.samples > 0)
        .map(|(index, _)| index)
        .collect();
    let types = sample_types(profile, &events);
    for (name, unit) in &types {
        out.value_type(1, name, unit)?;
    }
    let names = CleanNames::new(profile);
    let mut locations = Locations::new(profile);
    for ((thread, stack), values) in summed(profile, &locations, &events) {
        // Leaf first.
        let ids: Vec<u64> = locations.ids(&stack).into_iter().rev().collect();
        let mut sample = Vec::new();
        packed_unsigned(1, &ids, &mut sample);
        packed_signed(2, &values, &mut sample);
        let mut label = Vec::new();
        signed(1, out.strings.index("comm"), &mut label);
        signed(2, out.strings.index(&names.comm(thread)), &mut label);
        part(3, &label, &mut sample);
        out.field(2, &sample)?;
    }
    tables::write(profile, &locations.tables(), &mut out)?;
    if let Some((first, last)) = profile.time {
        out.number(
            10,
            i64::try_from(last.saturating_sub(first)).unwrap_or(i64::MAX),
        )?;
    }
    let comment = out
        .strings
        .index(concat!("rprof ", env!("CARGO_PKG_VERSION")));
    out.number(13, comment)?;
    if let (Some((name, unit)), Some(main)) = (types.get(1), profile.main_event()) {
        let main = &profile.events[main];
        out.value_type(11, name, unit)?;
        let period = main.weight / main.samples.max(1);
        out.number(12, i64::try_from(period).unwrap_or(i64::MAX))?;
        // What is shown unless something else is asked for.
        let shown = out.strings.index(name);
        out.number(14, shown)?;
    }
    out.finish()
}

/// Returns names and units of the values that each sample has, two for each event.
fn sample_types(profile: &Profile, events: &[usize]) -> Vec<(String, String)> {
    let mut types = Vec::new();
    for (index, event) in events.iter().copied().enumerate() {
        // Pyroscope refuses names with a dash.
        let name = CleanNames::new(profile).event(event).replace('-', "_");
        let event = &profile.events[event];
        let samples = match index {
            0 => "samples".to_owned(),
            _ => format!("{name}_samples"),
        };
        let weight = match (&event.unit, index) {
            (WeightUnit::Nanoseconds, 0) => ("cpu".to_owned(), "nanoseconds"),
            (WeightUnit::Nanoseconds, _) => (name, "nanoseconds"),
            // Two types of one name would be one.
            _ if name == samples => (format!("{name}_weight"), "count"),
            _ => (name, "count"),
        };
        types.push((samples, "count".to_owned()));
        types.push((weight.0, weight.1.to_owned()));
    }
    types
}

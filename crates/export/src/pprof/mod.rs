//! pprof's format, version of 2024: a gzip-compressed protobuf message with addresses, lines and
//! inlined calls.
//!
//! Source: `proto/profile.proto` of <https://github.com/google/pprof>. In addition:
//!
//! - Ids start at 1 in order of first use, and samples are sorted. Equal profiles give equal files.
//! - The first sample type is `samples`/`count`, and the weight of a clock is `cpu`/`nanoseconds`.
//!   Go's profile-guided optimization uses the first type that is one of the two
//!   (<https://go.dev/doc/pgo#alternative-sources>).
//! - Waiting time is `offcpu`/`nanoseconds`, in the same file. Waiting plus CPU time is
//!   `wall`/`nanoseconds`.
//! - An address is an offset in the object's file, so address space randomization does not change
//!   it. A caller's address lies within its call instruction.
//! - Names and lines are in the profile. Every mapping says so, to keep readers from symbolizing
//!   again.

mod message;
mod tables;

use std::io::{self, Write};
use std::ops::Range;

use rprof_profile::memory::{
    ALLOCATED, ALLOCATED_OBJECTS, HEAP, HEAP_OBJECTS, HEAP_PEAK, PEAK, RESIDENT, TOUCHED,
};
use rprof_profile::waits::{WALL_CLOCK, is_by_latency, is_of_waits};
use rprof_profile::{Profile, WeighBy, WeightUnit};

use crate::frame_lists::FrameLists;
use crate::frame_ranks::FrameRanks;
use crate::locations::Locations;
use crate::names::CleanNames;
use crate::options::{ExportOptions, ReportOptions, SampleLabel};
use crate::parts::{Encoded, PartEncoder};
use crate::protobuf::{packed_signed, packed_unsigned, part, signed};
use crate::summed::{CommOrder, LabelValue, Labels, Rows, summed};
use message::Message;

/// Writes the number of samples and the weight for all events. The weight option selects the value
/// that readers show by default.
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
    max_depth: usize,
    events: Vec<usize>,
    locations: Locations<'p>,
    lists: FrameLists,
    comms: CommOrder<'p>,
    rows: Rows,
}

impl<'p> Encoder<'p> {
    /// Sums up the samples of all events. Readers show the first event's `weight` by default.
    pub fn new(profile: &'p Profile, weight: WeighBy, options: &ExportOptions) -> Encoder<'p> {
        let events: Vec<usize> = (profile.events.iter().enumerate())
            .filter(|(_, event)| event.samples > 0)
            .map(|(index, _)| index)
            .collect();
        let frames = FrameRanks::new(profile);
        let comms = CommOrder::new(profile);
        let lists = FrameLists::new(profile, &frames);
        let locations = Locations::new(profile, frames);
        Encoder {
            rows: summed(profile, &lists, &comms, &events, &options.labels),
            profile,
            weight,
            max_depth: options.max_depth.unwrap_or(usize::MAX),
            events,
            locations,
            lists,
            comms,
        }
    }

    /// Returns the name and unit of each sample value.
    pub fn sample_types(&self) -> Vec<(String, String)> {
        sample_types(self.profile, &self.events)
    }

    /// Writes a sample. Returns true if its stack is truncated.
    fn sample(
        &mut self,
        row: usize,
        buffers: &mut Buffers,
        out: &mut Message<'_>,
    ) -> io::Result<bool> {
        let Buffers {
            ids,
            sample,
            labels,
        } = buffers;
        let (row, values) = (self.rows.row(row), self.rows.values(row));
        ids.clear();
        sample.clear();
        let is_cut = self
            .locations
            .ids(&self.lists, row.stack, self.max_depth, ids);
        packed_unsigned(1, ids, sample);
        packed_signed(2, values, sample);
        // Rows with equal labels are adjacent.
        if labels
            .as_ref()
            .is_none_or(|(known, _)| *known != row.labels)
        {
            let mut bytes = Vec::new();
            self.labels(self.rows.labels(row), out, &mut bytes);
            *labels = Some((row.labels, bytes));
        }
        if let Some((_, bytes)) = labels {
            sample.extend_from_slice(bytes);
        }
        out.field(2, sample)?;
        Ok(is_cut)
    }

    fn labels(&self, labels: &Labels, out: &mut Message<'_>, bytes: &mut Vec<u8>) {
        for (key, value) in self.comms.values(labels) {
            let mut label = Vec::new();
            signed(1, out.strings.index(key.key()), &mut label);
            match value {
                LabelValue::Text(text) => signed(2, out.strings.index(&text), &mut label),
                // Readers ignore number 0, but CPU 0 exists.
                LabelValue::Number(cpu) if key == SampleLabel::Cpu => {
                    signed(2, out.strings.index(&cpu.to_string()), &mut label);
                }
                LabelValue::Number(number) => signed(3, number, &mut label),
            }
            part(3, &label, bytes);
        }
    }

    fn about(&self, out: &mut Message<'_>) -> io::Result<()> {
        let profile = self.profile;
        if let Some((first, _)) = profile.wall_time {
            out.number(9, i64::try_from(first).unwrap_or(i64::MAX))?;
        }
        if let Some((first, last)) = profile.time {
            let duration = last.saturating_sub(first);
            out.number(10, i64::try_from(duration).unwrap_or(i64::MAX))?;
        }
        let quality = &profile.quality;
        let rprof = concat!("rprof ", env!("CARGO_PKG_VERSION")).to_owned();
        let lost = (quality.lost > 0).then(|| format!("lost records: {}", quality.lost));
        let throttled = (quality.throttled > 0).then(|| {
            format!(
                "times that the kernel throttled sampling: {}",
                quality.throttled
            )
        });
        for comment in [Some(rprof), lost, throttled].into_iter().flatten() {
            let comment = out.strings.index(&comment);
            out.number(13, comment)?;
        }
        Ok(())
    }
}

impl PartEncoder for Encoder<'_> {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn samples(&self, rows: Range<usize>) -> u64 {
        let values = rows.flat_map(|row| self.rows.values(row));
        // Sample counts and weights alternate.
        let numbers = values.step_by(2).map(|number| number.cast_unsigned());
        numbers.fold(0, u64::saturating_add)
    }

    fn encode(&mut self, rows: Range<usize>, out: &mut dyn Write) -> io::Result<Encoded> {
        let mut out = Message::new(out);
        self.locations.restart();
        let types = self.sample_types();
        for (name, unit) in &types {
            out.value_type(1, name, unit)?;
        }
        let (mut cut, mut buffers) = (0, Buffers::default());
        for row in rows {
            cut += u64::from(self.sample(row, &mut buffers, &mut out)?);
        }
        tables::write(self.profile, &self.locations.tables(), &mut out)?;
        self.about(&mut out)?;
        if let (Some((name, unit)), Some(main)) = (types.get(1), self.profile.main_event()) {
            let main = &self.profile.events[main];
            out.value_type(11, name, unit)?;
            let period = main.weight / main.samples.max(1);
            out.number(12, i64::try_from(period).unwrap_or(i64::MAX))?;
            let shown = match self.weight {
                WeighBy::Period => name,
                WeighBy::Samples => &types[0].0,
            };
            let shown = out.strings.index(shown);
            out.number(14, shown)?;
        }
        let bytes = out.finish()?;
        Ok(Encoded { bytes, cut })
    }
}

#[derive(Default)]
struct Buffers {
    ids: Vec<u64>,
    sample: Vec<u8>,
    /// Labels of the previous sample: number and encoding.
    labels: Option<(u32, Vec<u8>)>,
}

const CPU: &str = "cpu";

/// Returns the sample type of a time: `offcpu`, `wall` (waits and CPU time), or `cpu`.
pub(crate) fn time_type(event: &str) -> &'static str {
    match event {
        event if is_of_waits(event) => "offcpu",
        event if is_by_latency(event) => "latency",
        WALL_CLOCK => "wall",
        _ => CPU,
    }
}

/// Returns the sample type of memory, by the names of Go's heap profiles; `None` for others.
pub(crate) fn memory_type(event: &str) -> Option<&'static str> {
    match event {
        RESIDENT | HEAP => Some("inuse_space"),
        PEAK | HEAP_PEAK => Some("peak_space"),
        TOUCHED | ALLOCATED => Some("alloc_space"),
        HEAP_OBJECTS => Some("inuse_objects"),
        ALLOCATED_OBJECTS => Some("alloc_objects"),
        _ => None,
    }
}

/// Returns the name and unit of each sample value, two per event.
fn sample_types(profile: &Profile, events: &[usize]) -> Vec<(String, String)> {
    let mut types = Vec::new();
    for (index, event) in events.iter().copied().enumerate() {
        // Pyroscope rejects dashes.
        let name = CleanNames::new(profile).event(event).replace('-', "_");
        let event = &profile.events[event];
        let samples = match index {
            0 => "samples".to_owned(),
            _ => format!("{name}_samples"),
        };
        let kind = time_type(&event.name);
        let samples = match index {
            0 => samples,
            _ if is_of_waits(&event.name) => format!("{kind}_samples"),
            _ => samples,
        };
        let weight = match (&event.unit, index) {
            (unit, _) if memory_type(&event.name).is_some() => (
                memory_type(&event.name).unwrap_or(&name).to_owned(),
                match unit {
                    WeightUnit::Bytes => "bytes",
                    _ => "count",
                },
            ),
            (WeightUnit::Nanoseconds, _) if kind != CPU => (kind.to_owned(), "nanoseconds"),
            (WeightUnit::Nanoseconds, 0) => (CPU.to_owned(), "nanoseconds"),
            (WeightUnit::Nanoseconds, _) => (name, "nanoseconds"),
            // Two types must not share a name.
            _ if name == samples => (format!("{name}_weight"), "count"),
            _ => (name, "count"),
        };
        types.push((samples, "count".to_owned()));
        types.push((weight.0, weight.1.to_owned()));
    }
    types
}

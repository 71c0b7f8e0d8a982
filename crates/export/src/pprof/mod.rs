//! pprof's format, version of 2024: gzip around one protocol buffer message, with addresses, lines and inlined calls.
//!
//! Source: `proto/profile.proto` of <https://github.com/google/pprof>. Beyond it:
//!
//! - Ids are numbered from 1 in the order of their first use, and samples are sorted: one profile makes one file.
//! - The first sample type is `samples`/`count`, and that of a clock is `cpu`/`nanoseconds`: Go's profile-guided
//!   optimization takes the first type that is one of the two (<https://go.dev/doc/pgo#alternative-sources>).
//! - Time that threads waited is `offcpu`/`nanoseconds`, beside the others in one file; with time on CPUs it is
//!   `wall`/`nanoseconds`.
//! - Addresses are offsets into the object's file, those of callers within the call. So what address space
//!   randomization does is no difference between two profiles.
//! - Names and lines are in the profile. Every mapping says so, lest readers symbolize again.

mod message;
mod tables;

use std::io::{self, Write};
use std::ops::Range;

use rprof_profile::waits::{WALL_CLOCK, is_of_waits};
use rprof_profile::{Profile, WeighBy, WeightUnit};

use crate::frame_lists::FrameLists;
use crate::locations::Locations;
use crate::names::CleanNames;
use crate::options::{ExportOptions, ReportOptions, SampleLabel};
use crate::parts::{Encoded, PartEncoder};
use crate::protobuf::{packed_signed, packed_unsigned, part, signed};
use crate::summed::{CommOrder, LabelValue, Labels, Rows, summed};
use message::Message;

/// Writes the samples of all events that have any, two values for each: number of samples, and weight. Which of the two readers
/// show at first is what samples are weighed by.
///
/// # Errors
/// `out` does.
pub fn write(profile: &Profile, options: &ReportOptions, out: &mut dyn Write) -> io::Result<()> {
    let mut encoder = Encoder::new(profile, options.rows.weight, &options.export);
    encoder.encode(0..encoder.rows(), out).map(drop)
}

/// Encoder of a profile, or of any part of it.
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
    /// Sums up the samples of all events that have any. Readers show `weight` of the first event unless asked for something else.
    pub fn new(profile: &'p Profile, weight: WeighBy, options: &ExportOptions) -> Encoder<'p> {
        let events: Vec<usize> = (profile.events.iter().enumerate())
            .filter(|(_, event)| event.samples > 0)
            .map(|(index, _)| index)
            .collect();
        let locations = Locations::new(profile);
        let comms = CommOrder::new(profile);
        let lists = FrameLists::new(profile, &locations);
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

    /// Returns names and units of the values that each sample has.
    pub fn sample_types(&self) -> Vec<(String, String)> {
        sample_types(self.profile, &self.events)
    }

    /// Writes a sample. Returns whether frames were left out.
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
        // Leaf first.
        let is_cut = self
            .locations
            .ids(&self.lists, row.stack, self.max_depth, ids);
        packed_unsigned(1, ids, sample);
        packed_signed(2, values, sample);
        // Rows of the same labels stand together.
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
                // A number of 0 is no label to readers, and there is a CPU of that number.
                LabelValue::Number(cpu) if key == SampleLabel::Cpu => {
                    signed(2, out.strings.index(&cpu.to_string()), &mut label);
                }
                LabelValue::Number(number) => signed(3, number, &mut label),
            }
            part(3, &label, bytes);
        }
    }

    /// Writes when it was recorded, and what is missing.
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
        // Numbers and weights take turns.
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
            // What is shown unless something else is asked for.
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

/// Buffers of one sample, which serve all.
#[derive(Default)]
struct Buffers {
    ids: Vec<u64>,
    sample: Vec<u8>,
    /// Number of the labels of the sample before, with how they are written.
    labels: Option<(u32, Vec<u8>)>,
}

/// Type of the weights of a clock's samples.
const CPU: &str = "cpu";

/// Returns the type of weights that are time: `offcpu` of waits, `wall` of waits and time on CPUs, else `cpu`.
pub(crate) fn time_type(event: &str) -> &'static str {
    match event {
        WALL_CLOCK => "wall",
        event if is_of_waits(event) => "offcpu",
        _ => CPU,
    }
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
        let kind = time_type(&event.name);
        let samples = match index {
            0 => samples,
            _ if is_of_waits(&event.name) => format!("{kind}_samples"),
            _ => samples,
        };
        let weight = match (&event.unit, index) {
            (WeightUnit::Nanoseconds, _) if kind != CPU => (kind.to_owned(), "nanoseconds"),
            (WeightUnit::Nanoseconds, 0) => (CPU.to_owned(), "nanoseconds"),
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

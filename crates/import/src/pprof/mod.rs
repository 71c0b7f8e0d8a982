//! pprof's `profile.proto` (<https://github.com/google/pprof/blob/main/proto/profile.proto>).
//!
//! Sample types become events. A pair `samples`/`count` and another type, as CPU profilers write
//! it, becomes one event with count and weight. Negative values, as in differences of two profiles,
//! are dropped.

mod events;
mod locations;
mod parts;

use std::io::BufRead;
use std::path::Path;

use rprof_profile::limits::{MAX_EVENTS, MAX_FRAMES};
use rprof_profile::{FrameId, Profile, ThreadId};
use rustc_hash::FxHashMap;

use crate::collector::{Collector, Row};
use crate::wire::{Fields, Value};
use crate::{Failed, ImportOptions};
use events::events;
use locations::{Location, locations};
use parts::{Parts, numbers};

/// Returns true if uncompressed bytes begin like a profile message: known fields with their types,
/// in any order. `at_end`: there are no more bytes.
pub(crate) fn is_pprof(start: &[u8], at_end: bool) -> bool {
    let mut fields = Fields::new(start);
    let (mut known, mut has_lists) = (0, false);
    while let Some(field) = fields.next() {
        let Ok((tag, value)) = field else {
            // The last field may extend beyond the first bytes.
            return !at_end && known > 0 && has_lists && fields.was_cut();
        };
        let is_valid = match (tag, value) {
            (1, Value::Bytes(message)) => is_message(message, 2, true),
            (2..=5, Value::Bytes(message)) => is_message(message, 10, false),
            (6 | 11, Value::Bytes(_)) => true,
            (13, _) | (7..=10 | 12 | 14 | 15, Value::Number(_)) => true,
            _ => false,
        };
        if !is_valid {
            return false;
        }
        has_lists |= (1..=6).contains(&tag);
        known += 1;
    }
    known > 0 && has_lists
}

/// Returns true for a message with field numbers up to `most`. With `numbers_only`, all values must
/// be numeric.
fn is_message(message: &[u8], most: u64, numbers_only: bool) -> bool {
    Fields::new(message).all(|field| match field {
        Ok((tag, value)) => tag <= most && (!numbers_only || matches!(value, Value::Number(_))),
        Err(_) => false,
    })
}

pub(crate) fn read(
    input: &mut dyn BufRead,
    source: &Path,
    options: &ImportOptions,
) -> Result<Profile, Failed> {
    let mut out = Collector::new(source, options, false);
    let bytes = out.read_whole(input)?;
    Ok(of_message(&bytes, out)?)
}

fn of_message(bytes: &[u8], mut out: Collector<'_>) -> Result<Profile, String> {
    let parts = Parts::of(bytes, &mut out)?;
    if parts.sample_types.is_empty() {
        return Err("it has no sample type".to_owned());
    }
    if parts.sample_types.len() > MAX_EVENTS {
        return Err(format!("it has more than {MAX_EVENTS} sample types"));
    }
    let events = events(&parts, &mut out)?;
    let locations = locations(&parts, &mut out)?;
    let mut negative = 0u64;
    let mut threads = Threads::default();
    let mut stated = StatedSample::default();
    let mut frames = Vec::new();
    for sample in &parts.samples {
        stated.read(sample, &parts)?;
        stated.frames(&locations, &mut frames)?;
        // A few bytes may refer to locations with many frames.
        let new = size_of_val(&frames[..]).saturating_sub(size_of_val(&stated.locations[..]));
        out.work(new)?;
        let stack = out.stack(&frames)?;
        let thread = threads.get(stated.labels, &parts, &mut out)?;
        let values = &stated.values;
        for event in &events {
            let weight = values[event.weight].cast_signed();
            let count = event
                .samples
                .map_or(i64::from(weight != 0), |at| values[at].cast_signed());
            if weight < 0 || count < 0 {
                negative += 1;
                continue;
            }
            if weight == 0 && count == 0 {
                continue;
            }
            out.add(&Row {
                event: event.event,
                thread,
                stack,
                samples: count.unsigned_abs(),
                weight: weight.unsigned_abs().saturating_mul(event.factor),
                ..Row::default()
            })?;
        }
    }
    if negative > 0 {
        out.warn(format!(
            "{negative} negative values were dropped; is this a difference of two profiles?"
        ));
    }
    out.warn("pprof records neither times of samples nor whether stacks are complete");
    if parts.time > 0 {
        out.wall_time(parts.time, parts.time.saturating_add(parts.duration));
    }
    out.finish()
}

/// A sample as in the message.
#[derive(Default)]
struct StatedSample {
    /// Ids of locations, leaf first.
    locations: Vec<u64>,
    /// One value for each sample type.
    values: Vec<u64>,
    labels: Labels,
}

impl StatedSample {
    /// Replaces the sample by the one of a message.
    fn read(&mut self, message: &[u8], parts: &Parts<'_>) -> Result<(), String> {
        self.locations.clear();
        self.values.clear();
        self.labels = Labels::default();
        let wanted = parts.sample_types.len();
        for field in Fields::new(message) {
            match field? {
                // Each location has at least one frame.
                (1, value) => value.numbers(MAX_FRAMES + 1, &mut self.locations)?,
                (2, value) => value.numbers(wanted + 1, &mut self.values)?,
                (3, value) => self.labels.add(value.bytes(), parts)?,
                _ => {}
            }
        }
        match self.values.len() {
            has if has == wanted => Ok(()),
            has => Err(format!(
                "a sample has {has} values, and there are {wanted} sample types"
            )),
        }
    }

    /// Replaces `frames` by the frames of the sample, outermost first.
    fn frames(
        &self,
        locations: &FxHashMap<u64, Location>,
        frames: &mut Vec<FrameId>,
    ) -> Result<(), String> {
        frames.clear();
        // Frames beyond the limit are dropped anyway.
        for (nth, id) in self.locations.iter().enumerate() {
            let location = locations.get(id);
            let location = location
                .ok_or_else(|| format!("a sample refers to location {id}, which does not exist"))?;
            let of_location = match nth {
                0 => &location.leaf,
                _ => &location.caller,
            };
            let room = (MAX_FRAMES + 1).saturating_sub(frames.len());
            frames.extend(of_location.iter().rev().take(room));
        }
        frames.reverse();
        Ok(())
    }
}

/// Threads by the labels of their samples; `None` for threads that the filter drops.
#[derive(Default)]
struct Threads {
    by_labels: FxHashMap<Labels, Option<ThreadId>>,
}

impl Threads {
    fn get(
        &mut self,
        labels: Labels,
        parts: &Parts<'_>,
        out: &mut Collector<'_>,
    ) -> Result<Option<ThreadId>, String> {
        if let Some(thread) = self.by_labels.get(&labels) {
            return Ok(*thread);
        }
        out.hold(THREAD_BYTES)?;
        let comm = parts.string(labels.comm)?;
        let process = match labels.process {
            0 => None,
            process => Some(parts.string(process)?),
        };
        out.work(comm.len() + process.as_ref().map_or(0, |name| name.len()))?;
        let thread = out.thread(labels.pid, labels.tid, &comm, process.as_deref())?;
        self.by_labels.insert(labels, thread);
        Ok(thread)
    }
}

/// Approximate size of an entry of the thread cache in bytes.
const THREAD_BYTES: usize = 64;

/// Labels of a sample that name its thread. Names are string indices; 0 is none.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Labels {
    comm: u64,
    process: u64,
    pid: Option<i32>,
    tid: Option<i32>,
}

impl Labels {
    fn add(&mut self, label: &[u8], parts: &Parts<'_>) -> Result<(), String> {
        let [_, key, text, number] = numbers(label)?;
        let number = i32::try_from(number).ok();
        match parts.bytes(key)? {
            b"comm" if self.comm == 0 => self.comm = text,
            b"thread_comm" | b"thread" | b"thread_name" | b"thread name" if text != 0 => {
                self.comm = text;
            }
            b"process" if text != 0 => self.process = text,
            b"pid" | b"process_id" => self.pid = number,
            b"tid" | b"thread_id" => self.tid = number,
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::{Frame, FrameAddress};

    fn number(tag: u8, value: u8, out: &mut Vec<u8>) {
        out.extend([tag << 3, value]);
    }

    fn part(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
        out.extend([tag << 3 | 2, bytes.len() as u8]);
        out.extend(bytes);
    }

    fn message(numbers: &[(u8, u8)], parts: &[(u8, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        numbers
            .iter()
            .for_each(|(tag, value)| number(*tag, *value, &mut out));
        parts
            .iter()
            .for_each(|(tag, bytes)| part(*tag, bytes, &mut out));
        out
    }

    const STRINGS: [&str; 9] = [
        "",
        "samples",
        "count",
        "cpu",
        "nanoseconds",
        "/bin/x",
        "main",
        "work",
        "x.c",
    ];

    /// `main` calls `work`, which contains an inlined `main`. The leaf of the sample is location 2.
    fn profile(sample: &[u8]) -> Vec<u8> {
        let types = [
            message(&[(1, 1), (2, 2)], &[]),
            message(&[(1, 3), (2, 4)], &[]),
        ];
        let line = |function, line| message(&[(1, function), (2, line)], &[]);
        let (outer, inner) = (line(2, 5), line(1, 7));
        let locations = [
            message(&[(1, 1), (2, 1), (3, 0x10)], &[(4, &line(1, 3))]),
            message(&[(1, 2), (2, 1), (3, 0x20)], &[(4, &inner), (4, &outer)]),
        ];
        let functions = [
            message(&[(1, 1), (2, 6), (4, 8), (5, 1)], &[]),
            message(&[(1, 2), (2, 7)], &[]),
        ];
        let mut out = Vec::new();
        types.iter().for_each(|of| part(1, of, &mut out));
        part(2, sample, &mut out);
        part(3, &message(&[(1, 1), (5, 5)], &[]), &mut out);
        locations.iter().for_each(|of| part(4, of, &mut out));
        functions.iter().for_each(|of| part(5, of, &mut out));
        STRINGS
            .iter()
            .for_each(|text| part(6, text.as_bytes(), &mut out));
        out
    }

    fn read_all(bytes: &[u8]) -> Result<Profile, String> {
        read(
            &mut &bytes[..],
            Path::new("x.pb"),
            &ImportOptions::default(),
        )
        .map_err(|error| error.to_string())
    }

    #[test]
    fn a_pair_of_types_is_an_event_and_inlined_calls_are_frames() {
        let bytes = profile(&message(&[], &[(1, &[2, 1]), (2, &[3, 30])]));
        assert!(is_pprof(&bytes, true));
        let profile = read_all(&bytes).unwrap();
        let [event] = &profile.events[..] else {
            panic!("{:?}", profile.events);
        };
        assert_eq!((&*event.name, event.samples, event.weight), ("cpu", 3, 30));
        let frames: Vec<Frame> = (profile.frames(profile.aggregated[0].stack))
            .map(|id| profile.frame(id))
            .collect();
        let named: Vec<_> = (frames.iter())
            .map(|frame| {
                let name = profile.function(frame.function).name.as_deref().unwrap();
                (name, frame.inline_depth, frame.start_line)
            })
            .collect();
        assert_eq!(named, [("main", 0, 1), ("work", 0, 0), ("main", 1, 1)]);
        assert_eq!(frames[0].address, Some(FrameAddress::ReturnAddress(0x11)));
        assert_eq!(
            frames[1].address,
            Some(FrameAddress::InstructionPointer(0x20))
        );
    }

    #[test]
    fn fields_in_any_order_are_a_profile_and_text_is_none() {
        let types = message(&[], &[(1, &message(&[(1, 1), (2, 2)], &[]))]);
        let names = message(&[], &[(6, b""), (6, b"cpu"), (6, b"ns")]);
        let times = message(&[(9, 5), (10, 6), (12, 7), (14, 1)], &[]);
        for parts in [
            [&types[..], &names, &times],
            [&times, &types, &names],
            [&names, &times, &types],
        ] {
            let bytes = parts.concat();
            assert!(is_pprof(&bytes, true));
            assert!(is_pprof(&bytes[..bytes.len() - 1], false));
            assert!(!is_pprof(&bytes[..bytes.len() - 1], true));
            assert_eq!(read_all(&bytes).unwrap_err(), "it has no sample");
        }
        for text in [
            "\nmain;work 3\n",
            "\n\n\n\nmain;work 3\n",
            "Hello",
            "",
            "\n\u{8}main;work 3\n",
            "2 3\n",
            "{\"a\":1}",
            "main;work 12\n",
            "PERFILE2",
            "x\u{1}",
        ] {
            assert!(!is_pprof(text.as_bytes(), true), "{text:?}");
            assert!(!is_pprof(text.as_bytes(), false), "{text:?}");
        }
    }

    #[test]
    fn numbers_that_name_nothing_are_errors() {
        let of = |sample: &[u8]| read_all(&profile(sample)).unwrap_err();
        let unknown = of(&message(&[], &[(1, &[9]), (2, &[1, 1])]));
        assert!(unknown.contains("location 9"), "{unknown}");
        let values = of(&message(&[], &[(1, &[1]), (2, &[1])]));
        assert!(values.contains("has 1 values"), "{values}");
        let label = of(&message(&[], &[(3, &message(&[(1, 99)], &[]))]));
        assert!(label.contains("no string 99"), "{label}");
        assert!(read_all(b"").unwrap_err().contains("no sample type"));
        let whole = profile(&message(&[], &[(1, &[1]), (2, &[1, 1])]));
        let cut = (1..whole.len()).filter(|len| read_all(&whole[..*len]).is_err());
        assert!(cut.count() > whole.len() / 2);
    }

    #[test]
    fn a_stack_without_end_is_cut() {
        let deep = message(&[], &[(2, &[1, 1])]);
        let mut bytes = profile(&deep);
        let mut sample = deep;
        sample.extend([1 << 3 | 2, 0x80, 0x80, 4]);
        sample.extend([1u8; 1 << 16]);
        assert_eq!(sample.len(), (1 << 16) + 8);
        bytes.extend([2 << 3 | 2, 0x88, 0x80, 4]);
        bytes.extend(&sample[..]);
        let profile = read_all(&bytes).unwrap();
        let depths: Vec<usize> = (profile.aggregated.iter())
            .map(|entry| profile.depth(entry.stack))
            .collect();
        assert_eq!(depths.iter().max(), Some(&MAX_FRAMES));
    }
}

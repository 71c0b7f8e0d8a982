//! pprof's `profile.proto` (<https://github.com/google/pprof/blob/main/proto/profile.proto>).
//!
//! Sample types become events. A pair `samples`/`count` and another, as profilers of CPU time write it, is one event:
//! number of samples, and weight. Negative values, as differences of two profiles have them, are left out.

use std::path::Path;

use rprof_profile::{
    Frame, FrameAddress, FrameId, FunctionId, Line, ObjectId, Profile, WeightUnit,
};
use rprof_records::BuildId;
use rustc_hash::FxHashMap;

use crate::ImportOptions;
use crate::collector::{Collector, Row};
use crate::wire::{Fields, Value};

/// Returns true if bytes, without gzip, begin as a profile: with a sample type, whose message has a number in it.
pub(crate) fn is_pprof(start: &[u8]) -> bool {
    // Field 1, a message of a few bytes that begins with field 1 or 2, a number.
    matches!(start, [0x0a, 2..=40, 0x08 | 0x10, ..])
}

/// Pieces of the message, by kind.
#[derive(Default)]
struct Parts<'a> {
    sample_types: Vec<&'a [u8]>,
    samples: Vec<&'a [u8]>,
    mappings: Vec<&'a [u8]>,
    locations: Vec<&'a [u8]>,
    functions: Vec<&'a [u8]>,
    strings: Vec<&'a [u8]>,
    default_type: u64,
    /// Nanoseconds since 1970; 0 where that is unknown.
    time: u64,
    /// Nanoseconds.
    duration: u64,
}

impl<'a> Parts<'a> {
    fn of(bytes: &'a [u8]) -> Result<Parts<'a>, String> {
        let mut parts = Parts::default();
        for field in Fields::new(bytes) {
            let (tag, value) = field?;
            let list = match tag {
                1 => &mut parts.sample_types,
                2 => &mut parts.samples,
                3 => &mut parts.mappings,
                4 => &mut parts.locations,
                5 => &mut parts.functions,
                6 => &mut parts.strings,
                9 | 10 | 14 => {
                    let number = match tag {
                        9 => &mut parts.time,
                        10 => &mut parts.duration,
                        _ => &mut parts.default_type,
                    };
                    *number = value.number();
                    continue;
                }
                _ => continue,
            };
            list.push(value.bytes());
        }
        Ok(parts)
    }

    /// Returns a string by its number.
    fn string(&self, number: u64) -> Result<String, String> {
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        let bytes = self.strings.get(index);
        let bytes = bytes.ok_or_else(|| format!("there is no string {number}"))?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// Numbers of a message by tag; the last one of each counts.
fn numbers<const N: usize>(message: &[u8]) -> Result<[u64; N], String> {
    let mut found = [0; N];
    for field in Fields::new(message) {
        let (tag, value) = field?;
        if let (Some(number), Value::Number(value)) = (found.get_mut(tag as usize), value) {
            *number = value;
        }
    }
    Ok(found)
}

/// Event of one or two sample types: places of number and weight among a sample's values.
struct EventOf {
    samples: Option<usize>,
    weight: usize,
    /// Nanoseconds, where the weight's unit is one of time.
    factor: u64,
    event: usize,
}

struct Mapping {
    object: ObjectId,
    start: u64,
    offset: u64,
}

struct FunctionOf {
    name: String,
    file: Option<rprof_profile::FileId>,
    start_line: u32,
}

/// Frames of a location, outermost first, with and without the address being one of a call.
struct Location {
    leaf: Vec<FrameId>,
    caller: Vec<FrameId>,
}

pub(crate) fn read(
    bytes: &[u8],
    source: &Path,
    options: &ImportOptions,
) -> Result<Profile, String> {
    let parts = Parts::of(bytes)?;
    if parts.sample_types.is_empty() {
        return Err("it has no sample type".to_owned());
    }
    let mut out = Collector::new(source, options, false);
    let events = events(&parts, &mut out)?;
    let locations = locations(&parts, &mut out)?;
    let mut negative = 0u64;
    let (mut ids, mut values) = (Vec::new(), Vec::new());
    let mut frames = Vec::new();
    for sample in &parts.samples {
        ids.clear();
        values.clear();
        let mut labels = Labels::default();
        for field in Fields::new(sample) {
            match field? {
                (1, value) => value.numbers(&mut ids)?,
                (2, value) => value.numbers(&mut values)?,
                (3, value) => labels.add(value.bytes(), &parts)?,
                _ => {}
            }
        }
        if values.len() != parts.sample_types.len() {
            let (has, wanted) = (values.len(), parts.sample_types.len());
            return Err(format!(
                "a sample has {has} values, and there are {wanted} sample types"
            ));
        }
        frames.clear();
        // Leaf first.
        for (nth, id) in ids.iter().enumerate().rev() {
            let location = locations.get(id);
            let location = location
                .ok_or_else(|| format!("a sample names location {id}, which there is not"))?;
            frames.extend_from_slice(if nth == 0 {
                &location.leaf
            } else {
                &location.caller
            });
        }
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
                pid: labels.pid,
                tid: labels.tid,
                comm: &labels.comm,
                process: labels.process.as_deref(),
                frames: &frames,
                samples: count.unsigned_abs(),
                weight: weight.unsigned_abs().saturating_mul(event.factor),
                ..Row::default()
            });
        }
    }
    if negative > 0 {
        out.warn(format!(
            "{negative} negative values are left out, as a difference of two profiles has them"
        ));
    }
    out.warn("pprof has no times of samples, and does not tell whether stacks are complete");
    if parts.time > 0 {
        out.wall_time(parts.time, parts.time.saturating_add(parts.duration));
    }
    Ok(out.finish())
}

/// Labels of a sample that name its thread.
#[derive(Default)]
struct Labels {
    comm: String,
    process: Option<String>,
    pid: Option<i32>,
    tid: Option<i32>,
}

impl Labels {
    fn add(&mut self, label: &[u8], parts: &Parts<'_>) -> Result<(), String> {
        let [_, key, text, number] = numbers(label)?;
        let number = i32::try_from(number).ok();
        match &*parts.string(key)? {
            "comm" if self.comm.is_empty() => self.comm = parts.string(text)?,
            "thread_comm" | "thread" | "thread_name" if text != 0 => {
                self.comm = parts.string(text)?;
            }
            "process" if text != 0 => self.process = Some(parts.string(text)?),
            "pid" | "process_id" => self.pid = number,
            "tid" | "thread_id" => self.tid = number,
            _ => {}
        }
        Ok(())
    }
}

/// Makes events of the sample types, the default one first.
fn events(parts: &Parts<'_>, out: &mut Collector<'_>) -> Result<Vec<EventOf>, String> {
    let mut types = Vec::new();
    for message in &parts.sample_types {
        let [_, name, unit] = numbers(message)?;
        types.push((name, parts.string(name)?, parts.string(unit)?));
    }
    let is_count = |at: usize| {
        let (_, name, unit) = &types[at];
        unit == "count"
            && (name == "samples" || name.ends_with("_samples") || name.ends_with("_sample"))
    };
    // Places of number and weight.
    let mut places: Vec<(Option<usize>, usize)> = Vec::new();
    let mut at = 0;
    while at < types.len() {
        let is_pair = is_count(at) && at + 1 < types.len() && !is_count(at + 1);
        places.push(match is_pair {
            true => (Some(at), at + 1),
            false => (is_count(at).then_some(at), at),
        });
        at += 1 + usize::from(is_pair);
    }
    let default = match parts.default_type {
        // As pprof shows it: the last.
        0 => places.len() - 1,
        wanted => {
            let is_it = |(samples, weight): &(Option<usize>, usize)| {
                types[*weight].0 == wanted || samples.is_some_and(|at| types[at].0 == wanted)
            };
            places.iter().position(is_it).unwrap_or(0)
        }
    };
    places.rotate_left(default);
    let event = |(samples, weight): (Option<usize>, usize)| {
        let (_, name, unit) = &types[weight];
        let (factor, unit) = match unit.as_str() {
            "nanoseconds" => (1, WeightUnit::Nanoseconds),
            "microseconds" => (1_000, WeightUnit::Nanoseconds),
            "milliseconds" => (1_000_000, WeightUnit::Nanoseconds),
            "seconds" => (1_000_000_000, WeightUnit::Nanoseconds),
            "count" if is_count(weight) => (1, WeightUnit::Samples),
            "count" | "" => (1, WeightUnit::Named(name.as_str().into())),
            unit => (1, WeightUnit::Named(unit.into())),
        };
        EventOf {
            samples,
            weight,
            factor,
            event: out.event(name, unit),
        }
    };
    Ok(places.into_iter().map(event).collect())
}

fn locations(
    parts: &Parts<'_>,
    out: &mut Collector<'_>,
) -> Result<FxHashMap<u64, Location>, String> {
    let mut mappings = FxHashMap::default();
    for message in &parts.mappings {
        let [_, id, start, _, offset, name, build_id] = numbers(message)?;
        let build_id = BuildId::from_hex(&parts.string(build_id)?);
        let object = out.object(&parts.string(name)?, build_id);
        mappings.insert(
            id,
            Mapping {
                object,
                start,
                offset,
            },
        );
    }
    let mut functions = FxHashMap::default();
    for message in &parts.functions {
        let [_, id, name, system_name, file, start_line] = numbers(message)?;
        let name = match name {
            0 => parts.string(system_name)?,
            name => parts.string(name)?,
        };
        let file = match file {
            0 => None,
            file => Some(out.file(&parts.string(file)?)),
        };
        let function = FunctionOf {
            name,
            file,
            start_line: u32::try_from(start_line).unwrap_or(0),
        };
        functions.insert(id, function);
    }
    let unknown = out.object("[unknown]", None);
    let mut locations = FxHashMap::default();
    let mut known: FxHashMap<(u64, ObjectId), FunctionId> = FxHashMap::default();
    for message in &parts.locations {
        let (mut id, mut mapping, mut address) = (0, 0, 0);
        let mut lines = Vec::new();
        for field in Fields::new(message) {
            match field? {
                (1, value) => id = value.number(),
                (2, value) => mapping = value.number(),
                (3, value) => address = value.number(),
                (4, value) => lines.push(value.bytes()),
                _ => {}
            }
        }
        let mapping = mappings.get(&mapping);
        let object = mapping.map_or(unknown, |mapping| mapping.object);
        let in_file = mapping.map_or(address, |mapping| {
            address
                .wrapping_sub(mapping.start)
                .wrapping_add(mapping.offset)
        });
        let mut location = Location {
            leaf: Vec::new(),
            caller: Vec::new(),
        };
        // The innermost call stands first.
        for (depth, line) in lines.iter().rev().enumerate() {
            let [_, function, line, column] = numbers(line)?;
            let of = functions.get(&function);
            let of = of.ok_or_else(|| {
                format!("a location names function {function}, which there is not")
            })?;
            let key = (function, object);
            let function = match known.get(&key) {
                Some(known) => *known,
                None => {
                    let made = out.function(&of.name, object);
                    known.insert(key, made);
                    made
                }
            };
            let small = |number: u64| u32::try_from(number).unwrap_or(0);
            let line = (of.file).filter(|_| line != 0).map(|file| Line {
                file,
                line: small(line),
                column: small(column),
            });
            let mut frame = |address| {
                out.frame(Frame {
                    address,
                    line,
                    inline_depth: depth as u32,
                    start_line: of.start_line,
                    ..Frame::of(function)
                })
            };
            let has_address = address != 0;
            let leaf = has_address.then_some(FrameAddress::InstructionPointer(in_file));
            let caller = FrameAddress::ReturnAddress(in_file.wrapping_add(1));
            location.leaf.push(frame(leaf));
            location.caller.push(frame(has_address.then_some(caller)));
        }
        if lines.is_empty() {
            let function = out.function(&format!("{in_file:#x}"), object);
            let frame = out.frame(Frame::of(function));
            location.leaf.push(frame);
            location.caller.push(frame);
        }
        if id == 0 || locations.insert(id, location).is_some() {
            return Err(format!("two locations have the id {id}, or one has none"));
        }
    }
    Ok(locations)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends a field that holds a number.
    fn number(tag: u8, value: u8, out: &mut Vec<u8>) {
        out.extend([tag << 3, value]);
    }

    /// Appends a field that holds bytes.
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

    /// `main` calls `work`, into which `main` was inlined once more; location 2 is the leaf of the sample.
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
        read(bytes, Path::new("x.pb"), &ImportOptions::default())
    }

    #[test]
    fn a_pair_of_types_is_an_event_and_inlined_calls_are_frames() {
        let bytes = profile(&message(&[], &[(1, &[2, 1]), (2, &[3, 30])]));
        assert!(is_pprof(&bytes));
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
}

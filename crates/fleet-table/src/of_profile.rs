//! [`of_profile`]: converts a profile to rows.

use std::collections::BTreeMap;

use rprof_export::{CleanName, CleanNames};
use rprof_profile::{
    AggregatedStack, Frame, FrameAddress, FrameId, Line, ObjectId, ObjectKind, Profile, StackId,
    Thread, ThreadId, WeightUnit,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::partition::HOUR;
use crate::rows::{
    FrameLine, FrameRow, HostRow, Identity, ImageRow, LocationRow, SampleRow, StackRow,
};
use crate::{FleetTableError, Id, Tables};

/// Length in microseconds of the windows by which samples are aggregated. A window starts at a full
/// minute of wall-clock time.
pub const WINDOW_US: i64 = 60_000_000;

/// Time range of a recorder's window. It contains all samples of its profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Start, in microseconds since 1970, UTC.
    pub start: i64,
    /// Length in microseconds.
    pub length: i64,
}

/// Metadata that a profile lacks.
#[derive(Clone, Copy)]
pub struct ProfileOrigin<'o> {
    /// Window of all samples. `None` aggregates by the minute of each sample.
    pub window: Option<Window>,
    /// Name of the host.
    pub host: &'o str,
    /// Requested samples a second per CPU. 0 if unknown, or if sampling was by event counts.
    pub rate_hz: f64,
    /// Factor that scales amounts to the whole: 1 / the sampled share of hosts or time.
    pub scale: f64,
    /// Number of lost windows before this one.
    pub lost_windows: u64,
    /// Maps a thread to its workload.
    pub identity: &'o dyn Fn(&Thread) -> Identity,
}

/// Aggregates a profile's samples by window. Returns the rows of each hour, with the start of the
/// hour in seconds since 1970.
///
/// Control characters are removed from names. In names of threads and processes, each run of digits
/// becomes `#`, so that `worker-1` and `worker-2` share rows as `worker-#`.
///
/// # Errors
/// No window is given, and the profile's samples have no timestamps, or none that refer to the time
/// of day.
pub fn of_profile(
    profile: &Profile,
    origin: &ProfileOrigin<'_>,
) -> Result<Vec<(i64, Tables)>, FleetTableError> {
    let mut content = Content::new(profile);
    let mut sums: BTreeMap<(i64, SumKey), (u64, u64)> = BTreeMap::new();
    let mut threads = Threads::new(profile, origin);
    let mut add = |start: i64, entry: &AggregatedStack, samples: u64, weight: u64| {
        let key = SumKey {
            event: entry.event,
            thread: threads.number(entry.thread),
            stack: content.stack(entry.stack),
        };
        let sum = sums.entry((start, key)).or_default();
        *sum = (sum.0.saturating_add(samples), sum.1.saturating_add(weight));
    };
    let (whole, length) = match origin.window {
        Some(window) => {
            for entry in &profile.aggregated {
                add(window.start, entry, entry.samples, entry.weight);
            }
            (window, window.length)
        }
        None => {
            let samples = profile.streams.as_ref().ok_or(FleetTableError::NoTimes)?;
            let (Some((wall, wall_end)), Some((first, _))) = (profile.wall_time, profile.time)
            else {
                return Err(FleetTableError::NoTimeOfDay);
            };
            for sample in samples.iter() {
                let time = micros(wall.saturating_add(sample.time.saturating_sub(first)));
                let start = time.div_euclid(WINDOW_US).saturating_mul(WINDOW_US);
                if let Some(entry) = profile.aggregated.get(sample.entry as usize) {
                    add(start, entry, 1, sample.weight);
                }
            }
            let whole = Window {
                start: micros(wall),
                length: micros(wall_end).saturating_sub(micros(wall)),
            };
            (whole, WINDOW_US)
        }
    };
    let mut hours: BTreeMap<i64, (Tables, FxHashSet<Id>)> = BTreeMap::new();
    for ((window, key), (count, weight)) in sums {
        let (tables, known) = hours.entry(hour_of(window)).or_default();
        content.add(key.stack, tables, known);
        let summary = &profile.events[key.event];
        let names = threads.names(key.thread);
        tables.samples.push(SampleRow {
            window_start: window,
            window_us: length,
            identity: names.identity.clone(),
            host: CleanName::new(origin.host).into_owned(),
            comm: names.comm.clone(),
            thread: names.thread.clone(),
            event: CleanNames::new(profile).event(key.event).into_owned(),
            unit: match summary.unit {
                WeightUnit::Nanoseconds => "nanoseconds",
                _ => "events",
            },
            period: summary.weight as f64 / summary.samples.max(1) as f64,
            stack_id: key.stack,
            samples: number(count),
            value: number(weight),
            scale: origin.scale,
        });
    }
    let (tables, _) = hours.entry(hour_of(whole.start)).or_default();
    tables.hosts.push(HostRow {
        window_start: whole.start,
        window_us: whole.length,
        host: CleanName::new(origin.host).into_owned(),
        samples: number(profile.events.iter().map(|event| event.samples).sum()),
        complete: number(profile.quality.stacks.complete),
        lost: number(profile.quality.lost),
        throttled: number(profile.quality.throttled),
        lost_windows: number(origin.lost_windows),
        rate_hz: origin.rate_hz,
        scale: origin.scale,
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
    });
    Ok(hours
        .into_iter()
        .map(|(hour, (tables, _))| (hour, tables))
        .collect())
}

/// Aggregation key within a window.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SumKey {
    event: usize,
    /// Index into [`Threads`].
    thread: u32,
    stack: Id,
}

fn micros(nanoseconds: u64) -> i64 {
    number(nanoseconds / 1_000)
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Returns the start of the hour in seconds, for a time in microseconds.
fn hour_of(micros: i64) -> i64 {
    micros.div_euclid(1_000_000).div_euclid(HOUR) * HOUR
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct ThreadNames {
    identity: Identity,
    comm: String,
    thread: String,
}

struct Threads<'p> {
    profile: &'p Profile,
    origin: ProfileOrigin<'p>,
    known: FxHashMap<ThreadId, u32>,
    numbers: FxHashMap<ThreadNames, u32>,
    names: Vec<ThreadNames>,
}

impl<'p> Threads<'p> {
    fn new(profile: &'p Profile, origin: &ProfileOrigin<'p>) -> Threads<'p> {
        Threads {
            profile,
            origin: *origin,
            known: FxHashMap::default(),
            numbers: FxHashMap::default(),
            names: Vec::new(),
        }
    }

    fn number(&mut self, id: ThreadId) -> u32 {
        if let Some(number) = self.known.get(&id) {
            return *number;
        }
        let thread = self.profile.thread(id);
        let name = |comm| without_digits(&CleanNames::new(self.profile).comm(comm));
        let names = ThreadNames {
            identity: (self.origin.identity)(thread),
            comm: name(thread.process_comm.unwrap_or(thread.comm)),
            thread: name(thread.comm),
        };
        let all = &mut self.names;
        let number = *self.numbers.entry(names).or_insert_with_key(|names| {
            all.push(names.clone());
            all.len() as u32 - 1
        });
        self.known.insert(id, number);
        number
    }

    fn names(&self, number: u32) -> &ThreadNames {
        &self.names[number as usize]
    }
}

fn without_digits(name: &str) -> String {
    let mut folded = String::with_capacity(name.len());
    for c in name.chars() {
        match c.is_ascii_digit() {
            false => folded.push(c),
            true if folded.ends_with('#') => {}
            true => folded.push('#'),
        }
    }
    folded
}

/// Stacks, locations, names and images of a profile, by id.
struct Content<'p> {
    profile: &'p Profile,
    /// Ids of stacks, by their id in the profile.
    of_stacks: FxHashMap<StackId, Id>,
    /// Locations of each stack, leaf first.
    stacks: FxHashMap<Id, Vec<Id>>,
    locations: FxHashMap<Id, Location>,
    /// Images, and whether all their sampled functions have names.
    images: FxHashMap<ObjectId, bool>,
    /// Ids of locations, by their frames in the profile, outermost first.
    of_frames: FxHashMap<Vec<FrameId>, Id>,
}

struct Location {
    object: ObjectId,
    address: Option<u64>,
    frames: Vec<FrameId>,
}

impl<'p> Content<'p> {
    fn new(profile: &'p Profile) -> Content<'p> {
        Content {
            profile,
            of_stacks: FxHashMap::default(),
            stacks: FxHashMap::default(),
            locations: FxHashMap::default(),
            images: FxHashMap::default(),
            of_frames: FxHashMap::default(),
        }
    }

    fn stack(&mut self, stack: StackId) -> Id {
        if let Some(id) = self.of_stacks.get(&stack) {
            return *id;
        }
        let frames: Vec<FrameId> = self.profile.frames(stack).collect();
        let mut rest = frames.as_slice();
        let mut locations = Vec::new();
        while !rest.is_empty() {
            // An inlined call follows the function that contains it.
            let is_outer = |frame: &FrameId| self.profile.frame(*frame).inline_depth == 0;
            let begin = rest.iter().rposition(is_outer).unwrap_or(0);
            let (callers, one) = rest.split_at(begin);
            rest = callers;
            locations.push(self.location(one));
        }
        let id = Id::of_stack(locations.iter().copied());
        self.stacks.entry(id).or_insert(locations);
        self.of_stacks.insert(stack, id);
        id
    }

    fn location(&mut self, frames: &[FrameId]) -> Id {
        if let Some(id) = self.of_frames.get(frames) {
            return *id;
        }
        let profile = self.profile;
        let outermost = profile.frame(frames[0]);
        let function = profile.function(outermost.function);
        let object = profile.object(function.object);
        let image = image_key(profile, function.object);
        let address = match object.kind {
            ObjectKind::File => outermost.address.map(FrameAddress::lookup_address),
            // Addresses of the kernel and of JIT-compiled code differ between runs.
            _ => None,
        };
        let id = match address {
            Some(address) => Id::of_address(&image, address),
            None => {
                let names = frames.iter().rev().map(|frame| {
                    let function = profile.frame(*frame).function;
                    profile
                        .function(function)
                        .name
                        .as_deref()
                        .unwrap_or_default()
                });
                Id::of_names(&image, names)
            }
        };
        let is_named = function.nameless().is_none();
        let all_named = self.images.entry(function.object).or_insert(true);
        *all_named &= is_named;
        self.locations.entry(id).or_insert(Location {
            object: function.object,
            address,
            frames: frames.to_vec(),
        });
        self.of_frames.insert(frames.to_vec(), id);
        id
    }

    /// Adds a stack and its parts to tables that lack it.
    fn add(&self, stack: Id, tables: &mut Tables, known: &mut FxHashSet<Id>) {
        let Some(locations) = self.stacks.get(&stack).filter(|_| known.insert(stack)) else {
            return;
        };
        tables.stacks.push(StackRow {
            stack_id: stack,
            location_ids: locations.clone(),
        });
        for id in locations {
            let Some(location) = self.locations.get(id).filter(|_| known.insert(*id)) else {
                continue;
            };
            let image_id = Id::of_image(&image_key(self.profile, location.object));
            tables.locations.push(LocationRow {
                location_id: *id,
                image_id,
                address: location.address.map(u64::cast_signed),
            });
            tables.frames.push(self.frame_row(*id, &location.frames));
            if known.insert(image_id) {
                tables
                    .images
                    .push(self.image_row(image_id, location.object));
            }
        }
    }

    fn frame_row(&self, location_id: Id, frames: &[FrameId]) -> FrameRow {
        let lines: Vec<FrameLine> = (frames.iter().rev())
            .map(|frame| self.line(&self.profile.frame(*frame)))
            .collect();
        let has_names = frames.iter().any(|frame| {
            let function = self.profile.frame(*frame).function;
            self.profile.function(function).nameless().is_none()
        });
        let has_lines = lines.iter().any(|line| line.line.is_some());
        FrameRow {
            location_id,
            symbols_rank: match (has_lines, has_names) {
                (true, _) => 2,
                (false, true) => 1,
                (false, false) => 0,
            },
            lines,
        }
    }

    fn line(&self, frame: &Frame) -> FrameLine {
        let names = CleanNames::new(self.profile);
        let function = self.profile.function(frame.function);
        let of_source = function.source.as_deref().and_then(|source| {
            Some(Line {
                file: source.file?,
                line: source.line,
                column: source.column,
            })
        });
        let line = frame.line.or(function.line).or(of_source);
        FrameLine {
            function: names
                .own_function(frame.function)
                .map(CleanName::into_owned),
            file: line
                .map(|line| CleanName::new(&self.profile.files[line.file.0 as usize]).into_owned()),
            line: line
                .and_then(|line| i32::try_from(line.line).ok())
                .filter(|line| *line > 0),
            inlined: frame.inline_depth > 0,
        }
    }

    fn image_row(&self, image_id: Id, id: ObjectId) -> ImageRow {
        let object = self.profile.object(id);
        let build_id = object.build_id.as_ref().map(ToString::to_string);
        ImageRow {
            image_id,
            path: CleanNames::new(self.profile).object(id).into_owned(),
            kind: match object.kind {
                ObjectKind::File => "file",
                ObjectKind::Kernel => "kernel",
                ObjectKind::Jit => "jit",
                ObjectKind::Waiting => "waiting",
            },
            symbols: match (self.images.get(&id), &build_id) {
                (Some(true), _) => "edge",
                (_, Some(_)) if object.kind == ObjectKind::File => "wanted",
                _ => "none",
            },
            build_id,
        }
    }
}

/// Returns the key of an image across hosts: its build-id, or its path if there is none.
fn image_key(profile: &Profile, object: ObjectId) -> String {
    let object = profile.object(object);
    match &object.build_id {
        Some(build_id) => build_id.to_string(),
        None => object.name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use rprof_profile::{Object, ProfileBuilder, ProfileSample, Reason};

    use super::*;

    /// 2023-11-14 22:29:50.
    const BEGIN: u64 = 1_700_000_990;
    const SECOND: u64 = 1_000_000_000;

    /// Builds a profile with one sample a second of each of two threads.
    fn profile(is_named: bool, seconds: u64) -> Profile {
        let mut builder = ProfileBuilder::with_addresses().streams(true);
        let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
        let object = builder.add_object(Object {
            name: "/bin/app".into(),
            kind: ObjectKind::File,
            build_id: None,
            runtime: None,
        });
        let name = |name| match is_named {
            true => Ok(name),
            false => Err(Reason::NoSymbolAtAddress),
        };
        let main = builder.intern_function(name("main"), object);
        let work = builder.intern_function(name("work"), object);
        let frame = |function, address, inline_depth| Frame {
            address: Some(FrameAddress::InstructionPointer(address)),
            inline_depth,
            ..Frame::of(function)
        };
        let mut frames = vec![builder.intern_frame(frame(main, 0x10, 0))];
        if is_named {
            frames.push(builder.intern_frame(frame(work, 0x10, 1)));
        }
        let stack = builder.intern_stack(&frames);
        for thread in ["worker-1", "worker-22"] {
            let thread = builder.intern_thread_name(thread);
            for second in 0..seconds {
                builder.add_sample(ProfileSample {
                    time: 5 + second * SECOND,
                    cpu: None,
                    thread,
                    stack,
                    event,
                    weight: 10,
                });
            }
        }
        builder.set_time(Some((5, 5 + (seconds - 1) * SECOND)));
        builder.set_wall_time(Some((BEGIN * SECOND, (BEGIN + seconds - 1) * SECOND)));
        builder.finish()
    }

    fn rows(profile: &Profile) -> Vec<(i64, Tables)> {
        let service = |_: &Thread| Identity {
            service: "api".into(),
            ..Identity::default()
        };
        let origin = ProfileOrigin {
            window: None,
            host: "web-1",
            rate_hz: 1.0,
            scale: 1.0,
            lost_windows: 0,
            identity: &service,
        };
        of_profile(profile, &origin).unwrap()
    }

    #[test]
    fn samples_are_summed_up_by_minute_and_name() {
        let hours = rows(&profile(true, 100));
        assert_eq!(hours.len(), 1);
        let (hour, tables) = &hours[0];
        assert_eq!(hour % HOUR, 0);
        let sums: Vec<_> = (tables.samples.iter())
            .map(|row| {
                (
                    row.window_start / 1_000_000 - *hour,
                    row.thread.as_str(),
                    row.samples,
                    row.value,
                )
            })
            .collect();
        // The first minute has 10 seconds of two threads, the second 60, the third the rest.
        assert_eq!(
            sums,
            [
                (29 * 60, "worker-#", 20, 200),
                (30 * 60, "worker-#", 120, 1200),
                (31 * 60, "worker-#", 60, 600)
            ]
        );
        assert_eq!(tables.stacks.len(), 1);
        assert_eq!(tables.hosts[0].samples, 200);
    }

    #[test]
    fn an_inlined_call_is_a_line_of_its_location() {
        let (_, tables) = &rows(&profile(true, 1))[0];
        assert_eq!(tables.locations.len(), 1);
        let lines: Vec<_> = tables.frames[0]
            .lines
            .iter()
            .map(|line| (line.function.as_deref(), line.inlined))
            .collect();
        assert_eq!(lines, [(Some("work"), true), (Some("main"), false)]);
        assert_eq!(tables.images[0].symbols, "edge");
    }

    #[test]
    fn a_stack_without_names_has_the_id_that_it_has_with_names() {
        let (named, nameless) = (rows(&profile(true, 1)), rows(&profile(false, 1)));
        assert_eq!(named[0].1.stacks, nameless[0].1.stacks);
        assert_eq!(nameless[0].1.frames[0].symbols_rank, 0);
        assert_eq!(named[0].1.frames[0].symbols_rank, 1);
    }

    #[test]
    fn hours_have_files_of_their_own_and_each_has_its_stacks() {
        let hours = rows(&profile(true, 2_000));
        let (samples, stacks): (Vec<i64>, Vec<usize>) = (hours.iter())
            .map(|(_, tables)| {
                (
                    tables.samples.iter().map(|row| row.samples).sum::<i64>(),
                    tables.stacks.len(),
                )
            })
            .unzip();
        // From 22:29:50 to 23:00:00 there are 1,810 seconds.
        assert_eq!(samples, [3_620, 380]);
        assert_eq!(stacks, [1, 1]);
    }

    #[test]
    fn what_has_no_times_is_told() {
        let mut profile = profile(true, 1);
        profile.wall_time = None;
        let identity = |_: &Thread| Identity::default();
        let origin = ProfileOrigin {
            window: None,
            host: "",
            rate_hz: 0.0,
            scale: 1.0,
            lost_windows: 0,
            identity: &identity,
        };
        assert!(matches!(
            of_profile(&profile, &origin),
            Err(FleetTableError::NoTimeOfDay)
        ));
        profile.streams = None;
        assert!(matches!(
            of_profile(&profile, &origin),
            Err(FleetTableError::NoTimes)
        ));
    }

    #[test]
    fn digits_are_folded() {
        for (name, folded) in [
            ("w-12-b3", "w-#-b#"),
            ("main", "main"),
            ("007", "#"),
            ("", ""),
        ] {
            assert_eq!(without_digits(name), folded);
        }
    }
}

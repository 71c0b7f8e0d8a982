//! Perfetto's trace format: samples with stacks, and waits as slices, on one time line.
//!
//! Source: `protos/perfetto/trace` of Perfetto 59, and
//! <https://perfetto.dev/docs/reference/synthetic-track-event>. A trace is a list of packets. Names,
//! frames and callstacks have numbers, which all packets of one sequence share.
//!
//! | packet | contents |
//! |---|---|
//! | `interned_data` | names, objects, frames and callstacks |
//! | `track_descriptor` | names of processes and threads |
//! | `perf_sample` | a sample of the main event, with its callstack |
//! | `track_event` | begin or end of a wait, with its reason as the name |
//!
//! A sample has no weight there, but the value of a counter. So `timebase_count` is the sum of the
//! weights of this and all earlier samples on the CPU.

use std::io::{self, Write};

use rprof_profile::waits::is_of_waits;
use rprof_profile::{FrameId, FrameListId, ObjectKind, Profile, StreamedSample, ThreadId};
use rustc_hash::FxHashMap;

use crate::frame_text::shown_name;
use crate::names::{CleanName, CleanNames};
use crate::options::ReportOptions;
use crate::protobuf::{number, part, text, unsigned};

/// Fields of `TracePacket`.
mod packet {
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED_DATA: u32 = 12;
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    pub(super) const DEFAULTS: u32 = 59;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
    pub(super) const PERF_SAMPLE: u32 = 66;
    pub(super) const IS_FIRST: u32 = 87;
}

/// Fields of `InternedData`.
mod interned {
    pub(super) const EVENT_NAME: u32 = 2;
    pub(super) const FUNCTION_NAME: u32 = 5;
    pub(super) const FRAME: u32 = 6;
    pub(super) const CALLSTACK: u32 = 7;
    pub(super) const MAPPING_PATH: u32 = 17;
    pub(super) const SOURCE_PATH: u32 = 18;
    pub(super) const MAPPING: u32 = 19;
}

/// `SEQ_INCREMENTAL_STATE_CLEARED`: numbers start anew.
const STATE_CLEARED: u64 = 1;

/// `SEQ_NEEDS_INCREMENTAL_STATE`: the packet uses numbers of earlier packets.
const NEEDS_STATE: u64 = 2;

/// Size after which interned data continues in another packet, in bytes.
const PACKET_BYTES: usize = 64 << 10;

/// Number of the mapping or name with this index. 0 means none.
fn iid(index: usize) -> u64 {
    index as u64 + 1
}

/// Writes the samples of the main event, and all waits.
///
/// # Errors
/// Fails if the writer does.
pub fn write(profile: &Profile, options: &ReportOptions, out: &mut dyn Write) -> io::Result<()> {
    let mut trace = Trace {
        out: io::BufWriter::new(out),
        packet: Vec::new(),
    };
    let main = profile.main_event();
    let is_shown = |event: usize| {
        Some(event) == main || is_of_waits(profile.events.get(event).map_or("", |e| &e.name))
    };
    let main_name = main.map(|event| CleanNames::new(profile).event(event));
    trace.begin(main_name.as_deref().unwrap_or(""))?;
    let stacks = Interned::of(profile, is_shown).write(profile, &mut trace)?;
    let threads = tracks(profile, &mut trace)?;
    let mut counted: FxHashMap<u32, u64> = FxHashMap::default();
    for thread in &threads {
        let mut waits = Vec::new();
        for (sample, entry) in samples(profile, &thread.ids) {
            if !is_shown(entry.event) {
                continue;
            }
            let callstack = stacks
                .get(&profile.lists(entry.stack))
                .copied()
                .unwrap_or(0);
            match profile.reason_at(entry.stack) {
                Some(reason) => waits.push(Slice {
                    end: sample.time,
                    length: sample.weight,
                    name: iid(reason.0 as usize),
                    callstack,
                }),
                // Unknown reason.
                None if is_of_waits(&profile.events[entry.event].name) => waits.push(Slice {
                    end: sample.time,
                    length: sample.weight,
                    name: 0,
                    callstack,
                }),
                None => {
                    let cpu = sample.cpu.unwrap_or(0);
                    let count = counted.entry(cpu).or_insert(0);
                    *count = count.saturating_add(options.rows.weight.of_sample(sample.weight));
                    let is_kernel = profile.stack(entry.stack).next_back().is_some_and(|leaf| {
                        profile.object(profile.function(leaf).object).kind == ObjectKind::Kernel
                    });
                    trace.sample(thread, sample, callstack, *count, is_kernel)?;
                }
            }
        }
        trace.slices(thread, waits)?;
    }
    trace.out.flush()
}

/// Thread with all names that it had.
struct Track {
    pid: u64,
    tid: u64,
    uuid: u64,
    ids: Vec<ThreadId>,
}

/// Wait of a thread.
struct Slice {
    end: u64,
    length: u64,
    name: u64,
    callstack: u64,
}

/// Iterates over a thread's samples with their entries, by time for each of its names. Without
/// times, each entry is one sample.
fn samples<'p>(
    profile: &'p Profile,
    ids: &'p [ThreadId],
) -> impl Iterator<Item = (StreamedSample, &'p rprof_profile::AggregatedStack)> {
    let timed = profile.streams.iter().flat_map(move |streams| {
        let samples = ids.iter().flat_map(|id| streams.of(*id));
        samples.filter_map(|sample| Some((sample, profile.aggregated.get(sample.entry as usize)?)))
    });
    let has_times = profile.streams.is_some();
    let summed = profile.aggregated.iter().enumerate();
    let summed = summed.filter(move |(_, entry)| !has_times && ids.contains(&entry.thread));
    timed.chain(summed.map(|(index, entry)| {
        let sample = StreamedSample {
            time: index as u64,
            cpu: None,
            entry: index as u32,
            weight: entry.weight,
        };
        (sample, entry)
    }))
}

/// Describes processes and threads. Returns the threads.
fn tracks<W: Write>(profile: &Profile, trace: &mut Trace<W>) -> io::Result<Vec<Track>> {
    let names = CleanNames::new(profile);
    let mut found: Vec<Track> = Vec::new();
    let mut places: FxHashMap<(u64, u64), usize> = FxHashMap::default();
    for (index, thread) in profile.threads.iter().enumerate() {
        // Threads without ids get numbers.
        let known = |id: Option<i32>| id.map_or(iid(index), |id| u64::from(id.unsigned_abs()));
        let (pid, tid) = (known(thread.pid), known(thread.tid));
        let place = *places.entry((pid, tid)).or_insert_with(|| {
            found.push(Track {
                pid,
                tid,
                uuid: (pid << 32 | tid) << 1 | 1,
                ids: Vec::new(),
            });
            found.len() - 1
        });
        found[place].ids.push(ThreadId(index as u32));
    }
    let mut known = rustc_hash::FxHashSet::default();
    for track in &found {
        // Name of the last sample.
        let last_time = |id: &&ThreadId| {
            let streams = profile.streams.as_ref();
            let last = streams.and_then(|streams| streams.of(**id).last());
            last.map_or(0, |sample| sample.time)
        };
        let Some(last) = track.ids.iter().max_by_key(last_time) else {
            continue;
        };
        let thread = profile.thread(*last);
        // No track has the number 0, but the idle thread has the ids 0.
        let process = (track.pid + 1) << 33;
        if known.insert(process) {
            let name = names.comm(thread.process_comm.unwrap_or(thread.comm));
            let mut described = Vec::new();
            number(1, track.pid.cast_signed(), &mut described);
            text(6, &name, &mut described);
            let mut track = Vec::new();
            unsigned(1, process, &mut track);
            part(3, &described, &mut track);
            trace.put(packet::TRACK_DESCRIPTOR, &track, None)?;
        }
        let mut described = Vec::new();
        number(1, track.pid.cast_signed(), &mut described);
        number(2, track.tid.cast_signed(), &mut described);
        text(5, &names.comm(thread.comm), &mut described);
        let mut descriptor = Vec::new();
        unsigned(1, track.uuid, &mut descriptor);
        unsigned(5, process, &mut descriptor);
        part(4, &described, &mut descriptor);
        trace.put(packet::TRACK_DESCRIPTOR, &descriptor, None)?;
    }
    Ok(found)
}

struct Trace<W: Write> {
    out: io::BufWriter<W>,
    packet: Vec<u8>,
}

impl<W: Write> Trace<W> {
    /// Writes the first packet of the sequence, with the name of the sampled event.
    fn begin(&mut self, event: &str) -> io::Result<()> {
        let (mut timebase, mut samples, mut defaults) = (Vec::new(), Vec::new(), Vec::new());
        unsigned(1, 1, &mut timebase);
        text(10, event, &mut timebase);
        part(1, &timebase, &mut samples);
        part(12, &samples, &mut defaults);
        let mut packet = Vec::new();
        unsigned(packet::SEQUENCE, 1, &mut packet);
        unsigned(packet::SEQUENCE_FLAGS, STATE_CLEARED, &mut packet);
        unsigned(packet::IS_FIRST, 1, &mut packet);
        part(packet::DEFAULTS, &defaults, &mut packet);
        self.write(&packet)
    }

    /// Writes a packet with one message, and a time in nanoseconds of the recording's clock.
    fn put(&mut self, field: u32, message: &[u8], time: Option<u64>) -> io::Result<()> {
        let mut packet = std::mem::take(&mut self.packet);
        packet.clear();
        unsigned(packet::TIMESTAMP, time.unwrap_or(0), &mut packet);
        unsigned(packet::SEQUENCE, 1, &mut packet);
        unsigned(packet::SEQUENCE_FLAGS, NEEDS_STATE, &mut packet);
        part(field, message, &mut packet);
        let written = self.write(&packet);
        self.packet = packet;
        written
    }

    fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        let mut framed = Vec::with_capacity(packet.len() + 8);
        part(1, packet, &mut framed);
        self.out.write_all(&framed)
    }

    fn sample(
        &mut self,
        thread: &Track,
        sample: StreamedSample,
        callstack: u64,
        count: u64,
        is_kernel: bool,
    ) -> io::Result<()> {
        let mut message = Vec::with_capacity(40);
        unsigned(1, u64::from(sample.cpu.unwrap_or(0)), &mut message);
        unsigned(2, thread.pid, &mut message);
        unsigned(3, thread.tid, &mut message);
        unsigned(4, callstack, &mut message);
        // `Profiling.CpuMode`.
        unsigned(5, if is_kernel { 1 } else { 2 }, &mut message);
        unsigned(6, count, &mut message);
        self.put(packet::PERF_SAMPLE, &message, Some(sample.time))
    }

    /// Writes the waits of a thread. Slices of a track nest, so waits must not overlap: a record
    /// may sum short waits, and then moves before a later wait, with its whole length.
    fn slices(&mut self, thread: &Track, mut waits: Vec<Slice>) -> io::Result<()> {
        waits.sort_by_key(|wait| wait.end);
        let mut next = u64::MAX;
        for wait in waits.iter_mut().rev() {
            wait.end = wait.end.min(next);
            next = wait.end.saturating_sub(wait.length);
        }
        for wait in &waits {
            let mut begin = Vec::with_capacity(40);
            unsigned(9, 1, &mut begin);
            unsigned(10, wait.name, &mut begin);
            unsigned(11, thread.uuid, &mut begin);
            text(22, "wait", &mut begin);
            unsigned(56, wait.callstack, &mut begin);
            let from = wait.end.saturating_sub(wait.length);
            self.put(packet::TRACK_EVENT, &begin, Some(from))?;
            let mut end = Vec::with_capacity(16);
            unsigned(9, 2, &mut end);
            unsigned(11, thread.uuid, &mut end);
            self.put(packet::TRACK_EVENT, &end, Some(wait.end))?;
        }
        Ok(())
    }
}

/// Names, frames and callstacks of all shown entries.
#[derive(Default)]
struct Interned {
    /// Distinct frames: function, file and line.
    frames: Vec<FrameId>,
    numbers: FxHashMap<(u32, Option<(u32, u32)>), u64>,
    by_id: FxHashMap<usize, u64>,
    stacks: Vec<(FrameListId, FrameListId)>,
    stack_numbers: FxHashMap<(FrameListId, FrameListId), u64>,
}

impl Interned {
    fn of(profile: &Profile, is_shown: impl Fn(usize) -> bool) -> Interned {
        let mut found = Interned::default();
        for entry in profile
            .aggregated
            .iter()
            .filter(|entry| is_shown(entry.event))
        {
            let lists = profile.lists(entry.stack);
            let number = iid(found.stacks.len());
            if found.stack_numbers.contains_key(&lists) {
                continue;
            }
            found.stack_numbers.insert(lists, number);
            found.stacks.push(lists);
            for id in profile.list(lists.0).chain(profile.list(lists.1)) {
                found.add(profile, id);
            }
        }
        found
    }

    fn add(&mut self, profile: &Profile, id: FrameId) {
        if self.by_id.contains_key(&id.index()) {
            return;
        }
        let frame = profile.frame(id);
        let line = frame.line.map(|line| (line.file.0, line.line));
        let next = iid(self.frames.len());
        let number = *self.numbers.entry((frame.function.0, line)).or_insert(next);
        if number == next {
            self.frames.push(id);
        }
        self.by_id.insert(id.index(), number);
    }

    /// Writes everything, names first. Returns the number of each callstack.
    fn write<W: Write>(
        self,
        profile: &Profile,
        trace: &mut Trace<W>,
    ) -> io::Result<FxHashMap<(FrameListId, FrameListId), u64>> {
        let names = CleanNames::new(profile);
        let mut data = Data {
            trace,
            bytes: Vec::new(),
        };
        let named = |number: usize, name: &str| {
            let mut entry = Vec::new();
            unsigned(1, iid(number), &mut entry);
            text(2, name, &mut entry);
            entry
        };
        for (number, function) in profile.functions.iter().enumerate() {
            let name = shown_name(profile, rprof_profile::FunctionId(number as u32));
            data.add(interned::FUNCTION_NAME, &named(number, &name))?;
            if profile.object(function.object).kind == ObjectKind::Waiting {
                data.add(interned::EVENT_NAME, &named(number, &name))?;
            }
        }
        for (number, file) in profile.files.iter().enumerate() {
            let path = CleanName::new(file);
            data.add(interned::SOURCE_PATH, &named(number, &path))?;
        }
        for number in 0..profile.objects.len() {
            let path = names.object(rprof_profile::ObjectId(number as u32));
            data.add(interned::MAPPING_PATH, &named(number, &path))?;
            let mut mapping = Vec::new();
            unsigned(1, iid(number), &mut mapping);
            // Numbers instead of addresses.
            unsigned(5, u64::MAX, &mut mapping);
            unsigned(7, iid(number), &mut mapping);
            data.add(interned::MAPPING, &mapping)?;
        }
        for (number, id) in self.frames.iter().enumerate() {
            let frame = profile.frame(*id);
            let object = profile.function(frame.function).object;
            let mut entry = Vec::new();
            unsigned(1, iid(number), &mut entry);
            unsigned(2, iid(frame.function.0 as usize), &mut entry);
            unsigned(3, iid(object.0 as usize), &mut entry);
            // Distinguishes frames of a mapping.
            unsigned(4, iid(number), &mut entry);
            if let Some(line) = frame.line {
                unsigned(5, iid(line.file.0 as usize), &mut entry);
                unsigned(6, u64::from(line.line), &mut entry);
            }
            data.add(interned::FRAME, &entry)?;
        }
        for (number, lists) in self.stacks.iter().enumerate() {
            let frames = profile.list(lists.0).chain(profile.list(lists.1));
            let mut entry = Vec::new();
            unsigned(1, iid(number), &mut entry);
            for id in frames {
                unsigned(
                    2,
                    self.by_id.get(&id.index()).copied().unwrap_or(0),
                    &mut entry,
                );
            }
            data.add(interned::CALLSTACK, &entry)?;
        }
        data.flush()?;
        Ok(self.stack_numbers)
    }
}

/// Interned data in packets of limited size.
struct Data<'t, W: Write> {
    trace: &'t mut Trace<W>,
    bytes: Vec<u8>,
}

impl<W: Write> Data<'_, W> {
    fn add(&mut self, field: u32, entry: &[u8]) -> io::Result<()> {
        part(field, entry, &mut self.bytes);
        match self.bytes.len() > PACKET_BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.bytes);
        self.trace.put(packet::INTERNED_DATA, &bytes, None)
    }
}

//! Assembles the profile: maps stacks of locations to stacks of functions, and adds up samples and
//! quality.

mod inputs;
mod one_by_one;
mod root_code;
mod roots;
mod wakers;
mod worker_stacks;

use rprof_processes::{CommId, Pid, Tid};
use rustc_hash::{FxHashMap, FxHashSet};

use rprof_profile::intern::{Lists, Values};
use rprof_profile::memory::{Coverage, Requests, sums_memory};
use rprof_profile::{
    AggregatedStack, CpuTime, EventSummary, Frame, FrameAddress, FrameListId, Profile,
    ProfileBuilder, Quality, RequestKey, SymbolTables, Thread, ThreadId, WeightUnit,
};
use rprof_records::request_context;
use rprof_symbols::Symbolizer;

use crate::comms::thread_name;
use crate::counted::counted;
use crate::groups::{SampleGroup, WokenBy};
use crate::location::CodeRegion;
use crate::options::Options;
use crate::requests::{RequestName, RequestTimes};
use crate::sample_pass::aggregate_table::SampleGroups;
use crate::sample_pass::compact_rows::BlockRows;
use crate::sample_pass::results::{WorkerResult, WorkerResults};
use crate::sample_pass::stacks::Locations;
use crate::sideband_pass::Index;
use crate::stack_filter::StackFilter;
use crate::symbolize::Symbols;
use inputs::{AssembleInputs, FrameIds, waits_of};
use one_by_one::Entries;
use root_code::RootCode;
pub(crate) use roots::reaches_root;
use wakers::WakerFrames;
use worker_stacks::{GroupKey, WorkerStacks};

pub(crate) fn assemble(
    index: &Index<'_>,
    symbolizer: &Symbolizer,
    (parts, mut symbols, requests): (WorkerResults, Symbols, Option<RequestTimes>),
    options: &Options,
) -> Profile {
    let WorkerResults { locations, parts } = parts;
    let groups = parts.iter().flat_map(|part| part.resolved.contexts.all());
    let wakers = WakerFrames::add(groups, &index.timeline, &mut symbols);
    let frames = options.addresses.then(|| {
        let mut frames = frames(&locations, &symbols);
        frames.extend(wakers.in_order.iter().map(|id| Frame::of(*id)));
        frames
    });
    let has_callchains =
        !options.leaves_only && parts.iter().any(|part| part.resolved.has_callchains);
    let known = AssembleInputs {
        symbols: &symbols,
        is_kernel: (locations.as_slice().iter())
            .map(|location| matches!(location.region, CodeRegion::Kernel(_)))
            .collect(),
        root_code: RootCode::new(index, symbolizer, locations.as_slice()),
        has_callchains,
        filter: StackFilter::new(&options.filter, &symbols, options.by_language),
        wakers,
        waits: match options.filter.is_by_stack() {
            true => waits_of(index),
            false => None,
        },
        frames: match (options.addresses, options.inlined) {
            (true, _) => FrameIds::Addresses,
            (false, true) => FrameIds::Inlined,
            (false, false) => FrameIds::Functions,
        },
        one_by_one: options.columns || options.streams,
        is_of_memory: (index.data.events().list().iter())
            .map(|event| sums_memory(&event.name))
            .collect(),
    };
    let shares = shares(&parts, &known);
    let quality = quality(index, &symbols, &parts, &shares, options);
    let events = events(index, &shares, options);
    let time = parts.iter().filter_map(|part| part.resolved.time);
    let time = time.reduce(|(a, b), (c, d)| (a.min(c), b.max(d)));
    let (contexts, rows): (Vec<SampleGroups>, Vec<Vec<BlockRows>>) = (parts.into_iter())
        .map(|part| (part.resolved.contexts, part.resolved.compact_rows))
        .unzip();

    let mut merged = Merged {
        builder: ProfileBuilder::new().source(index.data.path()),
        threads: Threads {
            index,
            by_thread: options.by_thread,
            requests: requests.as_ref().map_or(&[], RequestTimes::names),
            is_named_by_request: options.by_request.is_some(),
            known: FxHashMap::default(),
        },
        tables: Some(SymbolTables {
            functions: symbols.functions,
            objects: symbols.objects,
            files: symbols.files,
            frames,
            tells_inlined: options.inlined && !options.addresses,
            lists: Lists::default(),
        }),
        groups: Values::default(),
        entries: Vec::new(),
        by_key: FxHashMap::default(),
        of_workers: Entries::default(),
        awake: FxHashSet::default(),
    };
    merged.reserve(shares.iter().map(|share| share.groups.len()).sum());
    for (share, contexts) in shares.into_iter().zip(contexts) {
        merged.add(share, &contexts);
    }
    let mut builder = merged.finish(rows, events, options);
    builder.set_time(time);
    builder.set_wall_time(time.and_then(|time| wall_time(index, time)));
    if options.columns || options.streams {
        let gaps = (index.events.iter()).flat_map(|tally| tally.gaps_within(&options.filter));
        builder.set_gaps(gaps.collect());
    }
    builder.set_callchains(has_callchains);
    builder.set_leaves_only(options.leaves_only);
    builder.set_request_key(options.by_request.as_ref().map(RequestKey::name));
    builder.finish_with_quality(quality)
}

/// Maps each worker's stacks on a thread. Keeps the order of `parts`.
fn shares(parts: &[WorkerResult], known: &AssembleInputs<'_>) -> Vec<WorkerStacks> {
    let shares = rprof_parallel::run(parts.len(), parts.len(), |queue| {
        let mut done = Vec::new();
        while let Some(part) = queue.next() {
            done.push((part, WorkerStacks::of(&parts[part], known)));
        }
        done
    });
    let mut shares: Vec<(usize, WorkerStacks)> = shares.into_iter().flatten().collect();
    shares.sort_unstable_by_key(|(part, _)| *part);
    shares.into_iter().map(|(_, share)| share).collect()
}

/// Counts what the recording lacks, and what the analysis could not resolve.
fn quality(
    index: &Index<'_>,
    symbols: &Symbols,
    parts: &[WorkerResult],
    shares: &[WorkerStacks],
    options: &Options,
) -> Quality {
    let of_function = samples_by_function(shares, symbols);
    let notes = index.data.features().rprof_notes().unwrap_or_default();
    let mut quality = Quality {
        lost: (index.events.iter())
            .map(|tally| tally.lost_within(&options.filter))
            .fold(0, u64::saturating_add),
        recorded: match options.filter.is_by_sample() {
            true => parts.iter().map(|part| part.resolved.samples()).sum(),
            false => recorded(index),
        },
        throttled: (index.events.iter().map(|tally| tally.throttled)).fold(0, u64::saturating_add),
        damaged: index.damage.is_some()
            || index.unreadable + index.samples_of_unknown_events > 0
            || parts.iter().any(|part| part.resolved.faults.unreadable > 0)
            || !index.data.warnings().is_empty(),
        cpu_time: CpuTime::from_notes(&notes),
        memory: Coverage::from_notes(&notes),
        requests: Requests::from_notes(&notes),
        latency: (options.latency).then(|| parts.iter().map(|part| part.resolved.latency).sum()),
        counted: counted(&notes),
        hides_inlined: (symbols.hides_inlined.iter())
            .map(|id| symbols.objects[id.0 as usize].name.to_string())
            .collect(),
        ..Quality::of_frames(&symbols.functions, &symbols.objects, &of_function)
    };
    // Without the notes, marks of truncated stacks are unknown, and without build-ids the names.
    if !(notes.is_empty() && index.data.features().is_cut()) {
        for share in shares {
            quality.stacks.add(&share.ends);
        }
    }
    quality
}

/// Returns the number of samples of all events but the one that names requests.
fn recorded(index: &Index<'_>) -> u64 {
    (index.data.events().list().iter().zip(&index.events))
        .filter(|(event, _)| event.name != request_context::EVENT)
        .fold(0, |sum, (_, tally)| tally.samples.saturating_add(sum))
}

fn events(index: &Index<'_>, shares: &[WorkerStacks], options: &Options) -> Vec<EventSummary> {
    let described = index.data.events().list().iter().zip(&index.events);
    let mut events: Vec<EventSummary> = described
        .map(|(event, tally)| EventSummary {
            name: event.name.clone(),
            unit: WeightUnit::of_event(&event.name),
            lost: tally.lost_within(&options.filter),
            ..EventSummary::default()
        })
        .collect();
    for share in shares {
        for (event, amount) in events.iter_mut().zip(&share.events) {
            event.samples += amount.samples;
            event.weight = event.weight.saturating_add(amount.weight);
        }
    }
    events
}

/// Aggregated stacks of all workers, in the profile's ids.
struct Merged<'a> {
    builder: ProfileBuilder,
    threads: Threads<'a>,
    /// Tables for the profile, until the first worker's frame lists join them.
    tables: Option<SymbolTables>,
    groups: Values<SampleGroup>,
    entries: Vec<AggregatedStack>,
    /// Index of each entry.
    by_key: FxHashMap<GroupKey, usize>,
    of_workers: Entries,
    awake: FxHashSet<u32>,
}

impl Merged<'_> {
    fn reserve(&mut self, entries: usize) {
        self.entries.reserve(entries);
        self.by_key.reserve(entries);
    }

    /// Adds a worker's stacks, with its own `contexts` and frame lists.
    fn add(&mut self, share: WorkerStacks, contexts: &SampleGroups) {
        let lists = self.take_lists(share.lists);
        let own = contexts.all().iter();
        let contexts: Vec<u32> = own.map(|group| self.groups.intern(*group)).collect();
        let profile_key = |key: GroupKey| GroupKey {
            context: contexts[key.context as usize],
            outer: lists[key.outer as usize].0,
            inner: lists[key.inner as usize].0,
        };
        for (key, amount) in share.groups {
            let at = self.entry(profile_key(key));
            let entry = &mut self.entries[at];
            entry.samples += amount.samples;
            entry.weight = entry.weight.saturating_add(amount.weight);
        }
        self.of_workers.add(share.keys.into_iter().map(|key| {
            let at = self.by_key.get(&profile_key(key?));
            at.map(|at| *at as u32)
        }));
    }

    /// Returns the profile's ids of a worker's frame lists. The first worker's lists keep their
    /// ids.
    fn take_lists(&mut self, lists: Lists<u32>) -> Vec<FrameListId> {
        let all = 0..lists.len() as u32;
        match self.tables.take() {
            Some(tables) => {
                self.builder.set_tables(SymbolTables { lists, ..tables });
                all.map(FrameListId).collect()
            }
            None => all
                .map(|list| self.builder.intern_frame_list(lists.get(list)))
                .collect(),
        }
    }

    fn entry(&mut self, key: GroupKey) -> usize {
        *self.by_key.entry(key).or_insert_with(|| {
            let group = *self.groups.get(key.context);
            if group.woken == WokenBy::Awake {
                self.awake.insert(self.entries.len() as u32);
            }
            let (outer, inner) = (FrameListId(key.outer), FrameListId(key.inner));
            self.entries.push(AggregatedStack {
                event: group.event as usize,
                thread: self.threads.id(&mut self.builder, group),
                stack: self.builder.push_stack(outer, inner),
                samples: 0,
                weight: 0,
            });
            self.entries.len() - 1
        })
    }

    fn finish(
        mut self,
        rows: Vec<Vec<BlockRows>>,
        events: Vec<EventSummary>,
        options: &Options,
    ) -> ProfileBuilder {
        if let Some(tables) = self.tables.take() {
            self.builder.set_tables(tables);
        }
        let found = (&self.entries[..], &self.awake);
        (self.of_workers).keep_samples(rows, found, options, &mut self.builder);
        self.builder.set_aggregated(self.entries, events);
        self.builder
    }
}

/// Converts times of the recording's clock to nanoseconds since 1970. `None` without a reference
/// time of both clocks.
fn wall_time(index: &Index<'_>, (first, last): (u64, u64)) -> Option<(u64, u64)> {
    let clocks = index.data.features().clock_data()?;
    Some((clocks.wall_time(first)?, clocks.wall_time(last)?))
}

/// Returns the frames of all locations, in the numbering of [`Symbols`].
fn frames(locations: &Locations, symbols: &Symbols) -> Vec<Frame> {
    let mut frames = Vec::with_capacity(symbols.frame_count());
    let mut by_first: Vec<(u32, u32)> = (0..locations.as_slice().len() as u32)
        .map(|location| (symbols.first_frame(location), location))
        .collect();
    by_first.sort_unstable();
    for (_, location) in by_first {
        let at = locations.as_slice()[location as usize];
        let address = match at.caller {
            true => FrameAddress::ReturnAddress(at.lookup.wrapping_add(1)),
            false => FrameAddress::InstructionPointer(at.lookup),
        };
        let all = symbols.frames(location).iter().zip(0..);
        frames.extend(all.map(|(frame, inline_depth)| Frame {
            function: frame.function,
            address: Some(address),
            line: frame.line,
            inline_depth,
            start_line: frame.start_line,
        }));
    }
    frames
}

struct Threads<'a> {
    index: &'a Index<'a>,
    by_thread: bool,
    requests: &'a [RequestName],
    /// True if names of requests take the place of thread names.
    is_named_by_request: bool,
    known: FxHashMap<(Option<CommId>, i32, i32, u32), ThreadId>,
}

impl Threads<'_> {
    fn id(&mut self, builder: &mut ProfileBuilder, group: SampleGroup) -> ThreadId {
        let timeline = &self.index.timeline;
        let (pid, tid) = match (self.by_thread, group.comm) {
            (true, _) => (group.pid, group.tid),
            (false, Some(_)) => (0, 0),
            (false, None) => (0, group.tid),
        };
        let request = self.requests.get(group.request as usize);
        let named = request.filter(|_| self.is_named_by_request);
        let comm = group.comm.filter(|_| named.is_none());
        let key = (comm, pid, tid, group.request);
        *(self.known.entry(key)).or_insert_with(|| {
            let name = group.comm.and_then(|comm| timeline.comm_name(comm));
            let comm = match named {
                Some(request) => builder.intern_comm(&request.name),
                None => builder.intern_comm(&thread_name(name, group.tid)),
            };
            let process = timeline.comm(Pid(pid), Tid(pid), u64::MAX);
            let process_comm = process
                .filter(|_| self.by_thread && pid > 0)
                .map(|name| builder.intern_comm(&String::from_utf8_lossy(name)));
            builder.intern_thread(Thread {
                pid: self.by_thread.then_some(pid),
                tid: self.by_thread.then_some(tid),
                comm,
                process_comm,
                request: request.and_then(|request| request.ids),
            })
        })
    }
}

/// Returns by function the number of samples that contain it, once for each frame.
fn samples_by_function(shares: &[WorkerStacks], symbols: &Symbols) -> Vec<u64> {
    let mut of_function = vec![0u64; symbols.functions.len()];
    for share in shares {
        for (location, samples) in (0..).zip(&share.at).filter(|(_, samples)| **samples > 0) {
            for frame in symbols.frames(location) {
                of_function[frame.function.0 as usize] += samples;
            }
        }
    }
    of_function
}

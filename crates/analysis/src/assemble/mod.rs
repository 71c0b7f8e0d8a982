//! Assembles the profile: maps stacks of locations to stacks of functions, and adds up samples and
//! quality.
//!
//! | module | holds |
//! |---|---|
//! | `wakers` | frames for wakers |
//! | `inputs` | symbols, roots and filters that all workers share |
//! | `worker_stacks` | stacks of one worker, each mapped on its own thread |
//! | `roots` | complete and truncated stacks |
//! | `root_code` | root detection from code, if names are inconclusive |
//! | `one_by_one` | single samples, as columns or streams |

mod inputs;
mod one_by_one;
mod root_code;
mod roots;
mod wakers;
mod worker_stacks;

use rprof_processes::{CommId, Pid, Tid};
use rustc_hash::{FxHashMap, FxHashSet};

use rprof_profile::intern::{Lists, Values};
use rprof_profile::memory::{Coverage, Requests};
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
use crate::sample_pass::results::WorkerResults;
use crate::sample_pass::stacks::Locations;
use crate::sideband_pass::Index;
use crate::stack_filter::StackFilter;
use crate::symbolize::Symbols;
use inputs::{AssembleInputs, FrameIds, waits_of};
use one_by_one::Entries;
use root_code::RootCode;
pub(crate) use roots::reaches_root;
use wakers::WakerFrames;
use worker_stacks::{Key, WorkerStacks};

pub(crate) fn assemble(
    index: &Index<'_>,
    symbolizer: &Symbolizer,
    (parts, mut symbols, requests): (WorkerResults, Symbols, Option<RequestTimes>),
    options: &Options,
) -> Profile {
    let WorkerResults { locations, parts } = parts;
    let is_kernel: Vec<bool> = (locations.as_slice().iter())
        .map(|location| matches!(location.region, CodeRegion::Kernel(_)))
        .collect();
    let groups = parts.iter().flat_map(|part| part.resolved.contexts.all());
    let wakers = WakerFrames::add(groups, &index.timeline, &mut symbols);
    let frames = options.addresses.then(|| {
        let mut frames = frames(&locations, &symbols);
        // Wakers follow the frames of locations.
        frames.extend(wakers.in_order.iter().map(|id| Frame::of(*id)));
        frames
    });
    let has_callchains =
        !options.leaves_only && parts.iter().any(|part| part.resolved.has_callchains);
    let known = AssembleInputs {
        symbols: &symbols,
        is_kernel,
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
        events: index.events.len(),
    };
    let shares = rprof_parallel::run(parts.len(), parts.len(), |queue| {
        let mut done = Vec::new();
        while let Some(part) = queue.next() {
            done.push((part, WorkerStacks::of(&parts[part], &known)));
        }
        done
    });
    let mut shares: Vec<(usize, WorkerStacks)> = shares.into_iter().flatten().collect();
    // Sorted by worker, to match `contexts`.
    shares.sort_unstable_by_key(|(part, _)| *part);
    let shares: Vec<WorkerStacks> = shares.into_iter().map(|(_, share)| share).collect();

    let quality = Quality {
        lost: (index.events.iter())
            .map(|e| e.lost_within(&options.filter))
            .fold(0, u64::saturating_add),
        recorded: match options.filter.is_by_sample() {
            true => parts.iter().map(|part| part.resolved.samples()).sum(),
            false => {
                let described = index.data.events().list();
                let events = described.iter().zip(&index.events);
                let is_sampled = |event: &str| event != request_context::EVENT;
                (events.filter(|(event, _)| is_sampled(&event.name)))
                    .fold(0, |sum, (_, tally)| tally.samples.saturating_add(sum))
            }
        },
        throttled: (index.events.iter().map(|e| e.throttled)).fold(0, u64::saturating_add),
        ..Quality::default()
    };
    let of_function = samples_by_function(&shares, &symbols);
    let named = Quality::of_frames(&symbols.functions, &symbols.objects, &of_function);
    let notes = index.data.features().rprof_notes().unwrap_or_default();
    let mut quality = Quality {
        stacks: quality.stacks,
        lost: quality.lost,
        recorded: quality.recorded,
        throttled: quality.throttled,
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
        ..named
    };
    let events = index.data.events().list().iter().zip(&index.events);
    let mut events: Vec<EventSummary> = events
        .map(|(event, tally)| EventSummary {
            name: event.name.clone(),
            unit: WeightUnit::of_event(&event.name),
            lost: tally.lost_within(&options.filter),
            ..EventSummary::default()
        })
        .collect();
    for share in &shares {
        quality.stacks.add(&share.ends);
        for (event, amount) in events.iter_mut().zip(&share.events) {
            event.samples += amount.samples;
            event.weight = event.weight.saturating_add(amount.weight);
        }
    }
    let time = parts.iter().filter_map(|part| part.resolved.time);
    let time = time.reduce(|(a, b), (c, d)| (a.min(c), b.max(d)));
    let (contexts, rows): (Vec<SampleGroups>, Vec<Vec<BlockRows>>) = (parts.into_iter())
        .map(|part| (part.resolved.contexts, part.resolved.compact_rows))
        .unzip();

    let mut builder = ProfileBuilder::new().source(index.data.path());
    let mut threads = Threads {
        index,
        by_thread: options.by_thread,
        requests: requests.as_ref().map_or(&[], RequestTimes::names),
        is_named_by_request: options.by_request.is_some(),
        known: FxHashMap::default(),
    };
    let most = shares.iter().map(|s| s.groups.len()).sum();
    let mut entries: Vec<AggregatedStack> = Vec::with_capacity(most);
    let mut common: Values<SampleGroup> = Values::default();
    // Index of each entry by its key in the profile's ids.
    let mut known: FxHashMap<Key, usize> = FxHashMap::default();
    known.reserve(most);
    let mut entries_of_workers = Entries::default();
    // Entries of waits for a CPU after a wakeup.
    let mut awake: FxHashSet<u32> = FxHashSet::default();
    let mut tables = Some(SymbolTables {
        functions: symbols.functions,
        objects: symbols.objects,
        files: symbols.files,
        frames,
        tells_inlined: options.inlined && !options.addresses,
        lists: Lists::default(),
    });
    for (share, contexts) in shares.into_iter().zip(contexts) {
        let lists = share.lists;
        let ids: Vec<FrameListId> = match tables.take() {
            // The profile takes the first worker's lists as they are.
            Some(tables) => {
                let count = lists.len() as u32;
                builder.set_tables(SymbolTables { lists, ..tables });
                (0..count).map(FrameListId).collect()
            }
            None => (0..lists.len() as u32)
                .map(|list| builder.intern_frame_list(lists.get(list)))
                .collect(),
        };
        let own = contexts.all().iter();
        let contexts: Vec<u32> = own.map(|group| common.intern(*group)).collect();
        let profile_key = |key: Key| Key {
            context: contexts[key.context as usize],
            outer: ids[key.outer as usize].0,
            inner: ids[key.inner as usize].0,
        };
        for (key, amount) in share.groups {
            let key = profile_key(key);
            let at = *known.entry(key).or_insert_with(|| {
                let group = *common.get(key.context);
                if group.woken == WokenBy::Awake {
                    awake.insert(entries.len() as u32);
                }
                entries.push(AggregatedStack {
                    event: group.event as usize,
                    thread: threads.id(&mut builder, group),
                    stack: builder.push_stack(FrameListId(key.outer), FrameListId(key.inner)),
                    samples: 0,
                    weight: 0,
                });
                entries.len() - 1
            });
            let entry = &mut entries[at];
            entry.samples += amount.samples;
            entry.weight = entry.weight.saturating_add(amount.weight);
        }
        entries_of_workers.add(share.keys.into_iter().map(|key| {
            let key = key?;
            known.get(&profile_key(key)).map(|at| *at as u32)
        }));
    }
    if let Some(tables) = tables {
        builder.set_tables(tables);
    }
    entries_of_workers.keep_samples(rows, (&entries, &awake), options, &mut builder);
    builder.set_aggregated(entries, events);
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

/// Converts times of the recording's clock to nanoseconds since 1970, if the recording has a
/// reference time of both clocks.
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
        // Named threads are grouped by name, unless `by_thread` is set.
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

/// Returns by function the number of samples that contain it. A sample counts once for each of its
/// frames there.
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

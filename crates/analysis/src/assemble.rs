//! Assembles the profile: maps stacks of locations to stacks of functions, and sums up samples and
//! quality.

use std::borrow::Cow;

use rprof_processes::{CommId, Pid, Tid};
use rustc_hash::FxHashMap;

use rprof_profile::{
    AggregatedStack, CpuTime, EventSummary, Frame, FrameAddress, FrameListId, Function, Profile,
    ProfileBuilder, Quality, Sample, StackPosition, StackTally, SymbolTables, Thread, ThreadId,
    WeightUnit,
};

use crate::comms::thread_name;
use crate::counted::counted;
use crate::groups::{SampleGroup, SampleRow, Weights};
use crate::location::CodeRegion;
use crate::options::Options;
use crate::sample_pass::aggregate_table::SampleGroups;
use crate::sample_pass::results::{WorkerResult, WorkerResults};
use crate::sample_pass::stacks::{Locations, StackTable};
use crate::sideband_pass::Index;
use crate::stack_end::StackEnd;
use crate::stack_filter::StackFilter;
use crate::symbolize::Symbols;
use rprof_profile::intern::{Lists, Values};
use rprof_profile::waits::{is_of_waits, reason_of};

/// Assembles the profile from the workers' results and the symbols.
pub(crate) fn assemble(
    index: &Index<'_>,
    parts: WorkerResults,
    symbols: Symbols,
    options: &Options,
) -> Profile {
    let WorkerResults { locations, parts } = parts;
    let is_kernel: Vec<bool> = (locations.as_slice().iter())
        .map(|location| matches!(location.region, CodeRegion::Kernel(_)))
        .collect();
    let frames = options.addresses.then(|| frames(&locations, &symbols));
    drop(locations);
    let has_callchains =
        !options.leaves_only && parts.iter().any(|part| part.resolved.has_callchains);
    let known = AssembleInputs {
        symbols: &symbols,
        is_kernel,
        has_callchains,
        filter: StackFilter::new(&options.filter, &symbols),
        waits: match options.filter.is_by_stack() {
            true => waits_of(index),
            false => None,
        },
        frames: match (options.addresses, options.inlined) {
            (true, _) => FrameIds::Addresses,
            (false, true) => FrameIds::Inlined,
            (false, false) => FrameIds::Functions,
        },
        columns: options.columns,
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
    // In the order of the parts, whose context ids they use.
    shares.sort_unstable_by_key(|(part, _)| *part);
    let shares: Vec<WorkerStacks> = shares.into_iter().map(|(_, share)| share).collect();

    let quality = Quality {
        lost: (index.events.iter())
            .map(|e| e.lost_within(&options.filter))
            .fold(0, u64::saturating_add),
        recorded: match options.filter.is_by_sample() {
            true => parts.iter().map(|part| part.resolved.samples()).sum(),
            false => (index.events.iter().map(|e| e.samples)).fold(0, u64::saturating_add),
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
            || index.unreadable > 0
            || !index.data.warnings().is_empty(),
        cpu_time: CpuTime::from_notes(&notes),
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
    let count = (parts.iter()).map(|part| part.resolved.rows.len()).sum();
    let (contexts, rows): (Vec<SampleGroups>, Vec<RowsOfWorker>) = (parts.into_iter())
        .map(|part| {
            let rows = RowsOfWorker {
                rows: part.resolved.rows,
                stacks: part.resolved.stacks,
            };
            (part.resolved.contexts, rows)
        })
        .unzip();

    let mut builder = ProfileBuilder::new()
        .source(index.data.path())
        .columns(options.columns);
    let mut threads = Threads {
        index,
        by_thread: options.by_thread,
        known: FxHashMap::default(),
    };
    let most = shares.iter().map(|s| s.groups.len()).sum();
    let mut entries: Vec<AggregatedStack> = Vec::with_capacity(most);
    let mut common: Values<SampleGroup> = Values::default();
    // Index of each entry by its key in the profile's ids.
    let mut known: FxHashMap<Key, usize> = FxHashMap::default();
    known.reserve(most);
    let mut samples: Vec<Sample> = Vec::with_capacity(count);
    let mut tables = Some(SymbolTables {
        functions: symbols.functions,
        objects: symbols.objects,
        files: symbols.files,
        frames,
        tells_inlined: options.inlined && !options.addresses,
        lists: Lists::default(),
    });
    for ((share, contexts), rows) in shares.into_iter().zip(contexts).zip(rows) {
        let lists = share.lists;
        let ids: Vec<FrameListId> = match tables.take() {
            // The first worker's lists are those of the profile.
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
        for (key, amount) in share.groups {
            let key = Key {
                context: contexts[key.context as usize],
                outer: ids[key.outer as usize].0,
                inner: ids[key.inner as usize].0,
            };
            let at = *known.entry(key).or_insert_with(|| {
                let group = *common.get(key.context);
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
        let find = |group: SampleGroup| {
            let stack = rows.stacks.stack(group.stack);
            let outer = share.outer.get(stack.callers as usize)?;
            let inner = match stack.leaf() {
                None => &share.empty,
                Some(leaf) => share.inner.get(leaf as usize)?.as_ref()?,
            };
            let key = Key {
                context: common.find(&SampleGroup { stack: 0, ..group })?,
                outer: ids[*outer as usize].0,
                inner: ids[*inner as usize].0,
            };
            known.get(&key).copied()
        };
        // Samples of one group are in one entry; those whose leaf the filter rejects are in none.
        let mut found: FxHashMap<SampleGroup, Option<usize>> = FxHashMap::default();
        for row in &rows.rows {
            let at = *found.entry(row.group).or_insert_with(|| find(row.group));
            let Some(entry) = at.map(|at| &entries[at]) else {
                continue;
            };
            samples.push(Sample {
                time: row.time,
                cpu: row.cpu,
                thread: entry.thread,
                stack: entry.stack,
                event: entry.event,
                weight: row.period,
            });
        }
    }
    if let Some(tables) = tables {
        builder.set_tables(tables);
    }
    if options.columns {
        builder.set_samples(samples);
    }
    builder.set_aggregated(entries, events);
    builder.set_time(time);
    builder.set_wall_time(time.and_then(|time| wall_time(index, time)));
    if options.columns {
        let gaps = (index.events.iter()).flat_map(|tally| tally.gaps_within(&options.filter));
        builder.set_gaps(gaps.collect());
    }
    builder.set_callchains(has_callchains);
    builder.set_leaves_only(options.leaves_only);
    builder.finish_with_quality(quality)
}

/// Returns times of the recording's clock as nanoseconds since 1970, if it tells one instant on both clocks.
fn wall_time(index: &Index<'_>, (first, last): (u64, u64)) -> Option<(u64, u64)> {
    let clocks = index.data.features().clock_data()?;
    Some((clocks.wall_time(first)?, clocks.wall_time(last)?))
}

/// Rows of one worker's samples.
struct RowsOfWorker {
    rows: Vec<SampleRow>,
    stacks: StackTable,
}

/// Returns the frames of all locations, as [`Symbols`] numbers them.
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

/// Inputs shared by all workers' mapping of locations to functions.
struct AssembleInputs<'a> {
    symbols: &'a Symbols,
    /// By location id, true if it is in the kernel.
    is_kernel: Vec<bool>,
    has_callchains: bool,
    filter: StackFilter<'a>,
    /// Event whose samples are waits, if the filter looks at stacks.
    waits: Option<usize>,
    frames: FrameIds,
    /// True if samples are wanted one by one.
    columns: bool,
    /// Number of events.
    events: usize,
}

/// Kind of frame ids: by function, by function and inlining, or by address.
#[derive(Clone, Copy)]
enum FrameIds {
    /// Functions.
    Functions,
    /// Functions, each by whether it was inlined.
    Inlined,
    /// Addresses: each location has frames of its own.
    Addresses,
}

/// Returns the event whose samples are waits.
fn waits_of(index: &Index<'_>) -> Option<usize> {
    let events = index.data.events().list().iter();
    events.map(|event| &*event.name).position(is_of_waits)
}

impl AssembleInputs<'_> {
    /// Returns what was waited for in a stack, whose locations are from the leaf outwards, if the filter looks at it.
    fn reason<L: Iterator<Item = u32>>(
        &self,
        event: u32,
        from_leaf: impl FnOnce() -> L,
    ) -> Option<Cow<'static, str>> {
        if self.waits != Some(event as usize) {
            return None;
        }
        let names = |location: u32| {
            let frames = self.symbols.frames(location).iter().rev();
            frames.map(move |frame| {
                let function = &self.symbols.functions[frame.function.0 as usize];
                let is_kernel = self.is_kernel[location as usize];
                (is_kernel, function.name.as_deref().ok())
            })
        };
        Some(reason_of(from_leaf().flat_map(names)))
    }

    /// Iterates over the ids of the frames at a location, outermost first.
    #[inline]
    fn frames(&self, location: u32) -> impl Iterator<Item = u32> + '_ {
        let first = self.symbols.first_frame(location);
        let frames = self.symbols.frames(location).iter().zip(first..);
        frames.map(move |(frame, own)| match self.frames {
            FrameIds::Functions => frame.function.0,
            FrameIds::Inlined => ProfileBuilder::inlined_frame_number(frame.function, own > first),
            FrameIds::Addresses => own,
        })
    }
}

/// Aggregate key after symbolization; samples with equal keys are summed up.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    /// Id of the group without its stack: see `SampleGroups`.
    context: u32,
    /// Ids of lists of functions: callers, root first, and the frames at the leaf.
    outer: u32,
    inner: u32,
}

/// Stacks of functions of one worker.
#[derive(Default)]
struct WorkerStacks {
    /// Interned lists of frame ids, root first.
    lists: Lists<u32>,
    groups: FxHashMap<Key, Weights>,
    ends: StackTally,
    /// Number and weight of samples, by event index.
    events: Vec<Weights>,
    /// Number of samples that contain a location, by location id.
    at: Vec<u64>,
    /// Id in `lists` of the frames of each list of callers; with `inner` and `empty` only kept for
    /// rows of single samples. `inner` has the same by leaf, and `empty` is the list without
    /// frames.
    outer: Vec<u32>,
    inner: Vec<Option<u32>>,
    empty: u32,
}

impl WorkerStacks {
    fn of(part: &WorkerResult, known: &AssembleInputs<'_>) -> WorkerStacks {
        let symbols = known.symbols;
        let mut share = WorkerStacks {
            at: vec![0; symbols.symbolized.len()],
            events: vec![Weights::default(); known.events],
            ..WorkerStacks::default()
        };
        let mut list = Vec::new();
        let callers = part.resolved.stacks.callers();
        let location = |own: u32| part.locations[own as usize];
        let outer: Vec<u32> = (0..callers.len() as u32)
            .map(|callers_id| {
                list.clear();
                let locations = callers.get(callers_id).iter().rev();
                let frames = locations.flat_map(|own| known.frames(location(*own)));
                list.extend(frames);
                share.lists.intern(&list).0
            })
            .collect();
        let nothing = share.lists.intern(&[]).0;
        // By list of callers, where stacks are chosen by what is in them.
        let focused: Vec<bool> = match known.filter.has_focus() {
            false => Vec::new(),
            true => (0..callers.len() as u32)
                .map(|id| {
                    let mut all = callers.get(id).iter();
                    all.any(|own| known.filter.is_focused(location(*own)))
                })
                .collect(),
        };
        // By worker-local location id, filled on first use.
        let mut inner: Vec<Option<u32>> = vec![None; part.locations.len()];
        let mut called = vec![0u64; callers.len()];
        for (counted, amount) in part.resolved.counts.iter() {
            let group = part.resolved.contexts.get(counted.context);
            let leaf = counted.leaf().map(location);
            let reason = known.reason(group.event, || {
                leaf.into_iter()
                    .chain(callers.get(counted.list).iter().map(|own| location(*own)))
            });
            let reason = reason.as_deref();
            if !known.filter.accepts_leaf(leaf)
                && !reason.is_some_and(|reason| known.filter.accepts_reason(reason))
            {
                continue;
            }
            if known.filter.has_focus()
                && !focused[counted.list as usize]
                && !leaf.is_some_and(|leaf| known.filter.is_focused(leaf))
                && !reason.is_some_and(|reason| known.filter.is_focused_reason(reason))
            {
                continue;
            }
            let has_frames = leaf.is_some() || !callers.get(counted.list).is_empty();
            if known.has_callchains && has_frames {
                let callers = callers.get(counted.list).iter().map(|own| location(*own));
                let from_root = callers.rev().chain(leaf);
                tally(&mut share.ends, from_root, group.end, amount.samples, known);
            }
            called[counted.list as usize] += amount.samples;
            if let Some(leaf) = leaf {
                share.at[leaf as usize] += amount.samples;
            }
            share.events[group.event as usize].add(amount);
            let inner = match counted.leaf() {
                None => nothing,
                Some(own) => *inner[own as usize].get_or_insert_with(|| {
                    list.clear();
                    list.extend(known.frames(location(own)));
                    share.lists.intern(&list).0
                }),
            };
            let key = Key {
                context: counted.context,
                outer: outer[counted.list as usize],
                inner,
            };
            share.groups.entry(key).or_default().add(amount);
        }
        for (callers_id, samples) in (0..).zip(called) {
            for own in callers.get(callers_id) {
                share.at[location(*own) as usize] += samples;
            }
        }
        if known.columns {
            (share.outer, share.inner, share.empty) = (outer, inner, nothing);
        }
        share
    }
}

/// Ids of threads.
struct Threads<'a> {
    index: &'a Index<'a>,
    by_thread: bool,
    known: FxHashMap<(Option<CommId>, i32, i32), ThreadId>,
}

impl Threads<'_> {
    fn id(&mut self, builder: &mut ProfileBuilder, group: SampleGroup) -> ThreadId {
        let timeline = &self.index.timeline;
        // Named threads are grouped by name alone, unless by thread.
        let (pid, tid) = match (self.by_thread, group.comm) {
            (true, _) => (group.pid, group.tid),
            (false, Some(_)) => (0, 0),
            (false, None) => (0, group.tid),
        };
        *(self.known.entry((group.comm, pid, tid))).or_insert_with(|| {
            let name = group.comm.and_then(|comm| timeline.comm_name(comm));
            let comm = builder.intern_comm(&thread_name(name, group.tid));
            let process = timeline.comm(Pid(pid), Tid(pid), u64::MAX);
            let process_comm = process
                .filter(|_| self.by_thread && pid > 0)
                .map(|name| builder.intern_comm(&String::from_utf8_lossy(name)));
            builder.intern_thread(Thread {
                pid: self.by_thread.then_some(pid),
                tid: self.by_thread.then_some(tid),
                comm,
                process_comm,
            })
        })
    }
}

/// Adds the stacks of a group to the tally of complete and truncated ones. `from_root` iterates
/// over their locations, root first.
fn tally(
    stacks: &mut StackTally,
    mut from_root: impl Iterator<Item = u32>,
    end: StackEnd,
    samples: u64,
    known: &AssembleInputs<'_>,
) {
    stacks.total += samples;
    match end {
        StackEnd::Unknown => {}
        StackEnd::Root => stacks.complete += samples,
        StackEnd::Cut => stacks.truncated += samples,
        StackEnd::NoUnwindInfo => stacks.no_unwind_info += samples,
        StackEnd::Other => stacks.other += samples,
    }
    if end != StackEnd::Unknown {
        stacks.unwound += samples;
        return;
    }
    let function = |location| {
        let function = known.symbols.outermost(location);
        &known.symbols.functions[function.0 as usize]
    };
    let outermost = from_root.next();
    let outermost = outermost.map(|at| (known.is_kernel[at as usize], function(at)));
    let complete = reaches_root(outermost, || from_root.next().map(function));
    match complete {
        true => stacks.complete += samples,
        false => stacks.truncated += samples,
    }
}

/// Returns true if names tell that a stack reaches its root: by its outermost function, with
/// whether that is the kernel's, and the function that it called.
pub(crate) fn reaches_root<'a>(
    outermost: Option<(bool, &Function)>,
    next: impl FnOnce() -> Option<&'a Function>,
) -> bool {
    match outermost {
        None => false,
        // Kernel frames only: a kernel thread, or the user side was not recorded.
        Some((true, _)) => true,
        Some((false, function)) if function.position == StackPosition::Root => true,
        // The start code of a stripped C library has no name, but nothing else
        // calls an entry.
        Some((false, function)) => {
            let is_entry = |next: &Function| next.position == StackPosition::Entry;
            function.name.is_err() && next().is_some_and(is_entry)
        }
    }
}

/// Returns by function the number of samples that contain it, counting a sample once for each of
/// its frames there.
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

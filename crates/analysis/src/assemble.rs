//! From stacks of locations to the profile: stacks of functions, and what is known of them.

use rprof_processes::CommId;
use rustc_hash::FxHashMap;

use rprof_profile::{Entry, EventSummary, FunctionStacks, Profile, StackId, Start};

use crate::comms::thread_name;
use crate::groups::{SampleGroup, Weights};
use crate::location::CodeRegion;
use crate::options::Options;
use crate::sample_pass::aggregate_table::SampleGroups;
use crate::sample_pass::results::{WorkerResult, WorkerResults};
use crate::sideband_pass::Index;
use crate::stack_end::StackEnd;
use crate::symbolize::Symbols;
use rprof_profile::Filter;
use rprof_profile::intern::{Lists, Values};
use rprof_profile::{Quality, StackTally};

/// Puts the profile together.
pub(crate) fn assemble(
    index: &Index<'_>,
    parts: WorkerResults,
    symbols: Symbols,
    options: &Options,
) -> Profile {
    let WorkerResults { locations, parts } = parts;
    let is_kernel: Vec<bool> = (locations.as_slice().iter())
        .map(|location| matches!(location.place, CodeRegion::Kernel(_)))
        .collect();
    drop(locations);
    let has_callchains = parts.iter().any(|part| part.resolved.has_callchains);
    let known = AssembleInputs {
        symbols: &symbols,
        is_kernel,
        has_callchains,
        filter: &options.filter,
        events: index.events.len(),
    };
    let shares = rprof_parallel::run(parts.len(), parts.len(), |queue| {
        let mut done = Vec::new();
        while let Some(number) = queue.next() {
            done.push((number, WorkerStacks::of(&parts[number], &known)));
        }
        done
    });
    let mut shares: Vec<(usize, WorkerStacks)> = shares.into_iter().flatten().collect();
    // As the parts, whose contexts they are counted by.
    shares.sort_unstable_by_key(|(number, _)| *number);
    let shares: Vec<WorkerStacks> = shares.into_iter().map(|(_, share)| share).collect();

    let mut quality = Quality {
        lost: index.events.iter().map(|e| e.lost).sum(),
        throttled: index.events.iter().map(|e| e.throttled).sum(),
        ..Quality::default()
    };
    tally_frames(&mut quality, &shares, &symbols);
    let events = index.data.events().list().iter().zip(&index.events);
    let mut events: Vec<EventSummary> = events
        .map(|(event, tally)| EventSummary {
            name: event.name.clone(),
            lost: tally.lost,
            ..EventSummary::default()
        })
        .collect();
    for share in &shares {
        add(&mut quality.stacks, &share.ends);
        for (event, amount) in events.iter_mut().zip(&share.events) {
            event.samples += amount.samples;
            event.weight = event.weight.saturating_add(amount.weight);
        }
    }
    let time = parts.iter().filter_map(|part| part.resolved.time);
    let time = time.reduce(|(a, b), (c, d)| (a.min(c), b.max(d)));
    let parts = parts.into_iter();
    let contexts: Vec<SampleGroups> = parts.map(|part| part.resolved.contexts).collect();

    let mut comms = Comms::default();
    let mut stacks = FunctionStacks::default();
    let most = shares.iter().map(|s| s.groups.len()).sum();
    let mut entries: Vec<Entry> = Vec::with_capacity(most);
    let mut common: Values<SampleGroup> = Values::default();
    // Entries by what they are counted by, in common numbers.
    let mut known: FxHashMap<Key, usize> = FxHashMap::default();
    known.reserve(most);
    for (share, contexts) in shares.into_iter().zip(contexts) {
        let lists = share.lists;
        let numbers: Vec<u32> = match stacks.parts.len() {
            0 => {
                stacks.parts = lists;
                (0..stacks.parts.len() as u32).collect()
            }
            _ => (0..lists.len() as u32)
                .map(|number| stacks.parts.intern(lists.get(number)).0)
                .collect(),
        };
        let own = contexts.all().iter();
        let contexts: Vec<u32> = own.map(|group| common.intern(*group)).collect();
        for (key, amount) in share.groups {
            let key = Key {
                context: contexts[key.context as usize],
                outer: numbers[key.outer as usize],
                inner: numbers[key.inner as usize],
            };
            let at = *known.entry(key).or_insert_with(|| {
                let group = *common.get(key.context);
                entries.push(Entry {
                    event: group.event as usize,
                    comm: comms.number(index, group),
                    pid: group.pid,
                    tid: if options.by_task { group.tid } else { 0 },
                    stack: StackId(stacks.stacks.len() as u32),
                    samples: 0,
                    weight: 0,
                });
                stacks.stacks.push((key.outer, key.inner));
                entries.len() - 1
            });
            let entry = &mut entries[at];
            entry.samples += amount.samples;
            entry.weight = entry.weight.saturating_add(amount.weight);
        }
    }
    Profile {
        source: index.data.path().to_owned(),
        events,
        comms: comms.names.into_vec(),
        functions: symbols.functions,
        files: symbols.files,
        objects: symbols.objects,
        entries,
        quality,
        time,
        has_callchains,
        stacks,
    }
}

/// What it takes to make functions of locations.
struct AssembleInputs<'a> {
    symbols: &'a Symbols,
    /// By location, whether it is one of the kernel.
    is_kernel: Vec<bool>,
    has_callchains: bool,
    filter: &'a Filter,
    /// Number of events.
    events: usize,
}

/// What samples are counted together by that are alike in their functions.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    /// Number of all but the stack.
    context: u32,
    /// Ids of lists of functions: callers, root first, and the frames at the leaf.
    outer: u32,
    inner: u32,
}

/// What comes of one part.
#[derive(Default)]
struct WorkerStacks {
    /// Lists of functions.
    lists: Lists<u32>,
    groups: FxHashMap<Key, Weights>,
    ends: StackTally,
    /// By event.
    events: Vec<Weights>,
    /// By location, in how many samples it is.
    at: Vec<u64>,
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
            .map(|number| {
                list.clear();
                let locations = callers.get(number).iter().rev();
                let frames = locations.flat_map(|own| symbols.frames(location(*own)));
                list.extend(frames.map(|frame| frame.function.0));
                share.lists.intern(&list).0
            })
            .collect();
        let nothing = share.lists.intern(&[]).0;
        // By the part's own number of the location, once one is asked for.
        let mut inner: Vec<Option<u32>> = vec![None; part.locations.len()];
        let mut called = vec![0u64; callers.len()];
        for (counted, amount) in part.resolved.counts.iter() {
            let group = part.resolved.contexts.get(counted.context);
            let leaf = counted.leaf().map(location);
            if !leaf_wanted(known.filter, leaf, symbols) {
                continue;
            }
            if known.has_callchains {
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
                    let frames = symbols.frames(location(own));
                    list.extend(frames.iter().map(|frame| frame.function.0));
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
        for (number, samples) in (0..).zip(called) {
            for own in callers.get(number) {
                share.at[location(*own) as usize] += samples;
            }
        }
        share
    }
}

/// Names of threads, each with a number.
#[derive(Default)]
struct Comms {
    names: Values<String>,
    known: FxHashMap<(Option<CommId>, i32), u32>,
}

impl Comms {
    fn number(&mut self, index: &Index<'_>, group: SampleGroup) -> u32 {
        // Threads with a name are called by nothing else.
        let tid = match group.comm {
            Some(_) => 0,
            None => group.tid,
        };
        *self.known.entry((group.comm, tid)).or_insert_with(|| {
            let name = group.comm.and_then(|comm| index.timeline.comm_name(comm));
            self.names.intern(thread_name(name, group.tid))
        })
    }
}

// Whether the leaf of a stack is one that the filter asks for: the function there, or a
/// call inlined into it.
fn leaf_wanted(filter: &Filter, leaf: Option<u32>, symbols: &Symbols) -> bool {
    if filter.objects.is_empty() && filter.symbols.is_empty() {
        return true;
    }
    let Some(leaf) = leaf else { return false };
    let mut functions = symbols
        .frames(leaf)
        .iter()
        .map(|frame| &symbols.functions[frame.function.0 as usize]);
    let object = &symbols.objects[symbols.functions[symbols.outermost(leaf).0 as usize]
        .object
        .0 as usize];
    let object_ok = filter.objects.is_empty()
        || (filter.objects.iter()).any(|o| **o == *object.name || o == object.base_name());
    let symbol_ok = filter.symbols.is_empty()
        || functions.any(|function| {
            (function.name.as_ref()).is_ok_and(|n| filter.symbols.iter().any(|s| **s == **n))
        });
    object_ok && symbol_ok
}

/// Counts whether the stacks of a group reach their root, from which its locations come.
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
    let complete = match (from_root.next(), from_root.next()) {
        // Nothing but the kernel: a kernel thread, or the user side was not asked for.
        (Some(outermost), _) if known.is_kernel[outermost as usize] => true,
        (Some(outermost), _) if function(outermost).start == Start::Root => true,
        // The start code of a stripped C library has no name, but nothing else
        // calls an entry.
        (Some(outermost), Some(next)) => {
            function(outermost).name.is_err() && function(next).start == Start::Entry
        }
        _ => false,
    };
    match complete {
        true => stacks.complete += samples,
        false => stacks.truncated += samples,
    }
}

fn add(to: &mut StackTally, more: &StackTally) {
    to.total += more.total;
    to.complete += more.complete;
    to.truncated += more.truncated;
    to.no_unwind_info += more.no_unwind_info;
    to.other += more.other;
    to.unwound += more.unwound;
}

/// Counts the frames that have names, and those that have none.
fn tally_frames(quality: &mut Quality, shares: &[WorkerStacks], symbols: &Symbols) {
    let mut of_function = vec![0u64; symbols.functions.len()];
    for share in shares {
        for (location, samples) in (0..).zip(&share.at).filter(|(_, samples)| **samples > 0) {
            for frame in symbols.frames(location) {
                of_function[frame.function.0 as usize] += samples;
            }
        }
    }
    let mut worst = Vec::new();
    let seen = symbols.functions.iter().zip(&of_function);
    for (function, count) in seen.filter(|(_, count)| **count > 0) {
        quality.frames += count;
        match &function.name {
            Ok(_) => quality.named += count,
            Err(reason) => {
                *quality.unnamed.entry(*reason).or_default() += count;
                let object = &symbols.objects[function.object.0 as usize];
                worst.push((object.name.to_string(), *reason, *count));
            }
        }
    }
    worst.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.cmp(b)));
    worst.truncate(5);
    quality.worst = worst;
}

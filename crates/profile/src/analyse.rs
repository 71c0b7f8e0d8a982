//! The passes, one after the other.

use rprof_perfdata::PerfData;
use rprof_symbols::Symbolizer;
use rustc_hash::FxHashMap;

use crate::filter::Filter;
use crate::index::Index;
use crate::intern::{Lists, Values};
use crate::location::Place;
use crate::model::{Entry, EventSummary, FunctionStacks, Profile, StackId, Start};
use crate::quality::{Quality, StackTally};
use crate::resolve::{Amount, Group, IDLE, Keep, Resolved, resolve};
use crate::symbolize::{Symbols, symbolize};
use crate::threads;
use crate::unwind::StackEnd;

/// How to analyse.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Which samples count.
    pub filter: Filter,
    /// Tell samples apart by process and thread, not by thread name alone.
    pub by_task: bool,
    /// Tell functions apart by line as well, where the symbolizer tells lines.
    pub by_line: bool,
    /// Threads to use; 0 for as many as there are cores.
    pub threads: usize,
}

impl Options {
    pub(crate) fn thread_count(&self) -> usize {
        match self.threads {
            0 => threads::available(),
            n => n,
        }
    }
}

impl Profile {
    /// Analyses a recording.
    ///
    /// Damage does not fail it: what stands before is analysed, and
    /// [`Quality::warnings`] tells.
    pub fn analyse(data: &PerfData, symbolizer: &Symbolizer, options: &Options) -> Profile {
        let n = options.thread_count();
        let keep = Keep {
            tasks: options.by_task,
            rows: false,
        };
        let (index, resolved, symbols) = std::thread::scope(|scope| {
            // The kernel's list takes longer than pass one, and waits for nothing.
            let mut is_wanted = n > 1 && !options.filter.is_by_sample();
            let index = Index::build_telling(data, || {
                if std::mem::take(&mut is_wanted) {
                    let thread = std::thread::Builder::new().name("rprof-kernel".into());
                    // Without it, whoever asks first loads the list.
                    let ahead = symbolizer.kernel_ahead();
                    drop(thread.spawn_scoped(scope, || ahead.load()));
                }
            });
            let resolved = resolve(&index, symbolizer, &options.filter, keep, n);
            let symbols = symbolize(&index, &resolved, symbolizer, options.by_line, n);
            (index, resolved, symbols)
        });
        let mut profile = assemble(&index, &resolved, symbols, options);
        let refused = symbolizer.refused_vmlinux();
        (profile.quality.warnings).extend(refused.map(ToString::to_string));
        profile
    }
}

/// Whether the leaf of a stack is one that the filter asks for: the function there, or a
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

fn assemble(
    index: &Index<'_>,
    resolved: &Resolved,
    symbols: Symbols,
    options: &Options,
) -> Profile {
    let filter = &options.filter;
    let (stacks, stack_of) = function_stacks(resolved, &symbols);
    let mut events: Vec<EventSummary> = (index.data.events().list().iter().zip(&index.events))
        .map(|(event, tally)| EventSummary {
            name: event.name.clone(),
            lost: tally.lost,
            ..EventSummary::default()
        })
        .collect();
    let mut comms = Values::default();
    let mut merged: FxHashMap<Group, Amount> = FxHashMap::default();
    merged.reserve(stacks.stacks.len());
    let mut quality = Quality {
        lost: index.events.iter().map(|e| e.lost).sum(),
        throttled: index.events.iter().map(|e| e.throttled).sum(),
        warnings: warnings(index, resolved, filter),
        ..Quality::default()
    };
    let mut samples_of = vec![0u64; resolved.stacks.len()];
    for (group, amount) in &resolved.groups {
        let leaf = resolved.stacks.stack(group.stack).leaf();
        if !leaf_wanted(filter, leaf, &symbols) {
            continue;
        }
        tally(&mut quality.stacks, resolved, group, amount, &symbols);
        samples_of[group.stack as usize] += amount.samples;
        let event = &mut events[group.event as usize];
        event.samples += amount.samples;
        event.weight = event.weight.saturating_add(amount.weight);
        let group = Group {
            stack: stack_of[group.stack as usize],
            ..*group
        };
        let sum = merged.entry(group).or_default();
        sum.samples += amount.samples;
        sum.weight = sum.weight.saturating_add(amount.weight);
    }
    tally_frames(&mut quality, &samples_of, resolved, &symbols);
    let entries = (merged.into_iter())
        .map(|(group, amount)| {
            let name = group.comm.and_then(|c| index.timeline.comm_name(c));
            let name = thread_name(name, group.tid);
            Entry {
                event: group.event as usize,
                comm: comms.intern(name),
                pid: group.pid,
                tid: if options.by_task { group.tid } else { 0 },
                stack: StackId(group.stack),
                samples: amount.samples,
                weight: amount.weight,
            }
        })
        .collect();
    Profile {
        source: index.data.path().to_owned(),
        events,
        comms: comms.into_vec(),
        functions: symbols.functions,
        files: symbols.files,
        objects: symbols.objects,
        entries,
        quality,
        time: resolved.time,
        has_callchains: resolved.has_callchains,
        stacks,
    }
}

/// Stacks of functions, and for each stack of locations which one it is: many stacks of
/// locations are one of functions.
fn function_stacks(resolved: &Resolved, symbols: &Symbols) -> (FunctionStacks, Vec<u32>) {
    let mut list = Vec::new();
    // Callers, and the frames at a leaf, as lists of functions.
    let mut parts: Lists<u32> = Lists::default();
    let callers = resolved.stacks.callers();
    let callers: Vec<u32> = (0..callers.len() as u32)
        .map(|n| {
            list.clear();
            let frames = callers.get(n).iter().rev();
            let frames = frames.flat_map(|l| symbols.frames(*l));
            list.extend(frames.map(|frame| frame.function.0));
            parts.intern(&list).0
        })
        .collect();
    let leaves: Vec<u32> = (0..symbols.symbolized.len() as u32)
        .map(|l| {
            list.clear();
            list.extend(symbols.frames(l).iter().map(|frame| frame.function.0));
            parts.intern(&list).0
        })
        .collect();
    let nothing = parts.intern(&[]).0;
    let mut stacks = Vec::new();
    let mut known: FxHashMap<(u32, u32), u32> = FxHashMap::default();
    known.reserve(resolved.stacks.len());
    let stack_of = (0..resolved.stacks.len() as u32)
        .map(|s| {
            let stack = resolved.stacks.stack(s);
            let leaf = stack.leaf().map_or(nothing, |l| leaves[l as usize]);
            let both = (callers[stack.callers as usize], leaf);
            *known.entry(both).or_insert_with(|| {
                stacks.push(both);
                stacks.len() as u32 - 1
            })
        })
        .collect();
    (FunctionStacks { parts, stacks }, stack_of)
}

/// Counts whether the stacks of a group reach their root.
fn tally(
    stacks: &mut StackTally,
    resolved: &Resolved,
    group: &Group,
    amount: &Amount,
    symbols: &Symbols,
) {
    if !resolved.has_callchains {
        return;
    }
    stacks.total += amount.samples;
    match group.end {
        StackEnd::Unknown => {}
        StackEnd::Root => stacks.complete += amount.samples,
        StackEnd::Cut => stacks.truncated += amount.samples,
        StackEnd::NoUnwindInfo => stacks.no_unwind_info += amount.samples,
        StackEnd::Other => stacks.other += amount.samples,
    }
    if group.end != StackEnd::Unknown {
        stacks.unwound += amount.samples;
        return;
    }
    let mut from_root = resolved.stacks.get(group.stack).rev().map(|l| {
        let function = symbols.outermost(l);
        let place = resolved.locations.as_slice()[l as usize].place;
        (place, &symbols.functions[function.0 as usize])
    });
    let complete = match (from_root.next(), from_root.next()) {
        // Nothing but the kernel: a kernel thread, or the user side was not asked for.
        (Some((Place::Kernel(_), _)), _) => true,
        (Some((_, outermost)), _) if outermost.start == Start::Root => true,
        // The start code of a stripped C library has no name, but nothing else
        // calls an entry.
        (Some((_, outermost)), Some((_, next))) => {
            outermost.name.is_err() && next.start == Start::Entry
        }
        _ => false,
    };
    match complete {
        true => stacks.complete += amount.samples,
        false => stacks.truncated += amount.samples,
    }
}

/// A thread's name; one that was never recorded has the name that perf gives it.
pub(crate) fn thread_name(recorded: Option<&[u8]>, tid: i32) -> String {
    match (recorded, tid) {
        (None, 0) => IDLE.into(),
        (None, tid) => format!(":{tid}"),
        (Some(name), _) => String::from_utf8_lossy(name).into_owned(),
    }
}

/// Counts the frames that have names, and those that have none.
fn tally_frames(quality: &mut Quality, samples_of: &[u64], resolved: &Resolved, symbols: &Symbols) {
    let mut at = vec![0u64; symbols.symbolized.len()];
    let mut called = vec![0u64; resolved.stacks.callers().len()];
    for (stack, samples) in (0..).zip(samples_of) {
        let stack = resolved.stacks.stack(stack);
        called[stack.callers as usize] += samples;
        if let Some(leaf) = stack.leaf() {
            at[leaf as usize] += samples;
        }
    }
    for (callers, samples) in (0..).zip(called) {
        for location in resolved.stacks.callers().get(callers) {
            at[*location as usize] += samples;
        }
    }
    let mut of_function = vec![0u64; symbols.functions.len()];
    for (location, samples) in (0..).zip(at) {
        for frame in symbols.frames(location) {
            of_function[frame.function.0 as usize] += samples;
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

fn warnings(index: &Index<'_>, resolved: &Resolved, filter: &Filter) -> Vec<String> {
    let mut warnings = index.data.warnings().to_vec();
    if let Some(damage) = &index.damage {
        warnings.push(format!(
            "{} is {damage}; what stands before is shown",
            index.data.path().display()
        ));
    }
    let mut count = |n: u64, what: &str| {
        if n > 0 {
            warnings.push(format!("{n} {what}"));
        }
    };
    count(
        index.samples_of_unknown_events,
        "samples belong to no event that the file describes and are left out",
    );
    count(index.unreadable, "records are damaged and left out");
    count(resolved.unreadable, "samples are damaged and left out");
    warnings.extend(index.runtimes.told());
    for comm in filter.unknown_comms(&index.timeline) {
        warnings.push(format!("no thread of the recording is called {comm:?}"));
    }
    warnings
}

//! Counted stacks of locations to profiles, with each location looked up once.

use std::collections::BTreeMap;

use rprof_processes::Image;
use rprof_profile::{
    FrameId, FunctionId, Profile, ProfileBuilder, Quality, StackTally, SymbolTables, WeightUnit,
};
use rprof_symbols::Symbolizer;

use super::counter::{Count, CountedEvent, Counter, Group};
use crate::assemble::reaches_root;
use crate::image_lookup::ImageLookup;
use crate::location::{CodeRegion, Location};
use crate::stack_end::StackEnd;
use crate::symbolize::{SymbolsBuilder, object_kind, object_name, vsyscall_name};

/// Everything that is known of locations and stacks, as of the last profile.
#[derive(Debug)]
pub(super) struct Namer {
    symbolizer: Symbolizer,
    lookup: ImageLookup,
    images: Vec<Image>,
    names: Vec<String>,
    locations: Vec<Location>,
    groups: Vec<Group>,
    /// Number of locations that have been looked up.
    known: usize,
    symbols: SymbolsBuilder,
    /// Stacks of locations, leaf first, that are not stacks of functions yet.
    unnamed: Vec<Box<[u32]>>,
    stacks: Vec<NamedStack>,
}

/// A stack of functions.
#[derive(Debug)]
struct NamedStack {
    /// Functions, root first.
    functions: Box<[FunctionId]>,
    /// True if its functions' names tell that it reaches its root.
    reaches_root: bool,
}

/// Everything of the counter that changes with each sample.
pub(super) struct Progress {
    events: Vec<CountedEvent>,
    /// By id of the group.
    counts: Vec<Count>,
    has_callchains: bool,
    time: Option<(u64, u64)>,
    unreadable: u64,
}

impl Namer {
    pub(super) fn new(symbolizer: Symbolizer) -> Namer {
        Namer {
            lookup: ImageLookup::of_this_machine(symbolizer.has_root()),
            symbolizer,
            images: Vec::new(),
            names: Vec::new(),
            locations: Vec::new(),
            groups: Vec::new(),
            known: 0,
            symbols: SymbolsBuilder::default(),
            unnamed: Vec::new(),
            stacks: Vec::new(),
        }
    }

    /// Copies what is new in the counter; the work is left until it is free again.
    pub(super) fn copy_new(&mut self, counter: &Counter) -> Progress {
        extend(&mut self.images, counter.map.images());
        extend(&mut self.names, counter.names.as_slice());
        extend(&mut self.locations, counter.locations.as_slice());
        extend(&mut self.groups, counter.groups.as_slice());
        let stacks = (self.stacks.len() + self.unnamed.len())..counter.stacks.len();
        let stacks = stacks.map(|id| counter.stacks.get(id as u32).into());
        self.unnamed.extend(stacks);
        Progress {
            events: counter.events.clone(),
            counts: counter.counts.clone(),
            has_callchains: counter.has_callchains,
            time: counter.time,
            unreadable: counter.unreadable,
        }
    }

    /// Looks up new locations, those of an image together, and makes stacks of functions of those
    /// that are not named yet.
    pub(super) fn look_up(&mut self) {
        let mut by_region: BTreeMap<u32, (CodeRegion, Vec<u32>)> = BTreeMap::new();
        let mut first_at = rustc_hash::FxHashMap::default();
        for id in self.known as u32..self.locations.len() as u32 {
            let region = self.locations[id as usize].region;
            let first = *first_at.entry(region).or_insert(id);
            let (_, list) = by_region.entry(first).or_insert((region, Vec::new()));
            list.push(id);
        }
        self.symbols.extend_to(self.locations.len());
        for (region, mut list) in by_region.into_values() {
            let address = |id: &u32| self.locations[*id as usize].lookup;
            list.sort_unstable_by_key(address);
            let addresses: Vec<u64> = list.iter().map(address).collect();
            let found = match self.lookup.target(region, &self.images, None) {
                Ok(key) => self.symbolizer.resolve_image(&key, &addresses),
                Err(reason) => vec![Err(reason); addresses.len()],
            };
            let object = rprof_profile::Object {
                name: object_name(region, &self.images).into(),
                kind: object_kind(region),
                build_id: self.lookup.build_id_of(region, &self.images),
            };
            for ((id, address), found) in list.iter().zip(addresses).zip(&found) {
                let made = vsyscall_name(region, address);
                (self.symbols).location(*id, region, &object, found, made);
            }
        }
        self.known = self.locations.len();
        for stack in std::mem::take(&mut self.unnamed) {
            let named = self.named(&stack);
            self.stacks.push(named);
        }
    }

    /// Returns the functions of a stack of locations, leaf first.
    fn named(&self, stack: &[u32]) -> NamedStack {
        let from_root = stack.iter().rev();
        let functions = from_root.flat_map(|id| self.symbols.functions_at(*id));
        let outermost = |id: &u32| {
            let is_kernel = matches!(self.locations[*id as usize].region, CodeRegion::Kernel(_));
            let function = self.symbols.functions_at(*id).next()?;
            Some((is_kernel, self.symbols.function(function)))
        };
        let mut ends = stack.iter().rev().filter_map(outermost);
        NamedStack {
            functions: functions.collect(),
            reaches_root: reaches_root(ends.next(), || ends.next().map(|(_, function)| function)),
        }
    }

    /// Returns the profile of the counts.
    pub(super) fn profile(&self, progress: &Progress) -> Profile {
        let mut builder = ProfileBuilder::new();
        let tables: SymbolTables = self.symbols.tables();
        builder.set_tables(tables);
        for event in &progress.events {
            builder.add_event(&event.name, WeightUnit::of_event(&event.name));
        }
        let threads: Vec<_> = (self.names.iter())
            .map(|name| builder.intern_thread_name(name))
            .collect();
        let mut ids = vec![None; self.stacks.len()];
        let mut tally = StackTally::default();
        let mut frames: Vec<FrameId> = Vec::new();
        for (group, count) in self.groups.iter().zip(&progress.counts) {
            let stack = &self.stacks[group.stack as usize];
            let id = *ids[group.stack as usize].get_or_insert_with(|| {
                frames.clear();
                frames.extend(
                    stack
                        .functions
                        .iter()
                        .map(|function| FrameId::from(*function)),
                );
                builder.intern_stack(&frames)
            });
            let thread = threads[group.name as usize];
            let event = group.event as usize;
            builder.add_samples(event, thread, id, count.samples, count.weight);
            if !progress.has_callchains {
                continue;
            }
            tally.total += count.samples;
            let is_complete = match group.end {
                StackEnd::Unknown => stack.reaches_root,
                end => {
                    tally.unwound += count.samples;
                    end == StackEnd::Root
                }
            };
            match is_complete {
                true => tally.complete += count.samples,
                false => tally.truncated += count.samples,
            }
        }
        builder.set_time(progress.time);
        builder.set_callchains(progress.has_callchains);
        let mut profile = builder.finish();
        for (summary, event) in profile.events.iter_mut().zip(&progress.events) {
            summary.lost = event.lost;
        }
        let warnings = (progress.unreadable > 0)
            .then(|| format!("{} records could not be read", progress.unreadable));
        profile.quality = Quality {
            stacks: tally,
            lost: (progress.events.iter().map(|event| event.lost)).fold(0, u64::saturating_add),
            throttled: (progress.events.iter().map(|event| event.throttled))
                .fold(0, u64::saturating_add),
            warnings: warnings.into_iter().collect(),
            ..profile.quality
        };
        profile
    }
}

/// Appends what `to` lacks of a list that only grows.
fn extend<T: Clone>(to: &mut Vec<T>, from: &[T]) {
    to.extend_from_slice(&from[to.len()..]);
}

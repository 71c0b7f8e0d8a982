//! Converts counted stacks to profiles. Looks up each location once.
//!
//! A lookup may take long, but blocks nothing. Meanwhile, a location counts for the function
//! [`AWAITED`] of its object.

use rprof_image::ImageKey;
use rprof_processes::Image;
use rprof_profile::unit::counted;
use rprof_profile::{
    FunctionId, Object, Profile, ProfileBuilder, Quality, RowKey, StackEnds, SymbolTables,
    TopFunctions, TopRow, WeightUnit,
};
use rprof_symbols::{Lookup, Reason};
use rustc_hash::FxHashMap;

use super::by_language::LiveFolding;
use super::counter::{CountedEvent, Counter};
use super::counts::{Group, Tally};
use super::{LiveView, Span};
use crate::assemble::reaches_root;
use crate::image_lookup::ImageLookup;
use crate::jit::JitCode;
use crate::location::{CodeRegion, Location};
use crate::stack_end::StackEnd;
use crate::symbolize::{SymbolsBuilder, object_kind, object_name, vsyscall_name};

/// Maximum number of lookups of JIT code before it stays unnamed.
const TRIES: u8 = 2;

/// Name of functions before their lookup.
const AWAITED: &str = "[names are being read]";

/// Copies of locations and stacks with their names.
#[derive(Debug)]
pub(super) struct Namer {
    lookup: ImageLookup,
    images: Vec<Image>,
    names: Vec<String>,
    locations: Vec<Location>,
    groups: Vec<Group>,
    generation: u64,
    numbering: u64,
    symbols: SymbolsBuilder,
    waiting: FxHashMap<CodeRegion, Vec<u32>>,
    /// Locations of JIT code to look up again, with the number of lookups so far.
    again: FxHashMap<u32, u8>,
    /// Flags by location: true until its lookup.
    is_awaited: Vec<bool>,
    stacks: Vec<NamedStack>,
    unfinished: Vec<u32>,
    pub(super) by_language: Option<LiveFolding>,
}

#[derive(Debug)]
struct NamedStack {
    /// Root first.
    functions: Box<[FunctionId]>,
    reaches_root: bool,
    /// Locations, leaf first; empty after all lookups.
    locations: Box<[u32]>,
}

/// Snapshot of data that changes with each sample.
#[derive(Debug)]
pub(super) struct Progress {
    /// Generation and numbering.
    numbers: (u64, u64),
    events: Vec<CountedEvent>,
    window: Tally,
    since_start: Tally,
    has_callchains: bool,
    unreadable: u64,
    forgotten: u64,
}

pub(super) enum BatchSource {
    Image(ImageKey),
    Jit(i32),
}

pub(super) struct Batch {
    generation: u64,
    pub(super) source: BatchSource,
    locations: Vec<u32>,
    /// Addresses, ascending.
    pub(super) addresses: Vec<u64>,
}

impl Namer {
    pub(super) fn new(has_root: bool) -> Namer {
        Namer {
            lookup: ImageLookup::of_this_machine(has_root),
            images: Vec::new(),
            names: Vec::new(),
            locations: Vec::new(),
            groups: Vec::new(),
            generation: 0,
            numbering: 0,
            symbols: SymbolsBuilder::default(),
            waiting: FxHashMap::default(),
            again: FxHashMap::default(),
            is_awaited: Vec::new(),
            stacks: Vec::new(),
            unfinished: Vec::new(),
            by_language: None,
        }
    }

    /// Copies new data while the counter is locked.
    pub(super) fn copy_new(&mut self, counter: &Counter) {
        let counts = &counter.counts;
        if self.generation != counts.generation {
            self.generation = counts.generation;
            (self.names, self.locations) = (Vec::new(), Vec::new());
            self.symbols = SymbolsBuilder::default();
            self.by_language = self.by_language.take().map(|_| LiveFolding::default());
            self.waiting.clear();
            self.again.clear();
            self.is_awaited.clear();
        }
        if self.numbering != counts.numbering {
            self.numbering = counts.numbering;
            self.groups.clear();
            self.stacks.clear();
            self.unfinished.clear();
        }
        extend(&mut self.images, counter.map.images());
        extend(&mut self.names, counts.names.as_slice());
        extend(&mut self.locations, counts.locations.as_slice());
        extend(&mut self.groups, counts.groups.as_slice());
        for id in self.stacks.len() as u32..counts.stacks.len() as u32 {
            self.unfinished.push(id);
            self.stacks.push(NamedStack {
                functions: Box::default(),
                reaches_root: false,
                locations: counts.stacks.get(id).into(),
            });
        }
    }

    pub(super) fn progress(&mut self, counter: &Counter) -> Progress {
        self.copy_new(counter);
        Progress {
            numbers: (self.generation, self.numbering),
            events: counter.events.clone(),
            window: counter.counts.window(),
            since_start: counter.counts.since_start(),
            has_callchains: counter.has_callchains,
            unreadable: counter.unreadable,
            forgotten: counter.counts.forgotten,
        }
    }

    pub(super) fn has_ids_of(&self, progress: &Progress) -> bool {
        progress.numbers == (self.generation, self.numbering)
    }

    /// Sorts new locations by region. Regions without names are resolved at once.
    fn sort_new(&mut self) {
        let first = self.is_awaited.len();
        self.symbols.extend_to(self.locations.len());
        self.is_awaited.resize(self.locations.len(), true);
        for id in first..self.locations.len() {
            let region = self.locations[id].region;
            if let Some(list) = self.waiting.get_mut(&region) {
                list.push(id as u32);
                continue;
            }
            match self.source_of(region) {
                Ok(_) => drop(self.waiting.insert(region, vec![id as u32])),
                Err(reason) => self.take(id as u32, &Err(reason)),
            }
        }
    }

    fn source_of(&self, region: CodeRegion) -> Result<BatchSource, Reason> {
        match region {
            CodeRegion::Anonymous { pid, .. } => Ok(BatchSource::Jit(pid)),
            _ => (self.lookup.target(region, &self.images, None)).map(BatchSource::Image),
        }
    }

    pub(super) fn try_again(&mut self) {
        for id in self.again.keys() {
            let region = self.locations[*id as usize].region;
            self.waiting.entry(region).or_default().push(*id);
        }
    }

    /// Returns the region with the most pending lookups.
    pub(super) fn next_batch(&mut self) -> Option<Batch> {
        self.sort_new();
        let most = |(_, list): &(&CodeRegion, &Vec<u32>)| (list.len(), u32::MAX - list[0]);
        let region = *self.waiting.iter().max_by_key(most)?.0;
        let mut locations = self.waiting.remove(&region)?;
        let address = |id: &u32| self.locations[*id as usize].lookup;
        locations.sort_unstable_by_key(address);
        Some(Batch {
            generation: self.generation,
            source: self.source_of(region).ok()?,
            addresses: locations.iter().map(address).collect(),
            locations,
        })
    }

    /// Stores the lookup results of a batch. `may_come` means that unnamed addresses may get names
    /// later.
    pub(super) fn take_in(&mut self, batch: &Batch, found: &[Lookup], may_come: bool) {
        if batch.generation != self.generation {
            return;
        }
        for (id, found) in batch.locations.iter().zip(found) {
            if may_come && found.is_err() {
                let tries = self.again.entry(*id).or_default();
                *tries += 1;
                if *tries < TRIES {
                    continue;
                }
            }
            self.again.remove(id);
            self.take(*id, found);
        }
    }

    fn take(&mut self, id: u32, found: &Lookup) {
        self.is_awaited[id as usize] = false;
        let location = self.locations[id as usize];
        let made = vsyscall_name(location.region, location.lookup);
        let region = match (location.region, found) {
            (CodeRegion::Anonymous { pid, .. }, Ok(_)) => CodeRegion::Jit(JitCode {
                pid,
                table: 0,
                function: 0,
            }),
            (region, _) => region,
        };
        let object = self.object(region);
        (self.symbols).location(id, region, &object, found, made);
    }

    fn object(&self, region: CodeRegion) -> Object {
        Object {
            name: object_name(region, &self.images).into(),
            kind: object_kind(region),
            build_id: self.lookup.build_id_of(region, &self.images),
            runtime: None,
        }
    }

    fn name_stacks(&mut self) {
        self.sort_new();
        for id in std::mem::take(&mut self.unfinished) {
            let locations = std::mem::take(&mut self.stacks[id as usize].locations);
            let mut is_finished = true;
            for location in &locations {
                if self.is_awaited[*location as usize] {
                    is_finished = false;
                    self.hold_place(*location);
                }
            }
            let mut stack = self.named(&locations);
            if let Some(folding) = &mut self.by_language {
                stack.functions = folding.fold(&mut self.symbols, &locations);
            }
            if !is_finished {
                stack.locations = locations;
                self.unfinished.push(id);
            }
            self.stacks[id as usize] = stack;
        }
    }

    fn hold_place(&mut self, id: u32) {
        if self.symbols.functions_at(id).next().is_none() {
            let region = self.locations[id as usize].region;
            let object = self.object(region);
            let (why, name) = match region {
                // Most JIT code without a description never gets one.
                CodeRegion::Anonymous { .. } => (Reason::JitWithoutMap, None),
                _ => (Reason::Unmapped, Some((AWAITED.into(), 0))),
            };
            (self.symbols).location(id, region, &object, &Err(why), name);
        }
    }

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
            locations: Box::default(),
        }
    }

    pub(super) fn view(&mut self, progress: &Progress, span: Span) -> LiveView {
        self.name_stacks();
        let tally = match span {
            Span::Window => &progress.window,
            Span::SinceStart => &progress.since_start,
        };
        LiveView {
            profile: self.profile(progress, tally),
            since_start: (0..progress.events.len())
                .map(|event| self.sums(event as u32, &progress.since_start))
                .collect(),
            forgotten: progress.forgotten,
            awaited: self.is_awaited.iter().filter(|awaited| **awaited).count(),
            generation: self.generation,
        }
    }

    /// Adds up an event by function, like [`TopFunctions::of`]. Making a profile would take several
    /// times as long.
    fn sums(&self, event: u32, tally: &Tally) -> TopFunctions {
        let mut sums = TopFunctions::default();
        let mut places: FxHashMap<FunctionId, (usize, u32)> = FxHashMap::default();
        for (id, count) in &tally.counts {
            let group = &self.groups[*id as usize];
            if group.event != event {
                continue;
            }
            sums.weight_total = sums.weight_total.saturating_add(count.weight);
            let mut leaf = None;
            for function in &self.stacks[group.stack as usize].functions {
                let fresh = (sums.rows.len(), u32::MAX);
                let (at, counted_in) = places.entry(*function).or_insert(fresh);
                if *at == sums.rows.len() {
                    sums.rows.push(self.row(*function));
                }
                let row = &mut sums.rows[*at];
                if std::mem::replace(counted_in, *id) != *id {
                    row.total_weight = row.total_weight.saturating_add(count.weight);
                    row.total_samples = row.total_samples.saturating_add(count.samples);
                }
                leaf = Some(*at);
            }
            if let Some(at) = leaf {
                let row = &mut sums.rows[at];
                row.self_weight = row.self_weight.saturating_add(count.weight);
                row.self_samples = row.self_samples.saturating_add(count.samples);
            }
        }
        sums
    }

    fn row(&self, function: FunctionId) -> TopRow {
        TopRow {
            key: RowKey {
                comm: None,
                pid: None,
                tid: None,
                state: None,
                object: Some(self.symbols.function(function).object),
                function: Some(function),
                line: None,
                language: None,
            },
            self_weight: 0,
            total_weight: 0,
            self_samples: 0,
            total_samples: 0,
        }
    }

    fn profile(&self, progress: &Progress, tally: &Tally) -> Profile {
        let mut builder = ProfileBuilder::new();
        let tables: SymbolTables = self.symbols.tables();
        builder.set_tables(tables);
        for event in &progress.events {
            builder.add_event(&event.name, WeightUnit::of_event(&event.name));
        }
        let threads: Vec<_> = (self.names.iter())
            .map(|name| builder.intern_thread_name(name))
            .collect();
        let mut ids = FxHashMap::default();
        let mut ends = StackEnds::default();
        for (id, count) in &tally.counts {
            let group = &self.groups[*id as usize];
            let stack = &self.stacks[group.stack as usize];
            let id = *ids
                .entry(group.stack)
                .or_insert_with(|| builder.intern_stack(&stack.functions));
            let thread = threads[group.name as usize];
            let event = group.event as usize;
            builder.add_samples(event, thread, id, count.samples, count.weight);
            if !progress.has_callchains {
                continue;
            }
            ends.total += count.samples;
            let is_complete = match group.end {
                StackEnd::Unknown => stack.reaches_root,
                end => {
                    ends.unwound += count.samples;
                    end == StackEnd::Root
                }
            };
            match is_complete {
                true => ends.complete += count.samples,
                false => ends.truncated += count.samples,
            }
        }
        builder.set_time(tally.time);
        builder.set_callchains(progress.has_callchains);
        let mut profile = builder.finish();
        let folding = self.by_language.as_ref();
        profile.quality.is_by_language = folding.is_some_and(LiveFolding::folds);
        for (summary, event) in profile.events.iter_mut().zip(&progress.events) {
            summary.lost = event.lost;
        }
        let warnings = (progress.unreadable > 0)
            .then(|| format!("could not read {}", counted(progress.unreadable, "record")));
        profile.quality = Quality {
            stacks: ends,
            lost: (progress.events.iter().map(|event| event.lost)).fold(0, u64::saturating_add),
            throttled: (progress.events.iter().map(|event| event.throttled))
                .fold(0, u64::saturating_add),
            warnings: warnings.into_iter().collect(),
            ..profile.quality
        };
        profile
    }
}

fn extend<T: Clone>(to: &mut Vec<T>, from: &[T]) {
    to.extend_from_slice(&from[to.len()..]);
}

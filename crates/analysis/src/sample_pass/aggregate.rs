//! Aggregation of samples by stack and group.
//!
//! Leaf and callers of a stack are looked up separately: each recurs far more often than the pair.
//! Each step runs for a batch, so that cache misses overlap.

use rprof_processes::SpaceId;

use crate::caches::CacheStats;
use crate::caches::callers::{CallerCache, CallerCacheKey};
use crate::caches::canonical::FunctionCanonicalizer;
use crate::caches::code_pages::CodePageCache;
use crate::groups::SampleGroup;
use crate::location::{CodeRegion, Context, Location, addresses};
use crate::sample_pass::aggregate_table::{
    AggregateKey, AggregateTable, CallerListIds, SampleGroups,
};
use crate::sample_pass::pending::{PendingSample, SampledThread};
use crate::sample_pass::results::WorkerOutput;
use crate::sample_pass::stacks::{Locations, NO_LEAF, StackTable};
use crate::sideband_pass::Index;

/// Number of samples in a batch.
pub(crate) const TOGETHER: usize = 64;

pub(crate) struct SampleAggregator<'a> {
    index: &'a Index<'a>,
    /// `None` if samples keep their addresses.
    canonicalizer: Option<&'a FunctionCanonicalizer<'a>>,
    pages: CodePageCache,
    lists: CallerListIds,
    caller_cache: CallerCache,
    /// Scratch space.
    found: Vec<ResolvedSample>,
    words: Vec<u64>,
    /// Scratch: location ids of all callers of the batch.
    ids: Vec<u32>,
    /// Scratch: cache misses of callers, as index into `ids`, address, key and location.
    missed: Vec<(usize, u64, Option<CallerCacheKey>, Location)>,
    pub(crate) contexts: SampleGroups,
    counts: AggregateTable,
    locations: Locations,
    stacks: StackTable,
}

impl<'a> SampleAggregator<'a> {
    pub(crate) fn new(
        index: &'a Index<'a>,
        canonicalizer: Option<&'a FunctionCanonicalizer<'a>>,
    ) -> SampleAggregator<'a> {
        SampleAggregator {
            index,
            canonicalizer,
            pages: CodePageCache::default(),
            lists: CallerListIds::default(),
            caller_cache: CallerCache::default(),
            found: Vec::new(),
            words: Vec::new(),
            ids: Vec::new(),
            missed: Vec::new(),
            contexts: SampleGroups::default(),
            counts: AggregateTable::default(),
            locations: Locations::default(),
            stacks: StackTable::default(),
        }
    }

    pub(crate) fn finish(self) -> WorkerOutput {
        WorkerOutput {
            locations: self.locations,
            stacks: self.stacks,
            contexts: self.contexts,
            counts: self.counts,
            caches: CacheStats {
                callers: self.caller_cache.stats(),
                code_pages: self.pages.stats(),
                ..CacheStats::default()
            },
            ..WorkerOutput::default()
        }
    }

    /// Aggregates a batch of at most [`TOGETHER`] samples. Calls `each` with the key number of each
    /// sample.
    #[inline]
    pub(crate) fn count(&mut self, batch: &[PendingSample<'_>], mut each: impl FnMut(u32)) {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        found.extend(batch.iter().map(|one| ResolvedSample {
            list: self.lists.find(one.fingerprint),
            ..NOTHING
        }));
        self.resolve_leaves(batch, &mut found);
        if found.iter().any(|found| found.list.is_none()) {
            self.resolve_callers(batch, &mut found);
        }
        for (one, found) in batch.iter().zip(&found) {
            each(self.counts.add(found.counted(one.context), one.weight));
        }
        self.found = found;
    }

    /// Aggregates a sample. Returns its key and the key's number.
    pub(crate) fn count_one(&mut self, one: PendingSample<'_>) -> (AggregateKey, u32) {
        let (one, mut number) = ([one], 0);
        self.count(&one, |id| number = id);
        (self.found[0].counted(one[0].context), number)
    }

    pub(crate) fn group(&mut self, key: AggregateKey) -> SampleGroup {
        self.contexts.group(key, &mut self.stacks)
    }

    fn resolve_leaves(&mut self, batch: &[PendingSample<'_>], found: &mut [ResolvedSample]) {
        let index = self.index;
        for (one, found) in batch.iter().zip(&mut *found) {
            if let Some((address, mode)) = one.leaf {
                let thread = one.thread;
                let context = || context(index, thread);
                found.location = (self.pages).locate(address, mode, thread.state, context);
            }
        }
        if let Some(canonicalizer) = self.canonicalizer {
            canonicalizer.canonicalize(found, |found| &mut found.location);
        }
        for (one, found) in batch.iter().zip(found) {
            if one.leaf.is_some() {
                found.leaf = self.locations.intern(found.location);
            }
        }
    }

    fn resolve_callers(&mut self, batch: &[PendingSample<'_>], found: &mut [ResolvedSample]) {
        let fresh = || batch.iter().zip(0..);
        self.ids.clear();
        self.missed.clear();
        for (one, at) in fresh() {
            let found: &mut ResolvedSample = &mut found[at];
            if found.list.is_some() {
                continue;
            }
            let context = context(self.index, one.thread);
            let start = self.ids.len();
            one.callers(&mut self.words);
            let words = self.words.iter().copied();
            for (address, mode, caller) in addresses(words, one.mode, true) {
                let key = CallerCacheKey::new(one.thread.state, mode as u8, caller);
                let id = self.caller_cache.find(address, key);
                if id.is_none() {
                    let location = context.locate(address, mode, caller);
                    self.missed.push((self.ids.len(), address, key, location));
                }
                self.ids.push(id.unwrap_or_default());
            }
            found.callers = (start, self.ids.len());
        }
        self.caller_cache.count_lookups(self.ids.len());
        if let Some(canonicalizer) = self.canonicalizer {
            canonicalizer.canonicalize(&mut self.missed, |(.., location)| location);
        }
        for (at, address, key, location) in &self.missed {
            self.ids[*at] = self.locations.intern(*location);
            if let Some(key) = key {
                self.caller_cache.keep(*address, *key, self.ids[*at]);
            }
        }
        for (one, at) in fresh() {
            let found: &mut ResolvedSample = &mut found[at];
            if found.list.is_none() {
                let ids = &self.ids[found.callers.0..found.callers.1];
                // An earlier sample of the batch may have added it.
                let id = (self.lists)
                    .get_or_insert_with(one.fingerprint, || self.stacks.intern_callers(ids));
                found.list = Some(id);
            }
        }
    }
}

#[derive(Clone, Copy)]
struct ResolvedSample {
    /// Leaf's location; meaningless if `leaf` is [`NO_LEAF`].
    location: Location,
    /// Worker-local id of `location`.
    leaf: u32,
    /// Id of the caller list; `None` until it is interned.
    list: Option<u32>,
    /// Range in `ids`, while `list` is `None`.
    callers: (usize, usize),
}

const NOTHING: ResolvedSample = ResolvedSample {
    location: Location {
        region: CodeRegion::Unmapped,
        lookup: 0,
        caller: false,
    },
    leaf: NO_LEAF,
    list: None,
    callers: (0, 0),
};

impl ResolvedSample {
    #[inline]
    fn counted(&self, context: u32) -> AggregateKey {
        AggregateKey {
            leaf: self.leaf,
            list: self.list.unwrap_or_default(),
            context,
        }
    }
}

fn context<'a>(index: &'a Index<'_>, thread: SampledThread) -> Context<'a> {
    let timeline = &index.timeline;
    Context {
        timeline,
        user: timeline.view(thread.space, thread.time),
        kernel: timeline.view(SpaceId::KERNEL, thread.time),
        pid: thread.pid,
        time: thread.time,
        runtimes: &index.runtimes,
    }
}

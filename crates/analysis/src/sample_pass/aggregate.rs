//! Aggregation of samples by stack and group.
//!
//! The leaf and the callers of a stack are looked up apart, since each recurs far more often than
//! the two together. Each step is made for many samples before the next one, so that their cache
//! misses overlap.

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

/// Number of samples that are looked up together.
pub(crate) const TOGETHER: usize = 64;

/// Aggregates the samples of one worker.
pub(crate) struct SampleAggregator<'a> {
    index: &'a Index<'a>,
    /// Canonical addresses; `None` where addresses are kept.
    canonicalizer: Option<&'a FunctionCanonicalizer<'a>>,
    pages: CodePageCache,
    /// Ids of caller lists, by fingerprint.
    lists: CallerListIds,
    caller_cache: CallerCache,
    /// Scratch: resolved samples of the current batch.
    found: Vec<ResolvedSample>,
    words: Vec<u64>,
    /// Scratch: location ids of callers, of all lists of the current batch.
    numbers: Vec<u32>,
    /// Scratch: callers missing in the cache, as index into `numbers`, address, key and location.
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
            numbers: Vec::new(),
            missed: Vec::new(),
            contexts: SampleGroups::default(),
            counts: AggregateTable::default(),
            locations: Locations::default(),
            stacks: StackTable::default(),
        }
    }

    /// Returns locations, stacks, groups, totals, and cache statistics.
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

    /// Aggregates a batch of samples, at most [`TOGETHER`].
    pub(crate) fn count(&mut self, waiting: &[PendingSample<'_>]) {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        found.extend(waiting.iter().map(|one| ResolvedSample {
            list: self.lists.find(one.fingerprint),
            ..NOTHING
        }));
        self.resolve_leaves(waiting, &mut found);
        if found.iter().any(|found| found.list.is_none()) {
            self.resolve_callers(waiting, &mut found);
        }
        for (one, found) in waiting.iter().zip(&found) {
            self.counts.add(found.counted(one.context), one.weight);
        }
        self.found = found;
    }

    /// Aggregates a sample, and returns its group.
    pub(crate) fn count_one(&mut self, one: PendingSample<'_>) -> SampleGroup {
        let one = [one];
        self.count(&one);
        let counted = self.found[0].counted(one[0].context);
        self.contexts.group(counted, &mut self.stacks)
    }

    /// Locates and interns the leaves of a batch.
    fn resolve_leaves(&mut self, waiting: &[PendingSample<'_>], found: &mut [ResolvedSample]) {
        let index = self.index;
        for (one, found) in waiting.iter().zip(&mut *found) {
            if let Some((address, mode)) = one.leaf {
                let task = one.task;
                let context = || context(index, task);
                found.location = (self.pages).locate(address, mode, task.number, context);
            }
        }
        if let Some(canonicalizer) = self.canonicalizer {
            canonicalizer.canonicalize(found, |found| &mut found.location);
        }
        for (one, found) in waiting.iter().zip(found) {
            if one.leaf.is_some() {
                found.leaf = self.locations.intern(found.location);
            }
        }
    }

    /// Locates and interns the caller lists of a batch that are new.
    fn resolve_callers(&mut self, waiting: &[PendingSample<'_>], found: &mut [ResolvedSample]) {
        let fresh = || waiting.iter().zip(0..);
        self.numbers.clear();
        self.missed.clear();
        for (one, at) in fresh() {
            let found: &mut ResolvedSample = &mut found[at];
            if found.list.is_some() {
                continue;
            }
            let context = context(self.index, one.task);
            let start = self.numbers.len();
            one.callers(&mut self.words);
            let words = self.words.iter().copied();
            for (address, mode, caller) in addresses(words, one.mode, true) {
                let tag = CallerCacheKey::new(one.task.number, mode as u8, caller);
                let number = self.caller_cache.find(address, tag);
                if number.is_none() {
                    let location = context.locate(address, mode, caller);
                    self.missed
                        .push((self.numbers.len(), address, tag, location));
                }
                self.numbers.push(number.unwrap_or_default());
            }
            found.callers = (start, self.numbers.len());
        }
        self.caller_cache.count_lookups(self.numbers.len());
        if let Some(canonicalizer) = self.canonicalizer {
            canonicalizer.canonicalize(&mut self.missed, |(.., location)| location);
        }
        for (at, address, tag, location) in &self.missed {
            self.numbers[*at] = self.locations.intern(*location);
            if let Some(tag) = tag {
                self.caller_cache.keep(*address, *tag, self.numbers[*at]);
            }
        }
        for (one, at) in fresh() {
            let found: &mut ResolvedSample = &mut found[at];
            if found.list.is_none() {
                let numbers = &self.numbers[found.callers.0..found.callers.1];
                // An earlier sample of the batch may have the same list.
                let number = (self.lists)
                    .get_or_insert_with(one.fingerprint, || self.stacks.intern_callers(numbers));
                found.list = Some(number);
            }
        }
    }
}

/// Sample with leaf and callers resolved.
#[derive(Clone, Copy)]
struct ResolvedSample {
    /// Location of its leaf; meaningless without one.
    location: Location,
    /// Id of `location` in the worker's location table.
    leaf: u32,
    /// Id of its caller list, once it is known.
    list: Option<u32>,
    /// Range in `numbers` of its callers' location ids, while `list` is `None`.
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
            // Set by now.
            list: self.list.unwrap_or_default(),
            context,
        }
    }
}

fn context<'a>(index: &'a Index<'_>, task: SampledThread) -> Context<'a> {
    let timeline = &index.timeline;
    Context {
        timeline,
        user: timeline.view(task.space, task.time),
        kernel: timeline.view(SpaceId::KERNEL, task.time),
        pid: task.pid,
        time: task.time,
        runtimes: &index.runtimes,
    }
}

//! Pass two: every sample to an interned stack of locations.

use std::sync::Mutex;

use rprof_processes::CommId;
use rprof_symbols::Symbolizer;

use crate::coarse::Coarse;
use crate::counts::{Contexts, Counts};
use crate::identity::Identities;
use crate::index::Index;
use crate::quick::Quick;
use crate::stacks::{Locations, StackTable};
use crate::threads;
use crate::unwind::{StackEnd, Unwinding};
use crate::worker::{Shared, Worker};
use rprof_profile::Filter;

/// What samples are counted together by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Group {
    pub(crate) event: u32,
    pub(crate) comm: Option<CommId>,
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) stack: u32,
    pub(crate) end: StackEnd,
}

/// How much of what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) samples: u64,
    pub(crate) weight: u64,
}

impl Amount {
    pub(crate) fn add(&mut self, more: &Amount) {
        self.samples += more.samples;
        self.weight = self.weight.saturating_add(more.weight);
    }
}

/// All that pass two keeps: linear in distinct stacks.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    pub(crate) locations: Locations,
    pub(crate) stacks: StackTable,
    /// What samples are counted by beside stacks.
    pub(crate) contexts: Contexts,
    /// How much of what; of nothing once it was merged.
    pub(crate) counts: Counts,
    /// Samples that could not be read.
    pub(crate) unreadable: u64,
    /// Time of the first and of the last sample that counted.
    pub(crate) time: Option<(u64, u64)>,
    /// Whether any sample had a callchain.
    pub(crate) has_callchains: bool,
    /// The samples one by one, where they were asked for.
    pub(crate) rows: Vec<Row>,
}

/// One sample, for those who want them one by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) time: u64,
    /// Place in the recording, as [`place_in`] makes it: orders samples of the same
    /// time, and finds the record again.
    pub(crate) order: u64,
    pub(crate) group: Group,
    pub(crate) cpu: Option<u32>,
    pub(crate) period: u64,
    pub(crate) ip: u64,
    pub(crate) has_chain: bool,
}

/// A place in the recording: the number of the block, and the bytes before the record
/// within it. No record begins 4 GiB into a block, blocks being cut after about a MiB.
pub(crate) fn place_in(block: usize, at: usize) -> u64 {
    (block as u64) << 32 | at as u64
}

/// What pass two shall keep besides stacks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Keep {
    /// Tell samples apart by process and thread.
    pub(crate) tasks: bool,
    /// Keep a row for each sample.
    pub(crate) rows: bool,
}

/// Resolves all samples that `filter` wants, for those who want them one by one.
pub(crate) fn resolve(
    index: &Index<'_>,
    symbolizer: &Symbolizer,
    filter: &Filter,
    keep: Keep,
    n: usize,
) -> Resolved {
    let parts = resolve_in_parts(index, symbolizer, filter, keep, n);
    let mut parts = parts.into_iter();
    let mut whole = parts.next().unwrap_or_default();
    for part in parts {
        whole.merge(&part);
    }
    whole
}

/// Resolves all samples that `filter` wants: in parts, as the threads have found them.
pub(crate) fn resolve_in_parts(
    index: &Index<'_>,
    symbolizer: &Symbolizer,
    filter: &Filter,
    keep: Keep,
    n: usize,
) -> Vec<Resolved> {
    let unwinding = Unwinding::new(index, symbolizer);
    let notes = index.data.features().private().unwrap_or_default();
    let tells_ends = (notes.iter()).any(|(key, _)| key == "stacks.by" || key == "stacks.total");
    let events = index.data.events().list();
    let wanted: Vec<bool> = events.iter().map(|e| filter.wants_event(&e.name)).collect();
    let quick: Vec<Option<Quick>> = match keep.rows || filter.is_by_sample() {
        true => events.iter().map(|_| None).collect(),
        false => events.iter().map(Quick::of).collect(),
    };
    // Rows tell addresses.
    let coarse = match keep.rows {
        true => None,
        false => Coarse::new(index, symbolizer),
    };
    let shared = Shared {
        index,
        filter,
        wanted: &wanted,
        quick: &quick,
        keep,
        unwinding: unwinding.as_ref(),
        tells_ends,
        coarse: coarse.as_ref(),
        identities: Identities::new(),
    };
    match index.kept_blocks() {
        Some(blocks) => threads::run(n, blocks.len(), |queue| {
            let mut worker = Worker::new(&shared);
            while let Some(piece) = queue.next() {
                worker.take_block(&blocks[piece], piece);
            }
            worker.finish()
        }),
        // Decompressed again, one block at a time, so that memory stays bounded.
        None => {
            let blocks = Mutex::new(index.data.blocks().filter_map(Result::ok).enumerate());
            threads::run(n, usize::MAX, |_| {
                let mut worker = Worker::new(&shared);
                loop {
                    let next = match blocks.lock() {
                        Ok(mut blocks) => blocks.next(),
                        Err(_) => None,
                    };
                    match next {
                        Some((number, block)) => worker.take_block(&block, number),
                        None => return worker.finish(),
                    }
                }
            })
        }
    }
}

impl Resolved {
    /// For each location, in how many of the rows it is.
    pub(crate) fn rows_by_location(&self) -> Vec<u64> {
        let mut samples = vec![0; self.locations.as_slice().len()];
        for row in &self.rows {
            for location in self.stacks.get(row.group.stack) {
                samples[location as usize] += 1;
            }
        }
        samples
    }

    /// Takes the rows of another.
    fn merge(&mut self, other: &Resolved) {
        self.counts = Counts::default();
        let locations: Vec<u32> = (other.locations.as_slice().iter())
            .map(|l| self.locations.intern(*l))
            .collect();
        let stacks = self.stacks.merge(&other.stacks, &locations);
        self.rows.extend(other.rows.iter().map(|row| Row {
            group: Group {
                stack: stacks[row.group.stack as usize],
                ..row.group
            },
            ..*row
        }));
        self.unreadable += other.unreadable;
        self.has_callchains |= other.has_callchains;
        self.time = match (self.time, other.time) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (a, b) => a.or(b),
        };
    }
}

//! Pass two: resolves samples to interned stacks of locations, and aggregates them.

pub(crate) mod aggregate;
pub(crate) mod aggregate_table;
pub(crate) mod branch_stack;
pub(crate) mod compact_rows;
pub(crate) mod fingerprint;
pub(crate) mod fixed_layout;
pub(crate) mod pending;
pub(crate) mod repeated_leaf;
pub(crate) mod results;
pub(crate) mod stacks;
pub(crate) mod worker;

use std::sync::Mutex;

use rprof_symbols::Symbolizer;

use crate::caches::canonical::FunctionCanonicalizer;
use crate::latency::LatencyOptions;
use crate::options::{PassOptions, SampleRows};
use crate::requests::RequestTimes;
use crate::sample_pass::fingerprint::FingerprintKeys;
use crate::sample_pass::fixed_layout::FixedLayoutParser;
use crate::sample_pass::results::WorkerOutput;
use crate::sample_pass::worker::{Shared, Worker};
use crate::sideband_pass::Index;
use crate::stack_end::marks_truncation;
use crate::unwind::Unwinding;
use rprof_profile::{Filter, WeightUnit};
use rprof_records::request_context;

/// Conditions on samples, and data for them.
pub(crate) type Conditions<'c> = (&'c Filter, LatencyOptions<'c>, Option<&'c RequestTimes>);

/// Resolves the samples that `filter` accepts, and merges all workers' rows.
pub(crate) fn resolve(
    index: &Index<'_>,
    symbolizer: &Symbolizer,
    (filter, latency, requests): Conditions<'_>,
    pass: PassOptions,
    n: usize,
) -> WorkerOutput {
    let parts = resolve_in_parts(index, symbolizer, (filter, latency, requests), pass, n);
    let mut parts = parts.into_iter();
    let mut whole = parts.next().unwrap_or_default();
    for part in parts {
        whole.merge(&part);
    }
    whole
}

/// Returns each worker's result.
pub(crate) fn resolve_in_parts(
    index: &Index<'_>,
    symbolizer: &Symbolizer,
    (filter, latency, requests): Conditions<'_>,
    pass: PassOptions,
    n: usize,
) -> Vec<WorkerOutput> {
    let unwinding = match pass.leaves_only {
        true => None,
        false => Unwinding::new(index, symbolizer),
    };
    let notes = index.data.features().rprof_notes().unwrap_or_default();
    let marks_truncation = marks_truncation(&notes);
    let events = index.data.events().list();
    let wanted: Vec<bool> = (events.iter())
        .map(|event| {
            let is_hidden = event.name == request_context::EVENT && pass.rows != SampleRows::Whole;
            !is_hidden && filter.wants_event(&event.name)
        })
        .collect();
    let is_time: Vec<bool> = (events.iter())
        .map(|event| WeightUnit::of_event(&event.name) == WeightUnit::Nanoseconds)
        .collect();
    let fixed_layouts: Vec<Option<FixedLayoutParser>> =
        match pass.rows == SampleRows::Whole || filter.is_by_sample() || requests.is_some() {
            true => events.iter().map(|_| None).collect(),
            false => events.iter().map(FixedLayoutParser::new).collect(),
        };
    let may_repeat_leaf: Vec<bool> = events.iter().map(repeated_leaf::may_repeat).collect();
    let canonicalizer = match pass.addresses {
        true => None,
        false => FunctionCanonicalizer::new(index, symbolizer),
    };
    let shared = Shared {
        index,
        filter,
        wanted: &wanted,
        latency,
        requests,
        is_time: &is_time,
        fixed_layouts: &fixed_layouts,
        may_repeat_leaf: &may_repeat_leaf,
        pass,
        unwinding: unwinding.as_ref(),
        marks_truncation,
        canonicalizer: canonicalizer.as_ref(),
        fingerprint_keys: FingerprintKeys::new(),
    };
    match index.kept_blocks() {
        Some(blocks) => rprof_parallel::run(n, blocks.len(), |queue| {
            let mut worker = Worker::new(&shared);
            while let Some(block_index) = queue.next() {
                worker.handle_block(&blocks[block_index], block_index);
            }
            worker.finish()
        }),
        // Decompresses each block again, so that memory stays bounded.
        None => {
            let blocks = Mutex::new(index.data.blocks().filter_map(Result::ok).enumerate());
            rprof_parallel::run(n, usize::MAX, |_| {
                let mut worker = Worker::new(&shared);
                loop {
                    let next = match blocks.lock() {
                        Ok(mut blocks) => blocks.next(),
                        Err(_) => None,
                    };
                    match next {
                        Some((block_index, block)) => worker.handle_block(&block, block_index),
                        None => return worker.finish(),
                    }
                }
            })
        }
    }
}

//! Results of pass two by worker, with global location ids.

use rprof_profile::LatencyTally;

use crate::caches::CacheStats;
use crate::groups::{SampleGroup, SampleRow};
use crate::sample_pass::aggregate_table::{Aggregate, AggregateTable, SampleGroups};
use crate::sample_pass::compact_rows::BlockRows;
use crate::sample_pass::stacks::{Locations, StackTable};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampleFaults {
    pub(crate) unreadable: u64,
    /// Samples whose fields contradict their size ([`Sample::is_consistent`]). They are counted.
    ///
    /// [`Sample::is_consistent`]: rprof_records::Sample::is_consistent
    pub(crate) inconsistent: u64,
}

impl std::ops::AddAssign for SampleFaults {
    fn add_assign(&mut self, more: SampleFaults) {
        self.unreadable += more.unreadable;
        self.inconsistent += more.inconsistent;
    }
}

impl std::iter::Sum for SampleFaults {
    fn sum<I: Iterator<Item = SampleFaults>>(all: I) -> SampleFaults {
        all.fold(SampleFaults::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}

/// Result of one worker, or of all. Memory is linear in distinct stacks.
#[derive(Debug, Default)]
pub(crate) struct WorkerOutput {
    pub(crate) locations: Locations,
    pub(crate) stacks: StackTable,
    pub(crate) contexts: SampleGroups,
    /// Totals by key; empty after [`merge`](Self::merge).
    pub(crate) counts: AggregateTable,
    pub(crate) faults: SampleFaults,
    /// Time range in nanoseconds.
    pub(crate) time: Option<(u64, u64)>,
    pub(crate) has_callchains: bool,
    /// Sums of periods and of latencies; 0 unless weights are latencies.
    pub(crate) latency: LatencyTally,
    pub(crate) rows: Vec<SampleRow>,
    pub(crate) compact_rows: Vec<BlockRows>,
    pub(crate) caches: CacheStats,
}

impl WorkerOutput {
    /// Returns the number of samples before filters on stacks.
    pub(crate) fn samples(&self) -> u64 {
        self.counts.iter().map(|one| one.amount.samples).sum()
    }

    /// Returns, by location id, the number of rows with it in their stack.
    pub(crate) fn rows_by_location(&self) -> Vec<u64> {
        let mut samples = vec![0; self.locations.as_slice().len()];
        for row in &self.rows {
            for location in self.stacks.get(row.group.stack) {
                samples[location as usize] += 1;
            }
        }
        samples
    }

    pub(crate) fn merge(&mut self, other: &WorkerOutput) {
        self.counts = AggregateTable::default();
        let locations: Vec<u32> = (other.locations.as_slice().iter())
            .map(|l| self.locations.intern(*l))
            .collect();
        let stacks = self.stacks.merge(&other.stacks, &locations);
        self.rows.extend(other.rows.iter().map(|row| SampleRow {
            group: SampleGroup {
                stack: stacks[row.group.stack as usize],
                ..row.group
            },
            ..*row
        }));
        self.faults += other.faults;
        self.caches += other.caches;
        self.has_callchains |= other.has_callchains;
        self.time = match (self.time, other.time) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (a, b) => a.or(b),
        };
    }
}

#[derive(Debug)]
pub(crate) struct WorkerResult {
    /// Result. Its locations have moved to [`WorkerResults`].
    pub(crate) resolved: WorkerOutput,
    /// Global location id by worker-local id.
    pub(crate) locations: Vec<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct WorkerResults {
    pub(crate) locations: Locations,
    pub(crate) parts: Vec<WorkerResult>,
}

impl WorkerResults {
    pub(crate) fn new(parts: Vec<WorkerOutput>) -> WorkerResults {
        let mut all = WorkerResults::default();
        for mut resolved in parts {
            let own = std::mem::take(&mut resolved.locations);
            let locations = match all.parts.is_empty() {
                true => {
                    let count = own.as_slice().len() as u32;
                    all.locations = own;
                    (0..count).collect()
                }
                false => (own.as_slice().iter())
                    .map(|location| all.locations.intern(*location))
                    .collect(),
            };
            all.parts.push(WorkerResult {
                resolved,
                locations,
            });
        }
        all
    }

    /// Returns, by global location id, the number of samples with it.
    pub(crate) fn samples_by_location(&self) -> Vec<u64> {
        let mut samples = vec![0; self.locations.as_slice().len()];
        for part in &self.parts {
            let stacks = &part.resolved.stacks;
            for Aggregate { key, amount, .. } in part.resolved.counts.iter() {
                let callers = stacks.callers().get(key.list);
                for own in callers.iter().copied().chain(key.leaf()) {
                    samples[part.locations[own as usize] as usize] += amount.samples;
                }
            }
        }
        samples
    }
}

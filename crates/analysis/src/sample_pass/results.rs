//! What the threads of pass two found, each for itself, under common numbers of locations.

use crate::groups::{SampleGroup, SampleRow};
use crate::location::Location;
use crate::sample_pass::aggregate_table::{AggregateTable, SampleGroups};
use crate::sample_pass::stacks::{Locations, StackTable};

/// All that pass two keeps: linear in distinct stacks.
#[derive(Debug, Default)]
pub(crate) struct WorkerOutput {
    pub(crate) locations: Locations,
    pub(crate) stacks: StackTable,
    /// What samples are counted by beside stacks.
    pub(crate) contexts: SampleGroups,
    /// How much of what; of nothing once it was merged.
    pub(crate) counts: AggregateTable,
    /// Samples that could not be read.
    pub(crate) unreadable: u64,
    /// Time of the first and of the last sample that counted.
    pub(crate) time: Option<(u64, u64)>,
    /// Whether any sample had a callchain.
    pub(crate) has_callchains: bool,
    /// The samples one by one, where they were asked for.
    pub(crate) rows: Vec<SampleRow>,
}

impl WorkerOutput {
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
        self.unreadable += other.unreadable;
        self.has_callchains |= other.has_callchains;
        self.time = match (self.time, other.time) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (a, b) => a.or(b),
        };
    }
}

/// What one of them found.
#[derive(Debug)]
pub(crate) struct WorkerResult {
    /// Without its locations.
    pub(crate) resolved: WorkerOutput,
    /// By its own number of a location, the common one.
    pub(crate) locations: Vec<u32>,
}

/// What all of them found.
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
            let numbers = |own: &[Location]| own.len() as u32;
            let locations = match all.parts.is_empty() {
                true => {
                    let count = numbers(own.as_slice());
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

    /// For each location, in how many samples it is.
    pub(crate) fn samples_by_location(&self) -> Vec<u64> {
        let mut samples = vec![0; self.locations.as_slice().len()];
        for part in &self.parts {
            let stacks = &part.resolved.stacks;
            for (counted, amount) in part.resolved.counts.iter() {
                let callers = stacks.callers().get(counted.list);
                for own in callers.iter().copied().chain(counted.leaf()) {
                    samples[part.locations[own as usize] as usize] += amount.samples;
                }
            }
        }
        samples
    }
}

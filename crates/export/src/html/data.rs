//! Data of a page: tree, tasks and samples of one or two profiles, in an order that depends only on
//! the content.

use rprof_profile::compare::{self, MatchedFunctions};
use rprof_profile::views::trie::{NO_NODE, Trie};
use rprof_profile::{FrameId, Profile, StackId, ThreadId};
use rustc_hash::FxHashMap;

use super::coarse::Coarseness;
use super::functions::Tables;
use super::stack_tree::{Call, PageTree, in_preorder, without_small};
use crate::names::CleanNames;

/// Leaf of samples: a tree node and the executed line.
pub(super) type Leaf = (u32, Option<(u32, u32)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Row {
    /// Time, in the page's unit.
    pub(super) time: u64,
    pub(super) task: u32,
    /// Number of the CPU plus 1; 0 if unknown.
    pub(super) cpu: u64,
    pub(super) leaf: u32,
    pub(super) event: u64,
    pub(super) weight: u64,
    pub(super) samples: u64,
}

pub(super) struct Side {
    pub(super) rows: Vec<Row>,
    pub(super) has_times: bool,
}

pub(super) struct Collector {
    pub(super) tables: Tables,
    tree: Trie<Call>,
    /// Self weight by node, summed over both sides.
    own: Vec<u64>,
    /// Weight of all samples of both sides, including samples without a frame.
    whole: u64,
    pub(super) leaves: Vec<Leaf>,
    leaf_numbers: FxHashMap<Leaf, u32>,
    pub(super) tasks: Vec<Task>,
    task_numbers: FxHashMap<Task, u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Task {
    pub(super) pid: Option<i32>,
    pub(super) tid: Option<i32>,
    pub(super) comm: String,
    pub(super) process: Option<String>,
}

impl Collector {
    /// Creates a collector. With `matched`, it collects two compared profiles.
    pub(super) fn new(matched: Option<MatchedFunctions>) -> Collector {
        Collector {
            tables: Tables::new(matched),
            tree: Trie::default(),
            own: Vec::new(),
            whole: 0,
            leaves: Vec::new(),
            leaf_numbers: FxHashMap::default(),
            tasks: Vec::new(),
            task_numbers: FxHashMap::default(),
        }
    }

    fn task(&mut self, profile: &Profile, id: ThreadId) -> u32 {
        let (thread, names) = (profile.thread(id), CleanNames::new(profile));
        let task = Task {
            pid: thread.pid,
            tid: thread.tid,
            comm: names.comm(thread.comm).into_owned(),
            process: (thread.process_comm).map(|comm| names.comm(comm).into_owned()),
        };
        let tasks = &mut self.tasks;
        *self.task_numbers.entry(task).or_insert_with_key(|task| {
            tasks.push(task.clone());
            tasks.len() as u32 - 1
        })
    }

    /// Adds the samples of a profile. Times start at its first sample or wait.
    pub(super) fn add(
        &mut self,
        profile: &Profile,
        side: compare::Side,
        coarse: &Coarseness,
    ) -> Side {
        let functions = self.tables.add(profile, side);
        let origin = origin(profile);
        let tasks: Vec<u32> = (0..profile.threads.len())
            .map(|id| self.task(profile, ThreadId(id as u32)))
            .collect();
        let mut known: FxHashMap<StackId, u32> = FxHashMap::default();
        let mut leaf = |collector: &mut Collector, stack: StackId| {
            *(known.entry(stack))
                .or_insert_with(|| collector.leaf(profile, stack, &functions, coarse))
        };
        let samples = (profile.samples.as_ref()).filter(|_| coarse.keeps_times());
        let duration = (profile.time).map_or(0, |(first, last)| last.saturating_sub(first));
        let waits = (profile.aggregated.iter())
            .filter(|entry| profile.reason_at(entry.stack).is_some())
            .fold(0u64, |sum, entry| sum.saturating_add(entry.weight));
        let slice = (duration / SLICES).max(waits / MAX_SLICES).max(coarse.tick);
        let rows: Vec<Row> = match samples {
            Some(samples) => (samples.iter())
                .flat_map(|sample| {
                    let is_wait = profile.reason_at(sample.stack).is_some();
                    let row = Row {
                        time: sample.time.saturating_sub(origin),
                        task: tasks[sample.thread.0 as usize],
                        // A waiting thread is on no CPU.
                        cpu: sample
                            .cpu
                            .filter(|_| !is_wait)
                            .map_or(0, |cpu| u64::from(cpu) + 1),
                        leaf: leaf(self, sample.stack),
                        event: sample.event as u64,
                        weight: sample.weight,
                        samples: 1,
                    };
                    slices(row, if is_wait { slice } else { u64::MAX })
                })
                .map(|row| Row {
                    time: row.time / coarse.tick,
                    ..row
                })
                .collect(),
            None => (profile.aggregated.iter())
                .map(|entry| Row {
                    time: 0,
                    task: tasks[entry.thread.0 as usize],
                    cpu: 0,
                    leaf: leaf(self, entry.stack),
                    event: entry.event as u64,
                    weight: entry.weight,
                    samples: entry.samples,
                })
                .collect(),
        };
        for row in &rows {
            let (node, _) = self.leaves[row.leaf as usize];
            self.whole = self.whole.saturating_add(row.weight);
            if let Some(own) = self.own.get_mut(node as usize) {
                *own = own.saturating_add(row.weight);
            }
        }
        Side {
            rows,
            has_times: samples.is_some(),
        }
    }

    fn leaf(
        &mut self,
        profile: &Profile,
        stack: StackId,
        functions: &[u32],
        coarse: &Coarseness,
    ) -> u32 {
        let mut node = NO_NODE;
        let mut last: Option<FrameId> = None;
        for id in profile.frames(stack) {
            let frame = profile.frame(id);
            let call = Call {
                function: functions[frame.function.0 as usize],
                is_inlined: frame.inline_depth > 0,
            };
            node = self.tree.child(node, call);
            last = Some(id);
        }
        self.own.resize(self.tree.len(), 0);
        let line = last.and_then(|id| profile.frame(id).line);
        let line = line.filter(|line| line.line > 0 && coarse.lines);
        let line = line.map(|line| (self.tables.file(profile, line.file), line.line));
        self.leaf_number((node, line))
    }

    fn leaf_number(&mut self, leaf: Leaf) -> u32 {
        let leaves = &mut self.leaves;
        *self.leaf_numbers.entry(leaf).or_insert_with(|| {
            leaves.push(leaf);
            leaves.len() as u32 - 1
        })
    }

    /// Merges nodes below this share of the whole. Returns the number of removed nodes.
    pub(super) fn fold_small(&mut self, part: f64) -> usize {
        let totals = self.tree.totals(&self.own);
        let least = (self.whole as f64 * part).ceil() as u64;
        let rest = self.tables.add_pseudo("(small frames)");
        let (tree, image) = without_small(&self.tree, &totals, least, rest);
        let fewer = self.tree.len() - tree.len();
        let mut own = vec![0u64; tree.len()];
        for (node, weight) in self.own.iter().enumerate() {
            let own = &mut own[image[node] as usize];
            *own = own.saturating_add(*weight);
        }
        for (node, line) in self.leaves.iter_mut().filter(|(node, _)| *node != NO_NODE) {
            let is_small = totals[*node as usize] < least;
            *node = image[*node as usize];
            *line = line.filter(|_| !is_small);
        }
        (self.tree, self.own) = (tree, own);
        fewer
    }

    /// Renumbers all tables by content, and merges equal entries. Returns the tree.
    pub(super) fn sort(&mut self, sides: &mut [Side]) -> PageTree {
        let mut nodes = vec![0u64; self.tables.functions.len()];
        for (_, _, call) in self.tree.nodes() {
            nodes[call.function as usize] += 1;
        }
        let [functions, files] = self.tables.sort(&nodes);
        let order = in_preorder(&self.tree, &self.tree.totals(&self.own), &functions);
        for (node, line) in &mut self.leaves {
            // Samples without a frame belong to the root.
            *node = order.place.get(*node as usize).copied().unwrap_or(0);
            *line = line.map(|(file, number)| (files[file as usize], number));
        }
        let leaf_numbers = sorted(&mut self.leaves);
        let task_numbers = sorted(&mut self.tasks);
        for side in sides {
            for row in &mut side.rows {
                row.task = task_numbers[row.task as usize];
                row.leaf = leaf_numbers[row.leaf as usize];
            }
            side.merge();
        }
        order
    }
}

/// Maximum number of slices per wait: several per pixel of a timeline.
const SLICES: u64 = 4_000;

/// Maximum number of slices of all waits together.
const MAX_SLICES: u64 = 200_000;

/// Splits a row into slices of this length. The row lasts as long as its weight, but not longer
/// than the time before it. The last slice counts as the sample.
fn slices(row: Row, length: u64) -> impl Iterator<Item = Row> {
    let count = (row.weight / length.max(1)).clamp(1, SLICES);
    let lasted = row.weight.min(row.time);
    (0..count).map(move |at| {
        let part = |of: u64, at: u64| (u128::from(of) * u128::from(at) / u128::from(count)) as u64;
        let until = |at: u64| part(row.weight, at);
        Row {
            time: row.time - (lasted - part(lasted, at + 1)),
            weight: until(at + 1) - until(at),
            samples: u64::from(at + 1 == count),
            ..row
        }
    })
}

pub(super) fn origin(profile: &Profile) -> u64 {
    profile.time.map_or(0, |(first, _)| first)
}

/// Sorts and deduplicates elements. Returns the new index of each old one.
fn sorted<T: Ord + Clone>(elements: &mut Vec<T>) -> Vec<u32> {
    let old = elements.clone();
    elements.sort();
    elements.dedup();
    let number = |element: &T| elements.binary_search(element).unwrap_or(0) as u32;
    old.iter().map(number).collect()
}

impl Side {
    /// Sorts the rows by time, and sums up rows with equal keys.
    fn merge(&mut self) {
        let key = |row: &Row| (row.time, row.cpu, row.task, row.event, row.leaf);
        self.rows.sort_by_key(key);
        let mut merged: Vec<Row> = Vec::with_capacity(self.rows.len());
        for row in self.rows.drain(..) {
            match merged.last_mut() {
                Some(last) if key(last) == key(&row) => {
                    last.weight = last.weight.saturating_add(row.weight);
                    last.samples = last.samples.saturating_add(row.samples);
                }
                _ => merged.push(row),
            }
        }
        self.rows = merged;
    }

    pub(super) fn weight(&self) -> u64 {
        let weights = self.rows.iter().map(|row| row.weight);
        weights.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(time: u64, weight: u64) -> Row {
        Row {
            time,
            task: 0,
            cpu: 0,
            leaf: 0,
            event: 0,
            weight,
            samples: 1,
        }
    }

    fn sliced(time: u64, weight: u64, length: u64) -> Vec<(u64, u64, u64)> {
        slices(row(time, weight), length)
            .map(|row| (row.time, row.weight, row.samples))
            .collect()
    }

    #[test]
    fn a_wait_is_spread_over_the_time_that_it_took() {
        assert_eq!(
            sliced(100, 30, 10),
            [(80, 10, 0), (90, 10, 0), (100, 10, 1)]
        );
        assert_eq!(sliced(100, 5, 10), [(100, 5, 1)]);
    }

    #[test]
    fn a_wait_that_weighs_more_than_there_was_time_is_spread_over_all_of_it() {
        // The wait of 90 ns is clipped at time 0, without a slice at 0.
        assert_eq!(sliced(30, 90, 30), [(10, 30, 0), (20, 30, 0), (30, 30, 1)]);
        assert_eq!(sliced(0, 90, 30), [(0, 30, 0), (0, 30, 0), (0, 30, 1)]);
    }
}

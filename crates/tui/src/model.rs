//! [`Model`]: a filtered profile, shared by all views.

use std::sync::Arc;

use rprof_export::CleanNames;
use rprof_profile::views::selection::{Condition, FunctionSet, Selection};
use rprof_profile::{
    AggregatedStack, FunctionId, Keys, Profile, ThreadId, TopFunctions, TopRow, WeighBy,
};

use crate::filters::{Filter, removed};

#[derive(Clone, Debug)]
pub(crate) struct Model {
    recorded: Arc<Profile>,
    /// Profile without the frames that filters remove.
    pub(crate) profile: Arc<Profile>,
    removed: Option<FunctionSet>,
    pub(crate) event: usize,
    pub(crate) by: WeighBy,
    pub(crate) selection: Selection,
    /// Stacks of the event with filtered weights.
    pub(crate) entries: Vec<AggregatedStack>,
    /// Cached sums of all functions without filters.
    everything: Arc<TopFunctions>,
    /// Weight without and with filters.
    pub(crate) all: u64,
    pub(crate) whole: u64,
    pub(crate) samples: u64,
    /// Functions with samples, sorted by name.
    pub(crate) by_name: Vec<TopRow>,
    /// Functions in the order of the view.
    pub(crate) rows: Vec<TopRow>,
}

#[derive(Clone, Debug)]
pub(crate) struct Share {
    pub(crate) label: String,
    pub(crate) filter: Filter,
    pub(crate) weight: u64,
    pub(crate) samples: u64,
}

impl Model {
    pub(crate) fn new(profile: Arc<Profile>, event: usize, by: WeighBy) -> Model {
        let selection = Selection::of(&profile, event);
        let sum = |entries: &[AggregatedStack]| {
            (entries.iter()).fold(0u64, |sum, entry| sum.saturating_add(by.of(entry)))
        };
        let entries = selection.entries();
        let mut model = Model {
            everything: Arc::new(top_functions(&profile, entries, by)),
            all: sum(selection.entries()),
            whole: 0,
            samples: 0,
            by_name: Vec::new(),
            rows: Vec::new(),
            entries: Vec::new(),
            recorded: Arc::clone(&profile),
            profile,
            removed: None,
            event,
            by,
            selection,
        };
        model.filter(&[]);
        model
    }

    /// Applies filters. Returns true if the frames of stacks changed.
    pub(crate) fn filter(&mut self, filters: &[Filter]) -> bool {
        let conditions: Vec<Condition> = conditions(filters).cloned().collect();
        self.entries = self.selection.weigh(&self.recorded, &conditions);
        let removed = removed(filters);
        let has_changed = removed != self.removed;
        if has_changed {
            self.profile = match &removed {
                Some(functions) => Arc::new(self.recorded.without_functions(functions)),
                None => Arc::clone(&self.recorded),
            };
            self.removed = removed;
        }
        let everything = Arc::clone(&self.everything);
        let top = match filters.is_empty() {
            true => everything,
            false => Arc::new(top_functions(&self.profile, &self.entries, self.by)),
        };
        self.whole = top.weight_total;
        self.by_name.clone_from(&top.rows);
        self.rows.clone_from(&top.rows);
        self.samples = self.entries.iter().map(|entry| entry.samples).sum();
        has_changed
    }

    pub(crate) fn names(&self) -> CleanNames<'_> {
        CleanNames::new(&self.profile)
    }

    /// Returns the clean name of a function.
    pub(crate) fn name(&self, function: FunctionId) -> String {
        match self.names().function(function) {
            Some(name) => name.into_owned(),
            None => "[unknown]".to_owned(),
        }
    }

    /// Returns the file name of a function's object; empty for folded text.
    pub(crate) fn object(&self, function: FunctionId) -> String {
        match self.profile.is_folded {
            true => String::new(),
            false => {
                let object = self.profile.function(function).object;
                self.names().object_base(object).into_owned()
            }
        }
    }

    /// Sums up weights by a key of the thread, heaviest first.
    fn shares<K: Ord + Copy>(
        &self,
        key: impl Fn(ThreadId) -> Option<K>,
        made: impl Fn(K) -> (String, Filter),
    ) -> Vec<Share> {
        let mut sums: std::collections::BTreeMap<K, (u64, u64)> = Default::default();
        for entry in self.entries.iter().filter(|entry| entry.samples > 0) {
            if let Some(key) = key(entry.thread) {
                let (weight, samples) = sums.entry(key).or_default();
                *weight = weight.saturating_add(self.by.of(entry));
                *samples += entry.samples;
            }
        }
        let mut shares: Vec<Share> = sums
            .into_iter()
            .map(|(key, (weight, samples))| {
                let (label, filter) = made(key);
                Share {
                    label,
                    filter,
                    weight,
                    samples,
                }
            })
            .collect();
        shares.sort_by_key(|share| std::cmp::Reverse(share.weight));
        shares
    }

    pub(crate) fn threads(&self) -> Vec<Share> {
        let profile = &*self.profile;
        let is_told = |id: ThreadId| profile.thread(id).tid.map(|_| id);
        self.shares(is_told, |id| {
            let thread = profile.thread(id);
            let name = self.names().comm(thread.comm);
            let (pid, tid) = (thread.pid.unwrap_or(-1), thread.tid.unwrap_or(-1));
            (
                format!("{name}  pid {pid}  tid {tid}"),
                Filter::thread(profile, id),
            )
        })
    }

    pub(crate) fn processes(&self) -> Vec<Share> {
        let profile = &*self.profile;
        self.shares(
            |id| profile.thread(id).pid,
            |pid| {
                // Last name of the process, or else of one of its threads.
                let of = profile
                    .threads
                    .iter()
                    .filter(|thread| thread.pid == Some(pid));
                let comm = of
                    .map(|thread| thread.process_comm.unwrap_or(thread.comm))
                    .next();
                let name = comm.map(|comm| self.names().comm(comm).into_owned());
                let name = name.unwrap_or_default();
                (format!("{name}  pid {pid}"), Filter::process(pid))
            },
        )
    }

    pub(crate) fn comms(&self) -> Vec<Share> {
        let profile = &*self.profile;
        self.shares(
            |id| Some(profile.thread(id).comm),
            |comm| {
                let filter = Filter::comm(profile, comm);
                (self.names().comm(comm).into_owned(), filter)
            },
        )
    }

    /// Sums up weights by the object of the leaf function.
    pub(crate) fn objects(&self) -> Vec<Share> {
        let profile = &*self.profile;
        let mut sums: std::collections::BTreeMap<_, (u64, u64)> = Default::default();
        for row in self.rows.iter().filter(|row| row.self_samples > 0) {
            if let Some(object) = row.key.object {
                let (weight, samples) = sums.entry(object).or_default();
                *weight = weight.saturating_add(row.self_weight);
                *samples += row.self_samples;
            }
        }
        let share = |(object, (weight, samples))| Share {
            label: self.names().object(object).into_owned(),
            filter: Filter::object(profile, object),
            weight,
            samples,
        };
        let mut shares: Vec<Share> = sums.into_iter().map(share).collect();
        shares.sort_by_key(|share| std::cmp::Reverse(share.weight));
        shares
    }

    /// Sums up weights by CPU, ignoring CPU filters. Empty if the profile has no single samples.
    pub(crate) fn cpus(&self, filters: &[Filter]) -> Vec<Share> {
        let Some(samples) = &self.profile.samples else {
            return Vec::new();
        };
        let wanted = self.wanted(filters);
        let mut sums: std::collections::BTreeMap<u32, (u64, u64)> = Default::default();
        for (index, weight) in samples.weights().iter().enumerate() {
            if let (true, Some(cpu)) = (wanted(index), samples.cpu(index)) {
                let (sum, count) = sums.entry(cpu).or_default();
                *sum = sum.saturating_add(match self.by {
                    WeighBy::Period => *weight,
                    WeighBy::Samples => 1,
                });
                *count += 1;
            }
        }
        let share = |(cpu, (weight, samples))| Share {
            label: format!("CPU {cpu}"),
            filter: Filter::cpu(cpu),
            weight,
            samples,
        };
        sums.into_iter().map(share).collect()
    }

    /// Counts samples in equal parts of the recording's time, ignoring time filters. Returns `None`
    /// if the profile has no single samples.
    pub(crate) fn histogram(&self, filters: &[Filter], parts: usize) -> Option<Histogram> {
        let samples = self.profile.samples.as_ref()?;
        let times = samples.times();
        let (first, last) = (*times.first()?, *times.last()?);
        // The first wait begins before its sample, possibly before all samples.
        let began = self.profile.time.map_or(first, |(began, _)| began);
        let first = first.min(began);
        let others: Vec<Filter> = (filters.iter())
            .filter(|filter| filter.kind != crate::filters::FilterKind::Time)
            .cloned()
            .collect();
        let wanted = self.wanted(&others);
        let mut counts = vec![0u64; parts.max(1)];
        let histogram = Histogram {
            first,
            last,
            counts: Vec::new(),
        };
        for (index, time) in times.iter().enumerate() {
            if wanted(index) {
                let part = histogram.part_of(*time, counts.len());
                if let Some(count) = counts.get_mut(part) {
                    *count += 1;
                }
            }
        }
        Some(Histogram {
            counts,
            ..histogram
        })
    }

    /// Returns a predicate for filtering single samples by index.
    fn wanted(&self, filters: &[Filter]) -> impl Fn(usize) -> bool + '_ {
        let (of_sample, by_stack): (Vec<Condition>, Vec<Condition>) = conditions(filters)
            .cloned()
            .partition(|c| matches!(c, Condition::Cpu(_) | Condition::Time(..)));
        let weighed = self.selection.weigh(&self.recorded, &by_stack);
        move |index| {
            let Some(samples) = &self.profile.samples else {
                return false;
            };
            let is_there = |condition: &Condition| match condition {
                Condition::Cpu(cpu) => samples.cpu(index) == Some(*cpu),
                Condition::Time(from, to) => samples
                    .times()
                    .get(index)
                    .is_some_and(|t| (from..=to).contains(&t)),
                _ => true,
            };
            let entry = self.selection.entry_of(index);
            let counts = entry
                .and_then(|at| weighed.get(at))
                .is_some_and(|e| e.samples > 0);
            counts && of_sample.iter().all(is_there)
        }
    }
}

/// Sums up the functions of entries with samples, sorted by name.
fn top_functions(profile: &Profile, entries: &[AggregatedStack], by: WeighBy) -> TopFunctions {
    let entries = entries.iter().filter(|entry| entry.samples > 0);
    TopFunctions::of_entries(profile, entries, by, Keys::FUNCTIONS)
}

fn conditions(filters: &[Filter]) -> impl Iterator<Item = &Condition> {
    filters.iter().filter_map(Filter::condition)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Histogram {
    /// Begin of the first sample or wait, and time of the last sample, in nanoseconds.
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) counts: Vec<u64>,
}

impl Histogram {
    fn part_of(&self, time: u64, parts: usize) -> usize {
        let span = u128::from(self.last - self.first) + 1;
        let since = u128::from(time.saturating_sub(self.first));
        (since * parts as u128 / span) as usize
    }

    /// Returns the first and the last nanosecond of a part.
    pub(crate) fn times_of(&self, part: usize) -> (u64, u64) {
        let span = u128::from(self.last - self.first) + 1;
        let parts = self.counts.len().max(1) as u128;
        let begin = |part: u128| (part * span).div_ceil(parts) as u64;
        let (from, to) = (begin(part as u128), begin(part as u128 + 1));
        (
            self.first + from,
            self.first + to.saturating_sub(1).max(from),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_lies_in_the_part_that_has_it() {
        for (first, last, parts) in [(5, 5, 3), (0, 9, 3), (100, 163, 10), (0, 6, 20)] {
            let histogram = Histogram {
                first,
                last,
                counts: vec![0; parts],
            };
            for time in first..=last {
                let part = histogram.part_of(time, parts);
                let (from, to) = histogram.times_of(part);
                assert!((from..=to).contains(&time), "{time} in {from}..={to}");
            }
        }
    }
}

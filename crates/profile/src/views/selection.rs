//! [`Selection`]: an event's stacks, reweighted under conditions.

use std::sync::Arc;

use rustc_hash::FxHashMap;

pub use crate::frame::FunctionSet;
use crate::frame::{FunctionId, ObjectId};
use crate::model::Profile;
use crate::samples::{AggregatedStack, ThreadId};
use crate::stacks::FrameListId;

/// Condition on samples.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Condition {
    /// Process id.
    Process(i32),
    /// Thread of the sample.
    Thread(ThreadId),
    /// Thread name: an index into [`Profile::comms`].
    Comm(u32),
    /// Object of the leaf function.
    Object(ObjectId),
    /// CPU number. Requires single samples.
    Cpu(u32),
    /// First and last time, inclusive, in nanoseconds of the recording's clock. Requires single
    /// samples.
    Time(u64, u64),
    /// The stack contains any of these functions.
    With(FunctionSet),
    /// The stack contains none of these functions.
    Without(FunctionSet),
}

/// Stacks of one event, reweighted when conditions change.
///
/// Conditions change weights instead of hiding stacks, so shares refer to accepted samples.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    event: usize,
    entries: Vec<AggregatedStack>,
    /// Entry of each sample in [`Profile::samples`]; `NO_ENTRY` for other events.
    of_sample: Option<Vec<u32>>,
}

const NO_ENTRY: u32 = u32::MAX;

impl Selection {
    /// Selects all stacks of an event.
    pub fn of(profile: &Profile, event: usize) -> Selection {
        let entries: Vec<AggregatedStack> = (profile.aggregated.iter())
            .filter(|entry| entry.event == event)
            .copied()
            .collect();
        let of_sample = profile.samples.as_ref().map(|samples| {
            let keys = (0u32..).zip(&entries);
            let known: FxHashMap<_, u32> = keys
                .map(|(index, entry)| ((entry.thread, entry.stack), index))
                .collect();
            let entry_of = |sample: crate::ProfileSample| match sample.event == event {
                true => known.get(&(sample.thread, sample.stack)).copied(),
                false => None,
            };
            let found = samples
                .iter()
                .map(|sample| entry_of(sample).unwrap_or(NO_ENTRY));
            found.collect()
        });
        Selection {
            event,
            entries,
            of_sample,
        }
    }

    /// Returns the index of the event in [`Profile::events`].
    pub fn event(&self) -> usize {
        self.event
    }

    /// Stacks with unconditional weights.
    pub fn entries(&self) -> &[AggregatedStack] {
        &self.entries
    }

    /// Returns the index of a sample's stack, for samples of the event.
    pub fn entry_of(&self, sample: usize) -> Option<usize> {
        let entry = *self.of_sample.as_ref()?.get(sample)?;
        (entry != NO_ENTRY).then_some(entry as usize)
    }

    /// Returns true if conditions on time and CPU work, because the profile has single samples.
    pub fn has_samples(&self) -> bool {
        self.of_sample.is_some()
    }

    /// Returns all stacks with the weights of samples that meet all conditions. Without single
    /// samples, none meets a condition on time or CPU.
    ///
    /// Makes one pass over the stacks, and one over the samples for time or CPU.
    pub fn weigh(&self, profile: &Profile, conditions: &[Condition]) -> Vec<AggregatedStack> {
        let mut entries = self.weighed_by_sample(profile, conditions);
        let by_stack = StackMatcher::of(profile, conditions);
        let is_wanted = |entry: &AggregatedStack, matcher: &mut StackMatcher<'_>| {
            let thread = profile.thread(entry.thread);
            let is_of = |condition: &Condition| match condition {
                Condition::Process(pid) => thread.pid == Some(*pid),
                Condition::Thread(id) => entry.thread == *id,
                Condition::Comm(comm) => thread.comm == *comm,
                Condition::Object(object) => profile
                    .stack(entry.stack)
                    .next_back()
                    .is_some_and(|leaf| profile.function(leaf).object == *object),
                Condition::Cpu(_) | Condition::Time(..) => true,
                Condition::With(_) | Condition::Without(_) => true,
            };
            conditions.iter().all(is_of) && matcher.accepts(entry)
        };
        let mut by_stack = by_stack;
        for entry in &mut entries {
            if entry.samples > 0 && !is_wanted(entry, &mut by_stack) {
                (entry.samples, entry.weight) = (0, 0);
            }
        }
        entries
    }

    /// Returns the total weight, in the unit of `by`, of stacks with any of these functions.
    pub fn weight_with(
        profile: &Profile,
        entries: &[AggregatedStack],
        by: crate::WeighBy,
        functions: &FunctionSet,
    ) -> u64 {
        let wanted = [Condition::With(Arc::clone(functions))];
        let mut matcher = StackMatcher::of(profile, &wanted);
        let matched = (entries.iter()).filter(|entry| by.of(entry) > 0 && matcher.accepts(entry));
        matched.fold(0, |sum, entry| sum.saturating_add(by.of(entry)))
    }

    fn weighed_by_sample(
        &self,
        profile: &Profile,
        conditions: &[Condition],
    ) -> Vec<AggregatedStack> {
        let is_by_sample =
            |condition: &Condition| matches!(condition, Condition::Cpu(_) | Condition::Time(..));
        let mut entries = self.entries.clone();
        if !conditions.iter().any(is_by_sample) {
            return entries;
        }
        for entry in &mut entries {
            (entry.samples, entry.weight) = (0, 0);
        }
        let (Some(of_sample), Some(samples)) = (&self.of_sample, &profile.samples) else {
            return entries;
        };
        let times = samples.times();
        let (mut first, mut end) = (0, times.len());
        for condition in conditions {
            if let Condition::Time(from, to) = condition {
                first = first.max(times.partition_point(|time| time < from));
                end = end.min(times.partition_point(|time| time <= to));
            }
        }
        for index in first..end.max(first) {
            let is_there = |condition: &Condition| match condition {
                Condition::Cpu(cpu) => samples.cpu(index) == Some(*cpu),
                _ => true,
            };
            let entry = of_sample
                .get(index)
                .and_then(|at| entries.get_mut(*at as usize));
            if let (Some(entry), true) = (entry, conditions.iter().all(is_there)) {
                entry.samples += 1;
                let weight = samples.weights().get(index).copied().unwrap_or(0);
                entry.weight = entry.weight.saturating_add(weight);
            }
        }
        entries
    }
}

/// Maximum number of cached function sets: a bit for each, and one for [`NOT_KNOWN`].
const MAX_CACHED: usize = 63;

/// Marks unexamined callers. Sets have fewer bits.
const NOT_KNOWN: u64 = u64::MAX;

struct StackMatcher<'p> {
    profile: &'p Profile,
    /// Function sets, and whether a stack must contain one.
    sets: Vec<(&'p [bool], bool)>,
    /// Function sets beyond [`MAX_CACHED`], looked up without the cache.
    more: Vec<(&'p [bool], bool)>,
    /// By caller list: a bit per matching set, or `NOT_KNOWN`.
    of_callers: Vec<u64>,
}

impl<'p> StackMatcher<'p> {
    fn of(profile: &'p Profile, conditions: &'p [Condition]) -> StackMatcher<'p> {
        let set = |condition: &'p Condition| match condition {
            Condition::With(set) => Some((&**set, true)),
            Condition::Without(set) => Some((&**set, false)),
            _ => None,
        };
        let mut sets: Vec<_> = conditions.iter().filter_map(set).collect();
        let more = sets.split_off(sets.len().min(MAX_CACHED));
        let lists = match sets.is_empty() {
            true => 0,
            false => profile.stacks.list_count(),
        };
        StackMatcher {
            profile,
            sets,
            more,
            of_callers: vec![NOT_KNOWN; lists],
        }
    }

    fn accepts(&mut self, entry: &AggregatedStack) -> bool {
        if self.sets.is_empty() {
            return true;
        }
        let (outer, inner) = self.profile.stacks.lists(entry.stack);
        let (sets, profile) = (&self.sets, self.profile);
        let all = (1u64 << sets.len()) - 1;
        let bits = |list: FrameListId, mut bits: u64| {
            for function in profile.functions_of(list) {
                if bits == all {
                    break;
                }
                for (bit, (set, _)) in sets.iter().enumerate() {
                    let has = set.get(function.0 as usize).copied().unwrap_or(false);
                    bits |= u64::from(has) << bit;
                }
            }
            bits
        };
        let of_callers = &mut self.of_callers[outer.0 as usize];
        if *of_callers == NOT_KNOWN {
            *of_callers = bits(outer, 0);
        }
        let found = bits(inner, *of_callers);
        let mut wanted = self.sets.iter().enumerate();
        if !wanted.all(|(bit, (_, has_to))| (found >> bit & 1 == 1) == *has_to) {
            return false;
        }
        self.more.iter().all(|(set, has_to)| {
            let mut functions = profile
                .functions_of(outer)
                .chain(profile.functions_of(inner));
            let is_in = |id: FunctionId| set.get(id.0 as usize).copied().unwrap_or(false);
            functions.any(is_in) == *has_to
        })
    }
}

/// Returns the functions that a predicate accepts.
pub fn functions_where(
    profile: &Profile,
    mut is_in: impl FnMut(FunctionId) -> bool,
) -> FunctionSet {
    (0..profile.functions.len() as u32)
        .map(|id| is_in(FunctionId(id)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProfileBuilder, ProfileSample, Thread, WeighBy, WeightUnit};

    /// Samples of weight 10 at times 0 to 9: f0 -> f1 and f0 -> f2, two processes, two CPUs.
    fn profile() -> Profile {
        let mut builder = ProfileBuilder::new().columns(true);
        let other = builder.add_event("other", WeightUnit::Events);
        let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
        let objects = ["a", "b"].map(|name| builder.intern_object(name));
        let root = builder.intern_function(Ok("f0"), objects[0]);
        let leaves = [("f1", 0), ("f2", 1)]
            .map(|(name, object)| builder.intern_function(Ok(name), objects[object]));
        let comm = builder.intern_comm("t");
        let threads = [1, 2].map(|pid| {
            builder.intern_thread(Thread {
                pid: Some(pid),
                tid: Some(pid),
                comm,
                process_comm: None,
                request: None,
            })
        });
        for time in 0..10 {
            let leaf = leaves[usize::from(time % 3 == 0)];
            let stack = builder.intern_stack(&[root, leaf]);
            builder.add_sample(ProfileSample {
                time,
                cpu: Some((time % 2) as u32),
                thread: threads[usize::from(time >= 5)],
                stack,
                event: if time == 4 { other } else { event },
                weight: 10,
            });
        }
        builder.finish()
    }

    #[test]
    fn conditions_weigh_again() {
        let profile = profile();
        let selection = Selection::of(&profile, 1);
        let samples = |conditions: &[Condition]| {
            let entries = selection.weigh(&profile, conditions);
            assert_eq!(entries.len(), selection.entries().len());
            let samples: u64 = entries.iter().map(|entry| entry.samples).sum();
            let weight: u64 = entries.iter().map(|entry| entry.weight).sum();
            assert_eq!(weight, samples * 10);
            samples
        };
        let named = |name: &str| {
            functions_where(&profile, |id| {
                profile.function(id).name.as_deref() == Ok(name)
            })
        };
        assert_eq!(samples(&[]), 9);
        assert_eq!(samples(&[Condition::Process(1)]), 4);
        assert_eq!(samples(&[Condition::Thread(ThreadId(1))]), 5);
        assert_eq!(samples(&[Condition::Comm(0)]), 9);
        assert_eq!(samples(&[Condition::Object(ObjectId(1))]), 4);
        assert_eq!(samples(&[Condition::Cpu(0)]), 4);
        assert_eq!(samples(&[Condition::Time(2, 6)]), 4);
        assert_eq!(samples(&[Condition::Time(2, 6), Condition::Cpu(0)]), 2);
        assert_eq!(samples(&[Condition::Time(6, 2)]), 0);
        assert_eq!(samples(&[Condition::With(named("f2"))]), 4);
        assert_eq!(samples(&[Condition::With(named("f0"))]), 9);
        assert_eq!(
            samples(&[Condition::Without(named("f2")), Condition::Cpu(1)]),
            3
        );
        let mut many = vec![Condition::With(named("f0")); MAX_CACHED + 7];
        assert_eq!(samples(&many), 9);
        many.push(Condition::With(named("f2")));
        assert_eq!(samples(&many), 4);
        many.push(Condition::Without(named("f2")));
        assert_eq!(samples(&many), 0);
        let all = selection.weigh(&profile, &[]);
        let with = Selection::weight_with(&profile, &all, WeighBy::Period, &named("f2"));
        assert_eq!(with, 40);
    }
}

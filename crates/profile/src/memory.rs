//! Events of a recording with `--memory` or `--alloc`, and how much they explain.

use rustc_hash::FxHashMap;

pub use crate::event_names::{
    ALLOCATED, ALLOCATED_OBJECTS, GROWTH, HEAP, HEAP_OBJECTS, HEAP_PEAK, PEAK, RELEASE, RESIDENT,
    TOUCHED, is_of_memory, is_of_memory_over_time, sums_memory,
};
use crate::model::Profile;
use crate::samples::{AggregatedStack, ProfileSample, SampleColumns};
pub use rprof_memory::{Coverage, FIRST_FRAMES, FRAME_PREFIX, RESIDENT_BEFORE, Requests};

/// Object of the frames for memory: kinds of mappings, and memory without a stack.
pub const MEMORY_OBJECT: &str = "[memory]";

impl Profile {
    /// Returns the index of the event of memory at the end: [`RESIDENT`] or [`HEAP`].
    pub fn memory_at_end(&self) -> Option<usize> {
        self.event_named(RESIDENT)
            .or_else(|| self.event_named(HEAP))
    }

    fn event_named(&self, name: &str) -> Option<usize> {
        self.events.iter().position(|event| event.name == name)
    }

    /// Sums up memory over time: gained bytes minus released bytes of the same stack. The
    /// difference belongs to the event of [memory at the end](Self::memory_at_end), whose own
    /// samples must be absent. A stack that released more has nothing.
    ///
    /// Columns keep single changes: gains belong to that event, releases to [`RELEASE`]. Streams
    /// are dropped.
    ///
    /// # Examples
    /// ```
    /// use rprof_profile::memory::{GROWTH, RELEASE, RESIDENT};
    /// use rprof_profile::{ProfileBuilder, WeightUnit};
    ///
    /// let mut builder = ProfileBuilder::new();
    /// let [end, growth, release] =
    ///     [RESIDENT, GROWTH, RELEASE].map(|name| builder.add_event(name, WeightUnit::Bytes));
    /// let object = builder.intern_object("cache");
    /// let function = builder.intern_function(Ok("fill"), object);
    /// let (stack, thread) = (builder.intern_stack(&[function]), builder.intern_thread_name("a"));
    /// builder.add_samples(growth, thread, stack, 1, 4096);
    /// builder.add_samples(release, thread, stack, 1, 1024);
    /// let mut profile = builder.finish();
    /// profile.settle_memory();
    /// assert_eq!(profile.events[end].weight, 3072);
    /// assert_eq!(profile.aggregated.len(), 1);
    /// ```
    pub fn settle_memory(&mut self) {
        let growth = self.event_named(GROWTH);
        let (Some(end), Some(growth)) = (self.memory_at_end(), growth) else {
            return;
        };
        let release = self.event_named(RELEASE);
        let aggregated = std::mem::take(&mut self.aggregated);
        // Equal stacks may have several ids.
        let stacks = &self.stacks;
        let key = |entry: &AggregatedStack| (entry.thread, stacks.lists(entry.stack));
        let mut released: FxHashMap<_, u64> = FxHashMap::default();
        for entry in &aggregated {
            if Some(entry.event) == release {
                let sum = released.entry(key(entry)).or_default();
                *sum = sum.saturating_add(entry.weight);
            }
        }
        for entry in aggregated {
            if Some(entry.event) == release {
                continue;
            }
            if entry.event != growth {
                self.aggregated.push(entry);
                continue;
            }
            let left = released.get_mut(&key(&entry));
            let taken = left.map_or(0, |left| {
                let taken = entry.weight.min(*left);
                *left -= taken;
                taken
            });
            if entry.weight > taken {
                self.aggregated.push(AggregatedStack {
                    event: end,
                    weight: entry.weight - taken,
                    ..entry
                });
            }
        }
        for (index, event) in self.events.iter_mut().enumerate() {
            if index == end || index == growth || Some(index) == release {
                (event.samples, event.weight) = (0, 0);
            }
        }
        for entry in self.aggregated.iter().filter(|entry| entry.event == end) {
            let event = &mut self.events[end];
            event.samples += entry.samples;
            event.weight = event.weight.saturating_add(entry.weight);
        }
        self.streams = None;
        if let Some(columns) = &mut self.samples {
            columns.move_event(growth, end);
        }
    }

    /// Replaces the columns of settled memory by one sample for each stack, at one time in
    /// nanoseconds.
    pub fn memory_as_of(&mut self, time: u64) {
        if self.samples.take().is_none() {
            return;
        }
        let mut columns = SampleColumns::default();
        for entry in &self.aggregated {
            columns.push(ProfileSample {
                time,
                cpu: None,
                thread: entry.thread,
                stack: entry.stack,
                event: entry.event,
                weight: entry.weight,
            });
        }
        self.samples = Some(columns);
    }
}

#[cfg(test)]
mod tests {
    use crate::{ProfileBuilder, WeightUnit};

    use super::*;

    #[test]
    fn released_memory_is_gone_by_thread_and_stack() {
        let mut builder = ProfileBuilder::new();
        let names = [HEAP, HEAP_PEAK, GROWTH, RELEASE];
        let [end, peak, growth, release] =
            names.map(|name| builder.add_event(name, WeightUnit::Bytes));
        let object = builder.intern_object("x");
        let [a, b] = ["a", "b"].map(|name| {
            let function = builder.intern_function(Ok(name), object);
            builder.intern_stack(&[function])
        });
        let list = builder.intern_frame_list(&[0]);
        let none = builder.intern_frame_list(&[]);
        let [grown, gone] = [(); 2].map(|()| builder.push_stack(list, none));
        assert_ne!(grown, gone);
        let [one, two] = ["one", "two"].map(|name| builder.intern_thread_name(name));
        for (event, thread, stack, bytes) in [
            (growth, one, a, 100),
            (growth, two, a, 70),
            (growth, one, b, 50),
            (release, one, a, 30),
            (release, two, a, 90),
            (peak, one, b, 7),
            (growth, two, grown, 9),
            (release, two, gone, 9),
        ] {
            builder.add_samples(event, thread, stack, 1, bytes);
        }
        let mut profile = builder.finish();
        profile.settle_memory();
        let mut left: Vec<_> = (profile.aggregated.iter())
            .map(|entry| (entry.event, entry.thread, entry.stack, entry.weight))
            .collect();
        left.sort_unstable();
        let expected = [(end, one, a, 70), (end, one, b, 50), (peak, one, b, 7)];
        assert_eq!(left, expected);
        let weights: Vec<u64> = profile.events.iter().map(|event| event.weight).collect();
        assert_eq!(weights, [120, 7, 0, 0]);
        assert_eq!(profile.main_event(), Some(end));
    }
}

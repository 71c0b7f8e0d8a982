//! Sample counts by stack: since the start, and in the last intervals. Memory is bounded.

use std::collections::VecDeque;

use rprof_profile::intern::{Lists, Values};
use rustc_hash::FxHashMap;

use crate::location::Location;
use crate::stack_end::StackEnd;

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Maximum number of distinct stacks, by event and thread name.
    pub(super) groups: usize,
    /// Maximum number of locations in all distinct stacks.
    pub(super) frames: usize,
    pub(super) locations: usize,
    pub(super) names: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            groups: 200_000,
            frames: 16 << 20,
            locations: 1 << 20,
            names: 1 << 16,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Group {
    pub(super) event: u32,
    pub(super) name: u32,
    pub(super) stack: u32,
    pub(super) end: StackEnd,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) samples: u64,
    pub(super) weight: u64,
}

impl Count {
    pub(super) fn add(&mut self, more: Count) {
        self.samples = self.samples.saturating_add(more.samples);
        self.weight = self.weight.saturating_add(more.weight);
    }
}

/// Times of the first and the last sample.
pub(super) type TimeRange = Option<(u64, u64)>;

#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// By group id, ascending.
    pub(super) counts: Vec<(u32, Count)>,
    pub(super) time: TimeRange,
}

#[derive(Debug, Default)]
struct Interval {
    counts: FxHashMap<u32, Count>,
    time: TimeRange,
}

#[derive(Debug)]
pub(super) struct Counts {
    bounds: Bounds,
    pub(super) names: Values<String>,
    pub(super) locations: Values<Location>,
    /// Locations, leaf first.
    pub(super) stacks: Lists<u32>,
    pub(super) groups: Values<Group>,
    /// Counts since the start, by group id.
    whole: Vec<Count>,
    time: TimeRange,
    /// Interval of the last sample, by group id.
    last_seen: Vec<u64>,
    /// The last intervals; the current one is at the back.
    intervals: VecDeque<Interval>,
    interval: u64,
    /// Samples of stacks dropped for lack of memory.
    pub(super) forgotten: u64,
    /// Version of the ids of groups and stacks.
    pub(super) numbering: u64,
    /// Version of the ids of locations and names.
    pub(super) generation: u64,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts::bounded(Bounds::default())
    }
}

impl Counts {
    pub(super) fn bounded(bounds: Bounds) -> Counts {
        Counts {
            bounds,
            names: Values::default(),
            locations: Values::default(),
            stacks: Lists::default(),
            groups: Values::default(),
            whole: Vec::new(),
            time: None,
            last_seen: Vec::new(),
            intervals: VecDeque::from([Interval::default()]),
            interval: 0,
            forgotten: 0,
            numbering: 0,
            generation: 0,
        }
    }

    /// Makes room for one sample. May invalidate earlier ids.
    pub(super) fn make_room(&mut self) {
        let Bounds {
            groups,
            frames,
            locations,
            names,
        } = self.bounds;
        if self.locations.as_slice().len() >= locations || self.names.as_slice().len() >= names {
            self.begin_anew();
        } else if self.groups.as_slice().len() >= groups || self.stacks.item_count() >= frames {
            self.forget_oldest();
        }
    }

    pub(super) fn add(&mut self, group: Group, weight: u64, time: Option<u64>) {
        let id = self.groups.intern(group);
        let at = id as usize;
        if self.whole.len() <= at {
            self.whole.resize(at + 1, Count::default());
            self.last_seen.resize(at + 1, 0);
        }
        let one = Count { samples: 1, weight };
        self.whole[at].add(one);
        self.last_seen[at] = self.interval;
        extend(&mut self.time, time);
        if let Some(interval) = self.intervals.back_mut() {
            interval.counts.entry(id).or_default().add(one);
            extend(&mut interval.time, time);
        }
    }

    /// Starts an interval, and keeps the last `most`.
    pub(super) fn next_interval(&mut self, most: usize) {
        self.interval += 1;
        self.intervals.push_back(Interval::default());
        while self.intervals.len() > most.max(1) {
            self.intervals.pop_front();
        }
    }

    /// Resets all counts, but keeps names, locations and stacks.
    pub(super) fn zero(&mut self) {
        self.whole.fill(Count::default());
        self.intervals = VecDeque::from([Interval::default()]);
        (self.time, self.forgotten) = (None, 0);
    }

    pub(super) fn since_start(&self) -> Tally {
        let counts = (0..).zip(self.whole.iter().copied());
        Tally {
            counts: counts.filter(|(_, count)| count.samples > 0).collect(),
            time: self.time,
        }
    }

    pub(super) fn window(&self) -> Tally {
        let mut sums: FxHashMap<u32, Count> = FxHashMap::default();
        let mut time = None;
        for interval in &self.intervals {
            for (id, count) in &interval.counts {
                sums.entry(*id).or_default().add(*count);
            }
            if let Some((first, last)) = interval.time {
                extend(&mut time, Some(first));
                extend(&mut time, Some(last));
            }
        }
        let mut counts: Vec<(u32, Count)> = sums.into_iter().collect();
        counts.sort_unstable_by_key(|(id, _)| *id);
        Tally { counts, time }
    }

    /// Drops the half of the stacks whose last sample is oldest.
    fn forget_oldest(&mut self) {
        let mut ids: Vec<u32> = (0..self.whole.len() as u32).collect();
        ids.sort_by_key(|id| std::cmp::Reverse((self.last_seen[*id as usize], *id)));
        let mut frames = 0;
        let stack_of = |id: &u32| self.stacks.get(self.groups.get(*id).stack);
        let kept = ids.iter().take(self.bounds.groups / 2).take_while(|id| {
            frames += stack_of(id).len();
            frames <= self.bounds.frames / 2
        });
        let mut kept: Vec<u32> = kept.copied().collect();
        kept.sort_unstable();
        let old = std::mem::replace(self, Counts::bounded(self.bounds));
        let gone: u64 = old.whole.iter().map(|count| count.samples).sum();
        let mut new_ids = FxHashMap::default();
        for id in kept {
            let group = *old.groups.get(id);
            let stack = self.stacks.intern(old.stacks.get(group.stack)).0;
            let new = self.groups.intern(Group { stack, ..group });
            new_ids.insert(id, new);
            self.whole.push(old.whole[id as usize]);
            self.last_seen.push(old.last_seen[id as usize]);
        }
        let still: u64 = self.whole.iter().map(|count| count.samples).sum();
        let renumber = |interval: Interval| Interval {
            counts: (interval.counts.into_iter())
                .filter_map(|(id, count)| Some((*new_ids.get(&id)?, count)))
                .collect(),
            time: interval.time,
        };
        self.intervals = old.intervals.into_iter().map(renumber).collect();
        (self.names, self.locations) = (old.names, old.locations);
        (self.interval, self.time) = (old.interval, old.time);
        self.forgotten = old.forgotten.saturating_add(gone - still);
        (self.numbering, self.generation) = (old.numbering + 1, old.generation);
    }

    fn begin_anew(&mut self) {
        let old = std::mem::replace(self, Counts::bounded(self.bounds));
        let gone: u64 = old.whole.iter().map(|count| count.samples).sum();
        self.forgotten = old.forgotten.saturating_add(gone);
        self.interval = old.interval;
        (self.numbering, self.generation) = (old.numbering + 1, old.generation + 1);
    }
}

fn extend(range: &mut TimeRange, time: Option<u64>) {
    if let Some(time) = time {
        let (first, last) = range.unwrap_or((time, time));
        *range = Some((first.min(time), last.max(time)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::CodeRegion;

    fn counts(groups: usize, locations: usize) -> Counts {
        Counts::bounded(Bounds {
            groups,
            locations,
            ..Bounds::default()
        })
    }

    fn sample(counts: &mut Counts, address: u64) {
        counts.make_room();
        let location = counts.locations.intern(Location {
            region: CodeRegion::Unmapped,
            lookup: address,
            caller: false,
        });
        let group = Group {
            event: 0,
            name: counts.names.intern("app".to_owned()),
            stack: counts.stacks.intern(&[location]).0,
            end: StackEnd::Unknown,
        };
        counts.add(group, 10, Some(address));
    }

    fn of(counts: &Counts, tally: &Tally) -> Vec<(u64, u64)> {
        let address = |id: u32| {
            let stack = counts.stacks.get(counts.groups.get(id).stack);
            counts.locations.get(stack[0]).lookup
        };
        let counts = tally.counts.iter();
        let mut list: Vec<_> = counts.map(|(id, c)| (address(*id), c.samples)).collect();
        list.sort_unstable();
        list
    }

    #[test]
    fn a_window_has_the_last_intervals() {
        let mut counts = counts(100, 100);
        for address in [1, 1, 2] {
            sample(&mut counts, address);
        }
        counts.next_interval(2);
        sample(&mut counts, 2);
        assert_eq!(of(&counts, &counts.window()), [(1, 2), (2, 2)]);
        counts.next_interval(2);
        sample(&mut counts, 3);
        assert_eq!(of(&counts, &counts.window()), [(2, 1), (3, 1)]);
        assert_eq!(counts.window().time, Some((2, 3)));
        let whole = counts.since_start();
        assert_eq!(of(&counts, &whole), [(1, 2), (2, 2), (3, 1)]);
        counts.zero();
        assert!(counts.window().counts.is_empty() && counts.since_start().counts.is_empty());
        sample(&mut counts, 3);
        assert_eq!(of(&counts, &counts.since_start()), [(3, 1)]);
    }

    #[test]
    fn stacks_beyond_the_bound_are_forgotten_the_oldest_first() {
        let mut counts = counts(10, 1000);
        for interval in 0..20 {
            for address in 0..4 {
                sample(&mut counts, interval * 4 + address);
            }
            let there: u64 = of(&counts, &counts.since_start()).iter().map(|s| s.1).sum();
            assert_eq!(there + counts.forgotten, (interval + 1) * 4);
            assert!(counts.groups.as_slice().len() <= 10);
            let window = of(&counts, &counts.window());
            for address in 0..4 {
                assert!(window.contains(&(interval * 4 + address, 1)), "{window:?}");
            }
            counts.next_interval(2);
        }
        assert!(counts.forgotten > 50 && counts.numbering > 5 && counts.generation == 0);
    }

    #[test]
    fn locations_beyond_the_bound_begin_everything_anew() {
        let mut counts = counts(1000, 8);
        for address in 0..30 {
            sample(&mut counts, address);
            assert!(counts.locations.as_slice().len() <= 8);
        }
        let there: u64 = of(&counts, &counts.since_start()).iter().map(|s| s.1).sum();
        assert_eq!(there + counts.forgotten, 30);
        assert_eq!(counts.generation, 3);
    }
}

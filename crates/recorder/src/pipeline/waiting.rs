//! [`WaitingRecords`]: records of all CPUs that are not in order yet, by their time.
//!
//! While one CPU says nothing, records of all others wait: of 256 CPUs 25,000 in 100 ms. Each release concerns a few of them,
//! and is not to cost more because others wait. So they lie in buckets of a millisecond, and only those of a release
//! are sorted.

use std::collections::VecDeque;

/// Length of a bucket, as a power of two of nanoseconds.
const BUCKET: u32 = 20;

/// Most buckets: 4 s. What is later waits in the last one.
const MOST_BUCKETS: usize = 4096;

/// Most empty buckets that are kept.
const MOST_SPARE: usize = 256;

/// A record that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingRecord {
    /// Time, then sideband before samples, then CPU, then the order in which they came.
    pub(super) key: Key,
    /// Number of its batch.
    pub(super) batch: usize,
    /// Offset in the batch, and length.
    pub(super) start: u32,
    pub(super) len: u16,
}

/// Place of a record in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) time: u64,
    /// Flag of samples, CPU, number: 1, 23 and 40 bits.
    rest: u64,
}

impl Key {
    pub(super) fn new(time: u64, is_sample: bool, cpu: u32, number: u64) -> Key {
        // CPUs of the kernel have 13 bits; the highest number stands for none.
        let cpu = u64::from(cpu.min((1 << 23) - 1));
        let rest = u64::from(is_sample) << 63 | cpu << 40 | (number & ((1 << 40) - 1));
        Key { time, rest }
    }
}

/// Records in buckets of time.
#[derive(Debug, Default)]
pub(super) struct WaitingRecords {
    /// Number of the first bucket: its time, shifted.
    first: u64,
    buckets: VecDeque<Vec<WaitingRecord>>,
    /// Buckets that were emptied, to be filled again.
    spare: Vec<Vec<WaitingRecord>>,
    /// Records of a release.
    ready: Vec<WaitingRecord>,
}

impl WaitingRecords {
    /// Adds a record.
    pub(super) fn push(&mut self, record: WaitingRecord) {
        let number = record.key.time >> BUCKET;
        if self.buckets.is_empty() {
            self.first = number;
        }
        // One that is older than all others goes out with them.
        let place = usize::try_from(number.saturating_sub(self.first)).unwrap_or(MOST_BUCKETS);
        let place = place.min(MOST_BUCKETS - 1);
        while self.buckets.len() <= place {
            self.buckets.push_back(self.spare.pop().unwrap_or_default());
        }
        if let Some(bucket) = self.buckets.get_mut(place) {
            bucket.push(record);
        }
    }

    /// Returns the latest time of all.
    pub(super) fn newest(&self) -> Option<u64> {
        let all = self.buckets.iter().flatten();
        all.map(|record| record.key.time).max()
    }

    /// Takes out, in order, all records before the time `bound`; all there are where that is [`u64::MAX`].
    pub(super) fn take_before(&mut self, bound: u64) -> &[WaitingRecord] {
        self.ready.clear();
        let is_due = |record: &WaitingRecord| record.key.time < bound || bound == u64::MAX;
        let mut passed = 0;
        for (place, bucket) in (0u64..).zip(&mut self.buckets) {
            let begin = self.first.saturating_add(place);
            // What is older than the first bucket lies there.
            if place > 0 && begin > bound >> BUCKET {
                break;
            }
            self.ready
                .extend(bucket.extract_if(.., |record| is_due(record)));
            passed += usize::from(bucket.is_empty() && passed as u64 == place);
        }
        for bucket in self.buckets.drain(..passed) {
            self.spare.push(bucket);
            self.first = self.first.saturating_add(1);
        }
        self.spare.truncate(MOST_SPARE);
        if let [Some(only), None] = [self.buckets.front(), self.buckets.get(1)] {
            // It may be the last one, with all that was too late for a bucket of its own.
            let oldest = only.iter().map(|record| record.key.time).min();
            self.first = oldest.map_or(self.first, |time| time >> BUCKET);
        }
        // They come in runs that are in order, which makes this nearly linear.
        self.ready.sort_by_key(|record| record.key);
        &self.ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(time: u64, number: u64) -> WaitingRecord {
        WaitingRecord {
            key: Key::new(time, true, 0, number),
            batch: 0,
            start: 0,
            len: 8,
        }
    }

    proptest! {
        /// Whatever the times are, and whenever some are taken: these are all that are due, in order.
        #[test]
        fn what_is_due_comes_out_in_order(
            times in proptest::collection::vec(
                (prop_oneof![0u64..50_000_000, Just(0), any::<u64>()], any::<bool>()), 0..200),
            bounds in proptest::collection::vec(prop_oneof![0u64..60_000_000, any::<u64>()], 200),
        ) {
            let mut waiting = WaitingRecords::default();
            let mut expected: Vec<u64> = Vec::new();
            for (number, ((time, takes), bound)) in (0..).zip(times.iter().zip(bounds)) {
                waiting.push(record(*time, number));
                expected.push(*time);
                prop_assert_eq!(waiting.newest(), expected.iter().copied().max());
                if *takes {
                    let taken: Vec<u64> = waiting.take_before(bound).iter().map(|r| r.key.time).collect();
                    let mut due: Vec<u64> = expected.extract_if(.., |t| *t < bound || bound == u64::MAX).collect();
                    due.sort_unstable();
                    prop_assert_eq!(taken, due);
                }
            }
            let rest = waiting.take_before(u64::MAX).len();
            prop_assert_eq!(rest, expected.len());
            prop_assert_eq!(waiting.take_before(u64::MAX).len(), 0);
        }
    }

    #[test]
    fn sideband_goes_before_samples_of_its_time_and_cpus_by_their_number() {
        let keys = [
            Key::new(7, false, u32::MAX, 9),
            Key::new(7, true, 0, 8),
            Key::new(7, true, 1, 0),
            Key::new(7, true, 1, 7),
            Key::new(8, false, 0, 1),
        ];
        assert!(keys.is_sorted());
    }
}

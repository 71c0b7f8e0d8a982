//! [`WaitingRecords`]: queues of records that are not yet merged.
//!
//! While one CPU sends nothing, all others' records wait: on 256 CPUs 25,000 in 100 ms. A release
//! concerns only a few, and must not cost more for the rest. Each ring's records arrive sorted, so
//! each ring has a queue. A release takes the due records from the front of each, and merges these
//! sorted runs in nearly linear time.

use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingRecord {
    /// Sort key: time, then sideband before samples, then CPU, then arrival.
    pub(super) key: Key,
    pub(super) batch: usize,
    pub(super) start: u32,
    pub(super) len: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) time: u64,
    /// Sample flag, CPU and number: 1, 23 and 40 bits.
    rest: u64,
}

impl Key {
    pub(super) fn new(time: u64, is_sample: bool, cpu: u32, number: u64) -> Key {
        // The kernel's CPU numbers have 13 bits; the highest value stands for no CPU.
        let cpu = u64::from(cpu.min((1 << 23) - 1));
        let rest = u64::from(is_sample) << 63 | cpu << 40 | (number & ((1 << 40) - 1));
        Key { time, rest }
    }
}

#[derive(Debug)]
pub(super) struct WaitingRecords {
    rings: Vec<WaitingRing>,
    ready: Vec<WaitingRecord>,
}

#[derive(Clone, Debug, Default)]
struct WaitingRing {
    records: VecDeque<WaitingRecord>,
    /// True if a record arrived after a later one, which the kernel's rings never do.
    is_disordered: bool,
}

impl WaitingRecords {
    pub(super) fn new(rings: usize) -> WaitingRecords {
        WaitingRecords {
            rings: vec![WaitingRing::default(); rings],
            ready: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, ring: usize, record: WaitingRecord) {
        if let Some(ring) = self.rings.get_mut(ring) {
            let last = ring.records.back();
            ring.is_disordered |= last.is_some_and(|last| record.key < last.key);
            ring.records.push_back(record);
        }
    }

    pub(super) fn newest(&self) -> Option<u64> {
        let all = self.rings.iter().flat_map(|ring| &ring.records);
        all.map(|record| record.key.time).max()
    }

    /// Removes and returns all records before `bound`, sorted; [`u64::MAX`] takes all.
    pub(super) fn take_before(&mut self, bound: u64) -> &[WaitingRecord] {
        self.ready.clear();
        let mut runs = 0;
        for ring in &mut self.rings {
            let due = ring.due(bound);
            runs += usize::from(due > 0);
            self.ready.extend(ring.records.drain(..due));
        }
        if runs > 1 {
            self.ready.sort_by_key(|record| record.key);
        }
        &self.ready
    }
}

impl WaitingRing {
    /// Returns the number of records at the front before the time `bound`.
    fn due(&mut self, bound: u64) -> usize {
        if std::mem::take(&mut self.is_disordered) {
            (self.records.make_contiguous()).sort_by_key(|record| record.key);
        }
        let is_due = |record: &WaitingRecord| record.key.time < bound || bound == u64::MAX;
        match self.records.back().is_some_and(is_due) {
            true => self.records.len(),
            false => self.records.partition_point(is_due),
        }
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
        /// For any times and releases, each release returns exactly the due records, sorted.
        #[test]
        fn what_is_due_comes_out_in_order(
            times in proptest::collection::vec(
                (prop_oneof![0u64..50_000_000, Just(0), any::<u64>()], 0usize..3, any::<bool>()), 0..200),
            bounds in proptest::collection::vec(prop_oneof![0u64..60_000_000, any::<u64>()], 200),
        ) {
            let mut waiting = WaitingRecords::new(3);
            let mut expected: Vec<u64> = Vec::new();
            for (number, ((time, ring, takes), bound)) in (0..).zip(times.iter().zip(bounds)) {
                waiting.push(*ring, record(*time, number));
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

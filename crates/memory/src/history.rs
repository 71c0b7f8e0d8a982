//! [`History`]: memory over time, as changes between snapshots.

use std::cmp::Ordering;

/// Minimum time between two snapshots, in nanoseconds.
const LEAST_PAUSE: u64 = 50_000_000;

/// Part of the time so far that passes before the next snapshot, if memory changes little.
const PART: u64 = 32;

/// Pauses are shorter by this factor while the total changes.
const HASTE: u64 = 8;

/// Part of the largest total that counts as a change of it.
const CHANGE: u64 = 16;

/// Number of changes until pauses double: some 20 MiB of samples.
const MANY: u64 = 1 << 16;

/// Change of an amount between two snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<K> {
    /// Owner of the memory.
    pub key: K,
    /// Amount of the change.
    pub amount: u64,
    /// True if the amount grew.
    pub is_growth: bool,
    /// Time of the first growth since the owner last had nothing, as the caller dated it.
    pub since: u64,
}

/// Amounts by owner at the last snapshot, and when the next one is due.
///
/// The number of snapshots grows with the logarithm of the time, because pauses are a part of the
/// time so far. Changes of the total make them shorter, and a large number of written changes makes
/// them longer. Memory is linear in the number of owners.
///
/// # Examples
/// ```
/// use rprof_memory::History;
///
/// let mut history = History::default();
/// assert!(history.is_due(0, 100));
/// history.take(0, vec![("a", 100)], |_| 0);
/// assert!(!history.is_due(1_000_000, 110), "too early");
/// let steps = history.take(60_000_000, vec![("a", 40), ("b", 70)], |_| 5);
/// let steps: Vec<_> = steps.iter().map(|s| (s.key, s.amount, s.is_growth, s.since)).collect();
/// assert_eq!(steps, [("a", 60, false, 0), ("b", 70, true, 5)]);
/// ```
#[derive(Clone, Debug)]
pub struct History<K> {
    /// Owner, amount, and date of its first growth, sorted by owner.
    last: Vec<(K, u64, u64)>,
    total: u64,
    largest: u64,
    /// Times of the first and of the last snapshot.
    times: Option<(u64, u64)>,
    steps: u64,
}

impl<K> Default for History<K> {
    fn default() -> History<K> {
        History {
            last: Vec::new(),
            total: 0,
            largest: 0,
            times: None,
            steps: 0,
        }
    }
}

impl<K: Ord + Copy> History<K> {
    /// Returns true if twice the longest pause has passed, at a time in nanoseconds.
    pub fn is_late(&self, time: u64) -> bool {
        let late = |(_, last)| time.saturating_sub(last) >= self.pause(time).saturating_mul(2);
        self.times.is_none_or(late)
    }

    fn pause(&self, time: u64) -> u64 {
        let first = self.times.map_or(time, |(first, _)| first);
        let pause = (time.saturating_sub(first) / PART).max(LEAST_PAUSE);
        pause.saturating_mul(1 << (self.steps / MANY).min(32))
    }

    /// Returns true if a snapshot is due at a time in nanoseconds, when the total is `total`.
    pub fn is_due(&self, time: u64, total: u64) -> bool {
        let Some((_, last)) = self.times else {
            return true;
        };
        let since = time.saturating_sub(last);
        let pause = self.pause(time);
        let has_changed = total.abs_diff(self.total) > self.largest.max(total) / CHANGE;
        since >= pause || has_changed && since >= pause / HASTE
    }

    /// Takes a snapshot: the amounts by owner at a time in nanoseconds, sorted by owner. Returns
    /// the changes since the last one. `date` dates an owner that had nothing.
    pub fn take(
        &mut self,
        time: u64,
        now: Vec<(K, u64)>,
        date: impl Fn(&K) -> u64,
    ) -> Vec<Step<K>> {
        let mut steps = Vec::new();
        let mut before = std::mem::take(&mut self.last).into_iter().peekable();
        let gone = |(key, amount, since)| Step {
            key,
            amount,
            is_growth: false,
            since,
        };
        for (key, amount) in now {
            while let Some(old) = before.next_if(|(old, ..)| *old < key) {
                steps.push(gone(old));
            }
            let (old, since) = match before.next_if(|(old, ..)| *old == key) {
                Some((_, old, since)) => (old, since),
                None => (0, date(&key)),
            };
            if amount != old {
                steps.push(Step {
                    key,
                    amount: amount.abs_diff(old),
                    is_growth: amount.cmp(&old) == Ordering::Greater,
                    since,
                });
            }
            if amount > 0 {
                self.last.push((key, amount, since));
            }
        }
        steps.extend(before.map(gone));
        self.total = (self.last.iter()).fold(0, |sum, (_, amount, _)| sum.saturating_add(*amount));
        self.largest = self.largest.max(self.total);
        let first = self.times.map_or(time, |(first, _)| first);
        self.times = Some((first, time));
        self.steps += steps.len() as u64;
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_add_up_to_every_snapshot() {
        let snapshots: [&[(u8, u64)]; 5] = [
            &[(1, 10), (3, 5)],
            &[(1, 10), (2, 7), (3, 1)],
            &[],
            &[(3, 4)],
            &[(0, 1), (3, 4), (9, 2)],
        ];
        let mut history = History::default();
        let mut sums = std::collections::BTreeMap::<u8, u64>::new();
        for (time, snapshot) in (0..).zip(snapshots) {
            for step in history.take(time, snapshot.to_vec(), |_| time) {
                assert!(step.amount > 0 && step.since <= time);
                let sum = sums.entry(step.key).or_default();
                match step.is_growth {
                    true => *sum += step.amount,
                    false => *sum -= step.amount,
                }
            }
            sums.retain(|_, sum| *sum > 0);
            let all: Vec<(u8, u64)> = sums.iter().map(|(key, sum)| (*key, *sum)).collect();
            assert_eq!(all, snapshot);
        }
    }

    #[test]
    fn snapshots_of_a_day_are_few_and_a_jump_has_its_own() {
        let second = 1_000_000_000;
        let mut history = History::<u8>::default();
        let mut count = 0;
        for time in (0..86_400 * 2).map(|half| half * second / 2) {
            if history.is_due(time, 1000) {
                history.take(time, vec![(1, 1000)], |_| 0);
                count += 1;
            }
        }
        assert!((200..400).contains(&count), "{count}");
        let end = 86_400 * second;
        let (_, last) = history.times.expect("snapshots");
        assert!(!history.is_due(last + 400 * second, 1010));
        assert!(history.is_due(last + 400 * second, 2000), "{end}");
    }

    #[test]
    fn many_changes_make_snapshots_rarer() {
        let mut history = History::default();
        history.take(0, (0..2 * MANY).map(|key| (key, 1)).collect(), |_| 0);
        assert!(!history.is_due(3 * LEAST_PAUSE, 2 * MANY));
        assert!(history.is_due(4 * LEAST_PAUSE, 2 * MANY));
    }
}

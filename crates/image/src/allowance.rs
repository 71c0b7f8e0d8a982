//! [`Allowance`] and [`Allowances`]: token-bucket limits for untrusted input.

use std::collections::HashMap;

/// Token-bucket limit: size of the bucket and refill per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Bucket size, in the caller's unit (bytes, nanoseconds).
    pub most: u64,
    /// Refill per second, up to `most`.
    pub a_second: u64,
}

/// State of a token bucket. Times are nanoseconds of any clock.
///
/// ```
/// use rprof_image::{Allowance, Rate};
///
/// let rate = Rate { most: 100, a_second: 10 };
/// let mut left = Allowance::new(rate, 0);
/// left.spend(rate, 70, 0);
/// assert_eq!(left.at(rate, 0), 30);
/// assert_eq!(left.at(rate, 2_000_000_000), 50);
/// assert_eq!(left.at(rate, 60_000_000_000), 100);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    left: u64,
    at: u64,
}

impl Allowance {
    /// Creates a full bucket.
    #[must_use]
    pub const fn new(rate: Rate, now: u64) -> Self {
        Self {
            left: rate.most,
            at: now,
        }
    }

    /// Returns the amount available at `now`, or at the last [`spend`](Self::spend) if that is
    /// later.
    #[must_use]
    pub fn at(&self, rate: Rate, now: u64) -> u64 {
        let passed = u128::from(now.saturating_sub(self.at));
        let more = passed * u128::from(rate.a_second) / 1_000_000_000;
        let more = u64::try_from(more).unwrap_or(u64::MAX);
        self.left.saturating_add(more).min(rate.most)
    }

    /// Takes an amount, at most the balance.
    pub fn spend(&mut self, rate: Rate, spent: u64, now: u64) {
        self.left = self.at(rate, now).saturating_sub(spent);
        self.at = self.at.max(now);
    }
}

/// Maximum number of keys with a bucket.
const MAX_TOLD_APART: usize = 1024;

/// One token bucket per key (a pid or a user id), plus one shared by all.
///
/// ```
/// use rprof_image::{Allowances, Rate};
///
/// let of_one = Rate { most: 100, a_second: 10 };
/// let of_all = Rate { most: 150, a_second: 10 };
/// let mut left = Allowances::new(of_one, of_all);
/// left.spend(7, 100, 0);
/// assert_eq!((left.at(7, 0), left.at(8, 0)), (0, 50));
/// ```
#[derive(Debug)]
pub struct Allowances {
    rate_of_one: Rate,
    rate_of_all: Rate,
    of_one: HashMap<i32, Allowance>,
    of_all: Option<Allowance>,
}

impl Allowances {
    /// Creates full buckets.
    #[must_use]
    pub fn new(of_one: Rate, of_all: Rate) -> Self {
        Self {
            rate_of_one: of_one,
            rate_of_all: of_all,
            of_one: HashMap::new(),
            of_all: None,
        }
    }

    /// Returns the amount available to a key.
    #[must_use]
    pub fn at(&self, pid: i32, now: u64) -> u64 {
        let (one, all) = (self.rate_of_one, self.rate_of_all);
        let of_all = self.of_all.map_or(all.most, |left| left.at(all, now));
        let of_one = self.of_one.get(&pid);
        let of_one = of_one.map_or(one.most, |left| left.at(one, now));
        of_all.min(of_one)
    }

    /// Takes an amount from the bucket of a key and the shared one.
    pub fn spend(&mut self, pid: i32, spent: u64, now: u64) {
        let (one, all) = (self.rate_of_one, self.rate_of_all);
        let of_all = self.of_all.get_or_insert(Allowance::new(all, now));
        of_all.spend(all, spent, now);
        if self.of_one.len() >= MAX_TOLD_APART && !self.of_one.contains_key(&pid) {
            self.of_one.retain(|_, left| left.at(one, now) < one.most);
        }
        if self.of_one.len() < MAX_TOLD_APART || self.of_one.contains_key(&pid) {
            let of_one = self.of_one.entry(pid);
            let of_one = of_one.or_insert(Allowance::new(one, now));
            of_one.spend(one, spent, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const OF_ONE: Rate = Rate {
        most: 1000,
        a_second: 100,
    };
    const OF_ALL: Rate = Rate {
        most: 3000,
        a_second: 200,
    };

    #[test]
    fn who_spends_everything_has_nothing_left_and_others_have_theirs() {
        let mut left = Allowances::new(OF_ONE, OF_ALL);
        for _ in 0..20 {
            left.spend(1, 100, 0);
        }
        assert_eq!((left.at(1, 0), left.at(2, 0)), (0, 1000));
        assert_eq!(
            (left.at(1, SECOND / 2), left.at(1, 100 * SECOND)),
            (50, 1000)
        );
    }

    #[test]
    fn many_processes_have_no_more_together() {
        let mut left = Allowances::new(OF_ONE, OF_ALL);
        let mut spent = 0;
        for pid in 0..10_000 {
            let most = left.at(pid, 0);
            left.spend(pid, most, 0);
            spent += most;
        }
        assert_eq!(spent, OF_ALL.most);
        assert!(left.of_one.len() <= MAX_TOLD_APART);
        assert_eq!(left.at(-1, SECOND), OF_ALL.a_second);
    }
}

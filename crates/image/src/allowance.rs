//! [`Allowance`]: how much of something a stranger may use up, in a time.

/// The amount that may be used at once, and what comes back in a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Most that may be used at once, in whatever is counted: bytes, nanoseconds.
    pub most: u64,
    /// What comes back in a second, up to `most`.
    pub a_second: u64,
}

/// What is left of a [`Rate`], as of a time. Times are nanoseconds of any clock.
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
    /// Creates one of which nothing is used.
    #[must_use]
    pub const fn new(rate: Rate, now: u64) -> Self {
        Self {
            left: rate.most,
            at: now,
        }
    }

    /// Returns what is left at a time. Times before that of the last call of
    /// [`spend`](Self::spend) count as that.
    #[must_use]
    pub fn at(&self, rate: Rate, now: u64) -> u64 {
        let passed = u128::from(now.saturating_sub(self.at));
        let more = passed * u128::from(rate.a_second) / 1_000_000_000;
        let more = u64::try_from(more).unwrap_or(u64::MAX);
        self.left.saturating_add(more).min(rate.most)
    }

    /// Uses some of it up; more than there is counts as all.
    pub fn spend(&mut self, rate: Rate, spent: u64, now: u64) {
        self.left = self.at(rate, now).saturating_sub(spent);
        self.at = self.at.max(now);
    }
}

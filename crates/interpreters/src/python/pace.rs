//! [`Pace`]: how early the samples of a process should be read.

use crate::Urgency;

/// Weight of a sample in the share of stacks with gaps, as 1 in this many.
const MEMORY: u32 = 64;

/// Share of stacks with gaps, in 1 of 65,536, up to which evidence is complete enough.
const FEW: u32 = 65_536 / 25;

/// Share of stacks with gaps, in 1 of 65,536, above which a thread is looked at more often between
/// its samples.
const SOME: u32 = 65_536 / 8;

/// Shares of stacks with gaps, in 1 of 65,536, up to which it is looked at less often.
const RARE: u32 = 65_536 / 16;
const VERY_RARE: u32 = 65_536 / 32;

/// Intervals of looks between samples in nanoseconds, by the share of stacks with gaps. The first
/// one is less than the time until the reader sees a sample.
pub(super) const FREQUENT: u64 = 800_000;
const USUAL: u64 = 2_400_000;
const SELDOM: u64 = 4_800_000;
const VERY_SELDOM: u64 = 9_600_000;

/// Looks at high urgency that a process may use at once.
const CREDIT: u32 = 4096;

/// Relaxed looks for which a process may use one more at high urgency. Some programs have gaps
/// however many looks there are.
const RELAXED: u32 = 4;

/// Early looks find more, but each costs some 50 µs of CPU time of the recorder. So they are made
/// while gaps are frequent.
#[derive(Debug)]
pub(super) struct Pace {
    /// Share of stacks with gaps, in 1 of 65,536.
    gaps: u32,
    /// Looks at high urgency that are left, in quarters.
    credit: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            gaps: 65_536,
            credit: CREDIT * RELAXED,
        }
    }
}

impl Pace {
    pub(super) const fn urgency(&self) -> Urgency {
        match self.gaps > FEW && self.credit >= RELAXED {
            true => Urgency::High,
            false => Urgency::Relaxed,
        }
    }

    /// Returns the interval of looks between samples in nanoseconds.
    pub(super) const fn interval(&self) -> u64 {
        match self.gaps {
            gaps if gaps <= VERY_RARE => VERY_SELDOM,
            gaps if gaps <= RARE => SELDOM,
            gaps if gaps > SOME && self.credit >= RELAXED => FREQUENT,
            _ => USUAL,
        }
    }

    /// Counts a sample, with or without a new look.
    pub(super) fn count(&mut self, is_new_look: bool, has_gap: bool) {
        if is_new_look {
            self.credit = match self.urgency() {
                Urgency::High => self.credit.saturating_sub(RELAXED),
                Urgency::Relaxed | Urgency::None => (self.credit + 1).min(CREDIT * RELAXED),
            };
        }
        let gap = if has_gap { 65_536 / MEMORY } else { 0 };
        self.gaps = self.gaps - self.gaps / MEMORY + gap;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_looks_end_when_gaps_are_rare_or_the_credit_is_used_up() {
        let mut pace = Pace::default();
        assert_eq!(pace.urgency(), Urgency::High);
        for _ in 0..10 * MEMORY {
            pace.count(true, false);
        }
        assert_eq!(pace.urgency(), Urgency::Relaxed);
        for _ in 0..MEMORY {
            pace.count(true, true);
        }
        assert_eq!(pace.urgency(), Urgency::High);
        let mut early = 0;
        for _ in 0..20 * CREDIT {
            early += u32::from(pace.urgency() == Urgency::High);
            pace.count(true, true);
        }
        assert!((4 * CREDIT..6 * CREDIT).contains(&early), "{early}");
    }
}

//! [`TimeBudget`]: limits the writer thread's time per sample, process and user.
//!
//! All samples wait for the writer thread, and some are expensive: they open images, compile unwind
//! information or read jitdumps. A normal process has one or two hundred images, once. So expensive
//! time is charged to accounts that refill over time: one per process, one per user for slow files,
//! and one for all. If they are empty, a stack ends before the next expensive step.

use std::time::Duration;

use rprof_image::{Allowances, Rate};
use rprof_processes::Pid;

/// Maximum time for one sample, in nanoseconds. Rings and buffers hold samples of about that time.
const FOR_ONE: u64 = 100_000_000;

/// Minimum time of a sample.
const FOR_ANY: u64 = 1_000_000;

/// Time that is not charged: nearly all samples take less.
const FREE: u64 = 200_000;

/// Time of a process in nanoseconds: burst, and refill per second.
const PROCESS: Rate = Rate {
    most: 1_000_000_000,
    a_second: 100_000_000,
};

/// Time for waiting for files of a user's processes: burst, and refill per second.
const USER: Rate = Rate {
    most: 2_000_000_000,
    a_second: 100_000_000,
};

/// Time of all processes together. It takes several users to use it up.
const ALL: Rate = Rate {
    most: 8_000_000_000,
    a_second: 400_000_000,
};

#[derive(Debug)]
pub(super) struct TimeBudget {
    processes: Allowances,
    users: Allowances,
}

impl TimeBudget {
    pub(super) fn new() -> TimeBudget {
        TimeBudget {
            processes: Allowances::new(PROCESS, ALL),
            users: Allowances::new(USER, ALL),
        }
    }

    pub(super) fn of(&self, pid: Pid, now: u64) -> Duration {
        let left = self.processes.at(pid.0, now);
        Duration::from_nanos(left.clamp(FOR_ANY, FOR_ONE))
    }

    pub(super) fn of_user(&self, user: u32, now: u64) -> Duration {
        let left = self.users.at(user.cast_signed(), now);
        Duration::from_nanos(left.clamp(FOR_ANY, FOR_ONE))
    }

    pub(super) fn of_any() -> Duration {
        Duration::from_nanos(FOR_ANY)
    }

    /// Charges a sample's time to its process, and to the owner of the files that it waited for.
    pub(super) fn spend(&mut self, pid: Pid, user: Option<u32>, spent: u64, now: u64) {
        let dear = spent.saturating_sub(FREE);
        if dear > 0 {
            self.processes.spend(pid.0, dear, now);
            if let Some(user) = user {
                self.users.spend(user.cast_signed(), dear, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn who_spends_everything_has_little_left_and_others_have_theirs() {
        let mut budget = TimeBudget::new();
        let (dear, other) = (Pid(1), Pid(2));
        assert_eq!(budget.of(dear, 0), Duration::from_nanos(FOR_ONE));
        for _ in 0..20 {
            budget.spend(dear, None, FOR_ONE, 0);
        }
        assert_eq!(budget.of(dear, 0), Duration::from_nanos(FOR_ANY));
        assert_eq!(budget.of(other, 0), Duration::from_nanos(FOR_ONE));
        // It refills at a tenth of the elapsed time.
        assert_eq!(
            budget.of(dear, SECOND / 2),
            Duration::from_nanos(SECOND / 20)
        );
        assert_eq!(budget.of(dear, 100 * SECOND), Duration::from_nanos(FOR_ONE));
    }

    #[test]
    fn cheap_samples_are_free() {
        let mut budget = TimeBudget::new();
        for _ in 0..1_000_000 {
            budget.spend(Pid(1), Some(1), FREE, 0);
        }
        assert_eq!(budget.of(Pid(1), 0), Duration::from_nanos(FOR_ONE));
    }

    #[test]
    fn a_user_does_not_use_up_the_patience_with_others() {
        let mut budget = TimeBudget::new();
        for pid in 0..1000 {
            let spent = budget.of_user(7, 0).min(budget.of(Pid(pid), 0));
            budget.spend(Pid(pid), Some(7), spent.as_nanos() as u64, 0);
        }
        assert_eq!(budget.of_user(7, 0), TimeBudget::of_any());
        let all = Duration::from_nanos(FOR_ONE);
        assert_eq!((budget.of_user(8, 0), budget.of(Pid(1001), 0)), (all, all));
    }
}

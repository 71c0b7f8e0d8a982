//! [`TimeBudget`]: how long the writer thread may work for one sample.
//!
//! Everybody's samples wait for the writer thread, and some that a process makes cost more than others:
//! images that have to be opened, unwind information that has to be compiled, jitdumps. An honest process
//! has its one or two hundred images, once. So what is dear is paid out of accounts that fill up again
//! with time, one of each process and one of all; where they are empty, a stack ends where the next dear
//! step would be.

use std::time::Duration;

use rprof_image::{Allowance, Rate};
use rprof_processes::Pid;
use rustc_hash::FxHashMap;

/// Longest time for one sample. Rings and buffers hold the samples of about as long.
const FOR_ONE: u64 = 100_000_000;

/// Time that a sample has in any case.
const FOR_ANY: u64 = 1_000_000;

/// Time that costs nothing: what nearly all samples take.
const FREE: u64 = 200_000;

/// Time that a process may take at once, and in a second.
const PROCESS: Rate = Rate {
    most: 1_000_000_000,
    a_second: 100_000_000,
};

/// The same of all together.
const ALL: Rate = Rate {
    most: 3_000_000_000,
    a_second: 200_000_000,
};

/// Most processes that are told apart: those that were dear lately.
const MOST_PROCESSES: usize = 1024;

/// Times that processes have spent, in nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Debug, Default)]
pub(super) struct TimeBudget {
    all: Option<Allowance>,
    processes: FxHashMap<Pid, Allowance>,
}

impl TimeBudget {
    /// Returns how long a sample of this process may take, from now on.
    pub(super) fn of(&self, pid: Pid, now: u64) -> Duration {
        let all = self.all.map_or(ALL.most, |all| all.at(ALL, now));
        let own = self.processes.get(&pid);
        let own = own.map_or(PROCESS.most, |own| own.at(PROCESS, now));
        Duration::from_nanos(all.min(own).clamp(FOR_ANY, FOR_ONE))
    }

    /// Books what a sample took.
    pub(super) fn spend(&mut self, pid: Pid, spent: u64, now: u64) {
        let dear = spent.saturating_sub(FREE);
        if dear == 0 {
            return;
        }
        let all = self.all.get_or_insert_with(|| Allowance::new(ALL, now));
        all.spend(ALL, dear, now);
        if self.processes.len() >= MOST_PROCESSES && !self.processes.contains_key(&pid) {
            let is_full = |account: &Allowance| account.at(PROCESS, now) == PROCESS.most;
            self.processes.retain(|_, account| !is_full(account));
            if self.processes.len() >= MOST_PROCESSES {
                return;
            }
        }
        let own = self.processes.entry(pid);
        own.or_insert_with(|| Allowance::new(PROCESS, now))
            .spend(PROCESS, dear, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn who_spends_everything_has_little_left_and_others_have_theirs() {
        let mut budget = TimeBudget::default();
        let (dear, other) = (Pid(1), Pid(2));
        assert_eq!(budget.of(dear, 0), Duration::from_nanos(FOR_ONE));
        for _ in 0..20 {
            budget.spend(dear, FOR_ONE, 0);
        }
        assert_eq!(budget.of(dear, 0), Duration::from_nanos(FOR_ANY));
        assert_eq!(budget.of(other, 0), Duration::from_nanos(FOR_ONE));
        // It comes back, at a tenth of the time that passes.
        assert_eq!(
            budget.of(dear, SECOND / 2),
            Duration::from_nanos(SECOND / 20)
        );
        assert_eq!(budget.of(dear, 100 * SECOND), Duration::from_nanos(FOR_ONE));
    }

    #[test]
    fn many_processes_have_no_more_together() {
        let mut budget = TimeBudget::default();
        for pid in 0..10_000 {
            let most = budget.of(Pid(pid), 0).as_nanos() as u64;
            budget.spend(Pid(pid), most, 0);
        }
        assert_eq!(budget.of(Pid(-1), 0), Duration::from_nanos(FOR_ANY));
        assert!(budget.processes.len() <= MOST_PROCESSES);
        assert_eq!(
            budget.of(Pid(-1), SECOND),
            Duration::from_nanos(FOR_ONE),
            "and have it again later"
        );
    }

    #[test]
    fn cheap_samples_are_free() {
        let mut budget = TimeBudget::default();
        for _ in 0..1_000_000 {
            budget.spend(Pid(1), FREE, 0);
        }
        assert_eq!(budget.of(Pid(1), 0), Duration::from_nanos(FOR_ONE));
        assert!(budget.processes.is_empty());
    }
}

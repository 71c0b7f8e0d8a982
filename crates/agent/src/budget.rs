//! [`Budget`]: lowers and raises the sampling rate to stay within CPU and memory limits.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Consecutive windows over the budget before the rate is halved.
const BAD: u32 = 2;

/// Consecutive windows within the budget before the rate goes up a step.
const GOOD: u32 = 10;

/// CPU time and memory that the agent used in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// CPU time in percent of one core.
    pub cpu_percent: f64,
    /// Resident memory in bytes.
    pub memory: u64,
    /// Bytes of the window's records. They grow with the rate.
    pub records: u64,
}

/// Change of the rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BudgetStep {
    /// The rate was halved, because this usage exceeded the budget.
    Halved(Usage),
    /// The rate went up a step.
    Raised,
}

/// Cached image data to drop when memory is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relief {
    /// Symbols and tables of images not used in the last window.
    Unused,
    /// Symbols and tables of all images.
    All,
}

/// Limits of CPU time and memory, and the rate that fits them.
#[derive(Clone, Debug)]
pub struct Budget {
    cpu_percent: f64,
    memory: u64,
    wanted: u32,
    rate: u32,
    bad: u32,
    good: u32,
}

impl Budget {
    /// Starts at the wanted rate, in samples a second.
    pub fn new(cpu_percent: f64, memory: u64, wanted: u32) -> Budget {
        Budget {
            cpu_percent,
            memory,
            wanted,
            rate: wanted,
            bad: 0,
            good: 0,
        }
    }

    /// Returns the current rate, in samples a second.
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// Returns the cached data to drop, given the memory use of a window.
    pub fn relief(&self, usage: Usage) -> Option<Relief> {
        match usage.memory {
            memory if memory > self.memory => Some(Relief::All),
            memory if memory > self.memory / 4 * 3 => Some(Relief::Unused),
            _ => None,
        }
    }

    /// Updates the rate after a window. Two consecutive windows over the budget halve it, down to
    /// 1. Ten within the budget raise it a step, up to the wanted rate.
    ///
    /// Memory use counts only if the window's records exceed an eighth of the memory limit, half of
    /// their own limit. Otherwise a lower rate would not save memory.
    pub fn judge(&mut self, usage: Usage) -> Option<BudgetStep> {
        let is_large = usage.memory > self.memory && usage.records > self.memory / 8;
        if usage.cpu_percent > self.cpu_percent || is_large {
            (self.good, self.bad) = (0, self.bad + 1);
            if self.bad < BAD || self.rate == 1 {
                return None;
            }
            self.bad = 0;
            self.rate = (self.rate / 2).max(1);
            return Some(BudgetStep::Halved(usage));
        }
        (self.good, self.bad) = (self.good + 1, 0);
        if self.good < GOOD || self.rate == self.wanted {
            return None;
        }
        self.good = 0;
        // Halving from 19: 9, 4, 2, 1. The way up uses the same steps.
        let steps = std::iter::successors(Some(self.wanted), |rate| Some((rate / 2).max(1)));
        let above = steps.take(32).take_while(|rate| *rate > self.rate).last();
        self.rate = above.unwrap_or(self.wanted);
        Some(BudgetStep::Raised)
    }
}

/// Meter of this process's CPU time and memory.
#[derive(Debug)]
pub struct Meter {
    cpu: Duration,
}

impl Meter {
    /// Starts measuring.
    pub fn begin() -> Meter {
        Meter { cpu: cpu_time() }
    }

    /// Returns the usage since the last call. `time` is the elapsed time; `records` is the size of
    /// the window's records in bytes.
    pub fn lap(&mut self, time: Duration, records: u64) -> Usage {
        let cpu = cpu_time();
        let used = cpu.saturating_sub(std::mem::replace(&mut self.cpu, cpu));
        Usage {
            cpu_percent: 100.0 * used.as_secs_f64() / time.as_secs_f64().max(1e-3),
            memory: resident(),
            records,
        }
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Returns the resident memory in bytes, or 0 without /proc.
fn resident() -> u64 {
    let pages = || {
        let text = fs::read_to_string("/proc/self/statm").ok()?;
        text.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    pages().unwrap_or(0) * rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD_ONE: Usage = Usage {
        cpu_percent: 0.5,
        memory: 10,
        records: 5,
    };
    const BUSY: Usage = Usage {
        cpu_percent: 1.5,
        memory: 10,
        records: 5,
    };
    const LARGE: Usage = Usage {
        cpu_percent: 0.5,
        memory: 101,
        records: 26,
    };

    #[test]
    fn two_bad_windows_in_a_row_halve_the_rate() {
        let mut budget = Budget::new(1.0, 100, 19);
        assert_eq!(budget.judge(BUSY), None);
        assert_eq!(budget.judge(GOOD_ONE), None);
        assert_eq!(budget.judge(BUSY), None);
        assert_eq!(
            (budget.judge(LARGE), budget.rate()),
            (Some(BudgetStep::Halved(LARGE)), 9)
        );
        let rates: Vec<u32> = (0..8)
            .map(|_| {
                budget.judge(BUSY);
                budget.rate()
            })
            .collect();
        assert_eq!(rates, [9, 4, 4, 2, 2, 1, 1, 1]);
    }

    #[test]
    fn memory_that_a_lower_rate_does_not_save_changes_nothing() {
        let mut budget = Budget::new(1.0, 100, 19);
        let few = Usage {
            records: 12,
            ..LARGE
        };
        assert_eq!((budget.judge(few), budget.judge(few)), (None, None));
        let relief = |memory| budget.relief(Usage { memory, ..few });
        let all: Vec<_> = [75, 76, 100, 101].into_iter().map(relief).collect();
        let unused = Some(Relief::Unused);
        assert_eq!(all, [None, unused, unused, Some(Relief::All)]);
    }

    #[test]
    fn ten_good_windows_bring_a_step_back() {
        let mut budget = Budget::new(1.0, 100, 19);
        for _ in 0..6 {
            budget.judge(BUSY);
        }
        assert_eq!(budget.rate(), 2);
        let mut raised = Vec::new();
        for window in 1..=40 {
            if budget.judge(GOOD_ONE) == Some(BudgetStep::Raised) {
                raised.push((window, budget.rate()));
            }
        }
        assert_eq!(raised, [(10, 4), (20, 9), (30, 19)]);
    }

    #[test]
    fn a_meter_sees_work() {
        let mut meter = Meter::begin();
        let mut sum = 0u64;
        while cpu_time() < meter.cpu + Duration::from_millis(20) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let usage = meter.lap(Duration::from_secs(1), 0);
        assert!(
            usage.cpu_percent >= 2.0 && usage.memory > 1 << 20,
            "{usage:?}"
        );
    }
}

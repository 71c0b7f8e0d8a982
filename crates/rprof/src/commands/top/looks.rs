//! [`Rhythm`]: refresh times; [`OwnCpu`]: CPU time of rprof itself.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

pub(super) struct Rhythm {
    pub(super) started: Instant,
    refresh: Duration,
    next: Instant,
    /// Start, and ends of earlier intervals, the latest last.
    ends: Vec<Instant>,
    pub(super) intervals: usize,
}

/// Maximum number of intervals that a table covers.
const LIMIT: usize = 10_000;

impl Rhythm {
    /// Starts now; the first refresh comes after `first`.
    pub(super) fn new(refresh: Duration, first: Duration, window: Duration) -> Rhythm {
        let started = Instant::now();
        let intervals = window.as_secs_f64() / refresh.as_secs_f64();
        Rhythm {
            started,
            refresh,
            next: started + first.min(refresh),
            ends: vec![started],
            intervals: (intervals.ceil() as usize).clamp(1, LIMIT),
        }
    }

    pub(super) fn left(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Ends an interval. Missed refreshes are skipped.
    pub(super) fn end_interval(&mut self) {
        let now = Instant::now();
        self.ends.push(now);
        let old = self.ends.len().saturating_sub(self.intervals);
        self.ends.drain(..old);
        while self.next <= now {
            self.next += self.refresh;
        }
    }

    pub(super) fn zero(&mut self) {
        self.started = Instant::now();
        self.ends = vec![self.started];
    }

    /// Returns the time since the start of the window.
    pub(super) fn window(&self) -> Duration {
        self.ends.first().map_or(Duration::ZERO, Instant::elapsed)
    }
}

pub(super) struct OwnCpu {
    used: Duration,
    at: Instant,
}

impl OwnCpu {
    pub(super) fn new() -> OwnCpu {
        OwnCpu {
            used: used(),
            at: Instant::now(),
        }
    }

    /// Returns the CPU use since the last call, in percent of one CPU.
    pub(super) fn percent(&mut self) -> f64 {
        let last = std::mem::replace(self, OwnCpu::new());
        let wall = self.at.saturating_duration_since(last.at).as_secs_f64();
        match wall > 0.0 {
            true => 100.0 * self.used.saturating_sub(last.used).as_secs_f64() / wall,
            false => 0.0,
        }
    }
}

fn used() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanoseconds) = (time.tv_sec.max(0) as u64, time.tv_nsec.max(0) as u32);
    Duration::new(seconds, nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_a_number_of_intervals() {
        let of = |refresh, window| {
            let seconds = Duration::from_secs_f64;
            Rhythm::new(seconds(refresh), seconds(refresh), seconds(window)).intervals
        };
        assert_eq!(of(2.0, 10.0), 5);
        assert_eq!(of(2.0, 2.0), 1);
        assert_eq!(of(2.0, 0.5), 1);
        assert_eq!(of(2.0, 5.0), 3);
        assert_eq!(of(0.1, 1e9), LIMIT);
    }

    #[test]
    fn own_time_is_a_share_of_the_time_that_passed() {
        let mut cpu = OwnCpu::new();
        let until = Instant::now() + Duration::from_millis(20);
        while Instant::now() < until {}
        assert!(cpu.percent() > 0.0);
    }
}

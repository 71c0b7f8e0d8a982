//! [`LatencyWeights`]: weights of samples by latency, and the filter by parallelism.

use rprof_profile::LatencyTally;

use super::Timelines;

/// Conditions and weights by the number of running threads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LatencyOptions<'t> {
    /// `None` if neither weights nor filters need them.
    pub(crate) timelines: Option<&'t Timelines>,
    /// True if weights are divided; otherwise only the filter applies.
    pub(crate) divides: bool,
    /// Accepted numbers of running threads; empty for all.
    pub(crate) parallelism: &'t [u32],
}

/// Part of a sample that decides its latency.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) time: Option<u64>,
    pub(crate) wait: Option<WaitMoment>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitMoment {
    /// Nanoseconds.
    pub(crate) length: u64,
    /// The thread waited for a CPU after a wakeup.
    pub(crate) is_awake: bool,
}

/// Part of a sample's period that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// The whole period.
    Whole,
    /// Divided by the number of running threads.
    Divided(u32),
    /// Nanoseconds of a wait.
    Wait(u64),
}

#[derive(Debug, Default)]
pub(crate) struct LatencyWeights<'t> {
    options: LatencyOptions<'t>,
    /// Remainder of earlier divisions.
    rest: f64,
    pub(crate) tally: LatencyTally,
}

impl<'t> LatencyWeights<'t> {
    pub(crate) fn new(options: LatencyOptions<'t>) -> LatencyWeights<'t> {
        LatencyWeights {
            options,
            ..LatencyWeights::default()
        }
    }

    /// Starts a block. Results do not depend on the assignment of blocks to workers.
    pub(crate) fn begin_block(&mut self) {
        self.rest = 0.0;
    }

    /// Returns the counting part of a sample's period. `None` if the filter rejects the sample, or
    /// if its wait was not on the program's way.
    #[inline]
    pub(crate) fn share(&self, at: Moment) -> Option<Share> {
        let LatencyOptions {
            timelines: Some(timelines),
            divides,
            parallelism,
        } = self.options
        else {
            return Some(Share::Whole);
        };
        let is_wanted = |running: u32| parallelism.is_empty() || parallelism.contains(&running);
        let time = at.time.unwrap_or(0);
        match at.wait {
            None => {
                let running = timelines.parallelism(at.pid, at.tid, time);
                let share = match divides {
                    true => Share::Divided(running),
                    false => Share::Whole,
                };
                is_wanted(running).then_some(share)
            }
            Some(wait) => {
                let latency = timelines.latency_of_wait(at.tid, time, wait.length, wait.is_awake);
                let share = match divides {
                    true => Share::Wait(latency),
                    false => Share::Whole,
                };
                (latency > 0 && is_wanted(0)).then_some(share)
            }
        }
    }

    /// Returns the weight of a sample. Fractions add up over a block, so that events with a period
    /// of 1 keep their sum.
    #[inline]
    pub(crate) fn weight(&mut self, share: Share, period: u64, is_time: bool) -> u64 {
        match share {
            Share::Whole => period,
            Share::Wait(latency) => {
                self.tally.waited = self.tally.waited.saturating_add(latency);
                latency
            }
            Share::Divided(running) => {
                let exact = period as f64 / f64::from(running.max(1)) + self.rest;
                let weight = exact as u64;
                self.rest = exact - weight as f64;
                if is_time {
                    self.tally.used = self.tally.used.saturating_add(period);
                    self.tally.ran = self.tally.ran.saturating_add(weight);
                }
                weight
            }
        }
    }
}

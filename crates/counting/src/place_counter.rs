//! [`PlaceCounter`]: counter of one event in one place.

use crate::snapshot::PlaceReading;
use rprof_perf_event::{PerfFd, Reading};

#[derive(Debug)]
pub(crate) struct PlaceCounter {
    pub(crate) place: usize,
    pub(crate) event: usize,
    /// True for group leaders and ungrouped events.
    pub(crate) leads: bool,
    pub(crate) fd: PerfFd,
    /// Sum of the counters before this one, if the CPU was offline meanwhile.
    pub(crate) before: Option<Reading>,
}

impl PlaceCounter {
    /// Reads the counter. `ran` is the thread's time on the place's CPU, in nanoseconds, if the
    /// place has both.
    pub(crate) fn read(&self, ran: Option<u64>) -> PlaceReading {
        PlaceReading {
            place: self.place,
            event: self.event,
            reading: (self.fd.reading())
                .map(|reading| self.with_before(reading))
                .map(|reading| on_its_cpu(reading, ran)),
        }
    }

    /// Goes on with a new counter.
    pub(crate) fn replace(&mut self, fd: PerfFd) {
        if let Ok(reading) = self.fd.reading() {
            self.before = Some(self.with_before(reading));
        }
        self.fd = fd;
    }

    fn with_before(&self, mut reading: Reading) -> Reading {
        if let Some(before) = self.before {
            reading.add(before);
        }
        reading
    }
}

/// Maximum relative difference between counters of one place that start one after the other.
const START_SLACK: f64 = 0.005;

/// Corrects the enabled time of a counter for a thread on one CPU: the kernel includes the time on
/// other CPUs. `ran` is the thread's time on this CPU, in nanoseconds, or `None`.
fn on_its_cpu(reading: Reading, ran: Option<u64>) -> Reading {
    let (Some(ran), Some(running)) = (ran, reading.running) else {
        return reading;
    };
    let enabled = match (ran as f64) * (1.0 - START_SLACK) <= running as f64 {
        true => running,
        false => ran,
    };
    Reading {
        enabled: Some(enabled),
        ..reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_not_there_while_it_runs_on_another_cpu() {
        let reading = |enabled, running| Reading {
            value: 6,
            enabled: Some(enabled),
            running: Some(running),
            ..Reading::default()
        };
        // The thread ran here for 400 of 1000, and was counted for all or half of it.
        assert_eq!(on_its_cpu(reading(1000, 400), Some(400)), reading(400, 400));
        assert_eq!(on_its_cpu(reading(1000, 399), Some(400)), reading(399, 399));
        assert_eq!(on_its_cpu(reading(1000, 200), Some(400)), reading(400, 200));
        assert_eq!(on_its_cpu(reading(1000, 0), Some(0)), reading(0, 0));
        assert_eq!(on_its_cpu(reading(1000, 400), None), reading(1000, 400));
    }
}

//! Readings and counts at the end of a recording.

use crate::drain::DrainCounts;
use crate::open::Degradation;
use rprof_perf_event::{ReadError, Reading};

/// Counts at the end of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FinalCounts {
    /// Counts by CPU, in the order of [`Session::cpus`](crate::Session::cpus).
    pub cpus: Vec<CpuCounts>,
}

/// Final counts of one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuCounts {
    /// Number of the CPU.
    pub cpu: u32,
    /// Readings of the sample events, in the order of [`Session::events`](crate::Session::events).
    pub events: Vec<EventCount>,
    /// Reading of the sideband event. Its `lost` counts missing names and mappings.
    pub sideband: EventCount,
    /// Counts of the drain thread.
    pub drain: DrainCounts,
}

/// Readings of one event on one CPU, summed over threads or control groups. Empty for a CPU outside
/// its PMU's `cpumask`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCount {
    /// Sum of the readings; `None` if there is none.
    pub sum: Option<Reading>,
    /// First read failure. The sum is then too low.
    pub failure: Option<ReadError>,
}

impl EventCount {
    pub(super) fn add(&mut self, reading: Result<Reading, ReadError>) {
        match (reading, &mut self.sum) {
            (Ok(reading), Some(sum)) => sum.add(reading),
            (Ok(reading), None) => self.sum = Some(reading),
            (Err(error), _) => self.failure = self.failure.or(Some(error)),
        }
    }

    /// Returns the event count, if any.
    pub fn value(&self) -> Option<u64> {
        Some(self.sum?.value)
    }

    /// Returns the number of samples dropped in a full ring. `None` before Linux 6.0, or if the
    /// event is not for this CPU.
    pub fn lost(&self) -> Option<u64> {
        self.sum?.lost
    }
}

impl FinalCounts {
    /// Returns the number of samples dropped in full rings on all CPUs; `None` if the kernel does
    /// not count them.
    ///
    /// It exceeds the sum of all LOST records, which omit the last drops.
    pub fn lost_samples(&self) -> Option<u64> {
        let events = self.cpus.iter().flat_map(|cpu| &cpu.events);
        // An event has lost nothing on other CPUs.
        let sums = events.filter_map(|count| count.sum);
        sums.map(|reading| reading.lost).sum()
    }

    /// Returns the number of dropped sideband records, like [`lost_samples`](Self::lost_samples).
    pub fn lost_sideband(&self) -> Option<u64> {
        let sums = self.cpus.iter().filter_map(|cpu| cpu.sideband.sum);
        sums.map(|reading| reading.lost).sum()
    }

    pub(super) fn failure_of(&self, index: usize, event: &str) -> Option<Degradation> {
        let failed = || {
            let counts = (self.cpus.iter()).map(|cpu| (cpu.cpu, cpu.events.get(index)));
            counts.filter_map(|(cpu, count)| Some((cpu, count?.failure?)))
        };
        Some(Degradation::CounterFailed {
            event: event.to_owned(),
            error: failed().next()?.1,
            cpus: failed().map(|(cpu, _)| cpu).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(lost: Option<u64>) -> EventCount {
        let mut count = EventCount::default();
        count.add(Ok(Reading {
            value: 1,
            lost,
            ..Reading::default()
        }));
        count
    }

    fn counts(events: [[EventCount; 2]; 2]) -> FinalCounts {
        let cpus = events.into_iter().enumerate();
        FinalCounts {
            cpus: cpus
                .map(|(cpu, events)| CpuCounts {
                    cpu: cpu as u32 + 4,
                    events: events.to_vec(),
                    ..CpuCounts::default()
                })
                .collect(),
        }
    }

    #[test]
    fn an_event_of_one_cpu_does_not_hide_what_others_lost() {
        // Like an uncore PMU, the second event is for the first CPU only.
        let all = counts([
            [counted(Some(1)), counted(Some(2))],
            [counted(Some(3)), EventCount::default()],
        ]);
        assert_eq!(all.lost_samples(), Some(6));
        let old_kernel = counts([[counted(None); 2], [counted(None); 2]]);
        assert_eq!(old_kernel.lost_samples(), None);
        assert_eq!(all.lost_sideband(), Some(0));
    }

    #[test]
    fn an_event_that_cannot_be_read_is_reported_with_its_cpus() {
        let mut failed = counted(Some(1));
        failed.add(Err(ReadError::PinnedWithoutCounter));
        assert_eq!(failed.value(), Some(1), "what was read still counts");
        let all = counts([[counted(Some(0)), failed], [failed, failed]]);
        let first = Degradation::CounterFailed {
            event: "cycles:D".to_owned(),
            cpus: vec![5],
            error: ReadError::PinnedWithoutCounter,
        };
        assert_eq!(all.failure_of(0, "cycles:D"), Some(first));
        let Some(Degradation::CounterFailed { cpus, .. }) = all.failure_of(1, "cs") else {
            panic!("nothing is reported");
        };
        assert_eq!(cpus, [4, 5]);
        assert_eq!(counts([[counted(None); 2]; 2]).failure_of(1, "cs"), None);
    }
}

//! Counts of the records in a file.

use std::collections::BTreeMap;

use rprof_perfdata::AuxTally;
use rprof_processes::PrivilegedExecs;
use rprof_records::{ProcessEvent, RawRecord, Record, RecordType, SampleLayout};
use rprof_sampler::{NO_CPU, Stream};
use rustc_hash::FxHashMap;

use crate::pipeline::merge::Released;

#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) samples: u64,
    /// Wait samples, which represent no CPU time. Not part of `samples`.
    pub(crate) waits: u64,
    pub(crate) idle: u64,
    /// Samples lost in full rings, by CPU, from LOST records.
    pub(crate) lost: BTreeMap<u32, u64>,
    /// Samples dropped by the processor (LOST_SAMPLES), by CPU.
    pub(crate) dropped: BTreeMap<u32, u64>,
    pub(crate) lost_sideband: u64,
    pub(crate) throttled: FxHashMap<u64, u64>,
    pub(crate) trace: AuxTally,
    pub(crate) born: u64,
    /// Programs that changed privileges at exec, whose events the kernel then removed.
    pub(crate) privileged: u64,
    privileged_execs: PrivilegedExecs,
    /// Time of the first sample, or start of the first wait.
    pub(crate) first_sample: Option<u64>,
    pub(crate) last_sample: u64,
    pub(crate) last: u64,
    /// Records that readers cannot sort.
    pub(crate) late: u64,
    rounds: Rounds,
}

/// Latest times at the ends of rounds. Readers sort the records of two neighbouring rounds
/// ([`RecordsByTime`](rprof_perfdata::RecordsByTime)).
#[derive(Clone, Copy, Debug, Default)]
struct Rounds {
    latest: u64,
    last_round: u64,
    /// Readers have returned all records until here.
    sorted: u64,
}

impl Tally {
    pub(crate) fn count_sample(&mut self, time: u64) {
        self.samples += 1;
        self.sampled_at(time);
    }

    pub(crate) fn count_wait(&mut self, from: u64, time: u64) {
        self.waits += 1;
        self.sampled_at(time);
        self.first_sample = self.first_sample.map(|first| first.min(from));
    }

    /// Counts a record that comes too late for its round. Synthesized records are old, not late.
    pub(crate) fn count_late(&mut self, released: &Released<'_>) {
        let time = released.time;
        self.late += u64::from(time < self.rounds.sorted && released.cpu != NO_CPU);
        self.rounds.latest = self.rounds.latest.max(time);
    }

    pub(crate) fn end_round(&mut self) {
        self.rounds.sorted = std::mem::replace(&mut self.rounds.last_round, self.rounds.latest);
    }

    fn sampled_at(&mut self, time: u64) {
        // Samples of memory are not in order of time.
        self.first_sample = Some(self.first_sample.map_or(time, |first| first.min(time)));
        self.last_sample = self.last_sample.max(time);
        self.last = self.last.max(time);
    }

    pub(crate) fn count_other(
        &mut self,
        released: &Released<'_>,
        raw: &RawRecord<'_>,
        layout: &SampleLayout,
    ) {
        self.last = self.last.max(released.time);
        self.trace.handle(raw);
        let kinds = [
            RecordType::LOST,
            RecordType::LOST_SAMPLES,
            RecordType::THROTTLE,
        ];
        if !kinds.contains(&raw.kind) {
            return;
        }
        match (Record::decode(raw, Some(layout)), released.stream) {
            (Ok(Record::Lost(lost)), Stream::Samples) => self.add_lost(released.cpu, lost.lost),
            (Ok(Record::Lost(lost)), Stream::Sideband) => self.lost_sideband += lost.lost,
            (Ok(Record::LostSamples { lost }), _) => {
                *self.dropped.entry(released.cpu).or_default() += lost;
            }
            (Ok(Record::Throttle { id, .. }), _) => *self.throttled.entry(id).or_default() += 1,
            _ => {}
        }
    }

    /// Counts births, and programs that changed privileges.
    pub(crate) fn count_process(&mut self, event: &ProcessEvent<'_>) {
        self.born += u64::from(matches!(event, ProcessEvent::Forked { .. }));
        self.privileged += u64::from(self.privileged_execs.handle(event));
    }

    pub(crate) fn add_lost(&mut self, cpu: u32, lost: u64) {
        *self.lost.entry(cpu).or_default() += lost;
    }

    pub(crate) fn lost_on(&self, cpu: u32) -> u64 {
        self.lost.get(&cpu).copied().unwrap_or(0)
    }

    pub(crate) fn all_lost(&self) -> u64 {
        self.lost.values().chain(self.dropped.values()).sum()
    }

    pub(crate) fn times_throttled(&self) -> u64 {
        self.throttled.values().sum()
    }

    pub(crate) fn add(&mut self, later: &Tally) {
        self.samples += later.samples;
        self.waits += later.waits;
        self.idle += later.idle;
        self.lost_sideband += later.lost_sideband;
        self.born += later.born;
        self.privileged += later.privileged;
        self.late += later.late;
        self.trace.add(&later.trace);
        for (cpu, lost) in &later.lost {
            self.add_lost(*cpu, *lost);
        }
        for (cpu, dropped) in &later.dropped {
            *self.dropped.entry(*cpu).or_default() += dropped;
        }
        for (id, times) in &later.throttled {
            *self.throttled.entry(*id).or_default() += times;
        }
        self.first_sample = self.first_sample.or(later.first_sample);
        self.last_sample = self.last_sample.max(later.last_sample);
        self.last = self.last.max(later.last);
    }

    pub(crate) fn notes(&self) -> Vec<(String, String)> {
        let note = |key: &str, value: u64| (key.to_owned(), value.to_string());
        let mut notes = vec![
            note("samples", self.samples),
            note("lost", self.all_lost()),
            note("lost.sideband", self.lost_sideband),
            note("throttled", self.times_throttled()),
        ];
        for (cpu, lost) in &self.lost {
            notes.push(note(&format!("lost.cpu{cpu}"), *lost));
        }
        for (cpu, dropped) in &self.dropped {
            notes.push(note(&format!("dropped.cpu{cpu}"), *dropped));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_late_if_readers_have_returned_later_ones() {
        let mut tally = Tally::default();
        let mut late = |time, cpu| {
            let released = Released {
                time,
                cpu,
                stream: Stream::Samples,
                bytes: &[],
            };
            let before = tally.late;
            tally.count_late(&released);
            if time.is_multiple_of(10) {
                tally.end_round();
            }
            tally.late > before
        };
        // Every tenth record ends a round.
        for (time, is_late) in [(5, false), (3, false), (10, false), (9, false), (20, false)] {
            assert_eq!(late(time, 0), is_late, "{time}");
        }
        for (time, is_late) in [(9, true), (11, false), (30, false), (19, true), (21, false)] {
            assert_eq!(late(time, 0), is_late, "{time}");
        }
        assert!(!late(1, NO_CPU));
    }
}

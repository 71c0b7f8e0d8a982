//! [`Snapshot`]: all counters at one moment.

use crate::per::Per;
use crate::places::Place;
use crate::table::{Table, part_of};
use crate::topology::Topology;
use rprof_perf_event::{ReadError, Reading};
use std::sync::Arc;

/// Reading of one event in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlaceReading {
    /// Index of the place.
    pub(crate) place: usize,
    /// Number of the event.
    pub(crate) event: usize,
    pub(crate) reading: Result<Reading, ReadError>,
}

/// Readings of all counters of a session at one moment, since it began.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) events: usize,
    pub(crate) places: Arc<Vec<Place>>,
    pub(crate) topology: Arc<Topology>,
    pub(crate) readings: Vec<PlaceReading>,
}

impl Snapshot {
    /// Returns what was counted from an earlier snapshot of the same session to this one.
    ///
    /// Counters are not reset for that: a reset leaves the counts of threads that have ended as they are, and what
    /// happens between reading and reset would be lost.
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        let mut readings = self.readings.clone();
        // Counters are read in the same order each time.
        for (now, before) in readings.iter_mut().zip(&earlier.readings) {
            if let (Ok(now), Ok(before)) = (&mut now.reading, before.reading) {
                *now = now.since(&before);
            }
        }
        Snapshot {
            readings,
            ..self.clone()
        }
    }

    /// Adds up the readings by parts of the target.
    pub fn table(&self, per: Per) -> Table {
        let mut table = Table::new(self.events);
        let is_command = self.places.iter().any(|place| place.is_followed);
        for PlaceReading {
            place,
            event,
            reading,
        } in &self.readings
        {
            let place = self.places.get(*place);
            // The whole command has these counts, too.
            if let Some(place) = place.filter(|place| per == Per::Thread || !place.is_followed) {
                table.add(
                    part_of(place, per, &self.topology, is_command),
                    *event,
                    *reading,
                );
            }
        }
        if per == Per::Thread && is_command {
            table.take_apart();
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Part;

    fn snapshot(readings: &[(usize, u64, u64, u64)]) -> Snapshot {
        Snapshot {
            events: 1,
            places: Arc::new(vec![Place::cpu(0), Place::cpu(1)]),
            topology: Arc::new(Topology::default()),
            readings: (readings.iter())
                .map(|(place, value, enabled, running)| PlaceReading {
                    place: *place,
                    event: 0,
                    reading: Ok(Reading {
                        value: *value,
                        enabled: Some(*enabled),
                        running: Some(*running),
                        ..Reading::default()
                    }),
                })
                .collect(),
        }
    }

    #[test]
    fn an_interval_has_its_own_counts_and_times() {
        let first = snapshot(&[(0, 5, 10, 10), (1, 7, 10, 10)]);
        let second = snapshot(&[(0, 9, 20, 20), (1, 7, 10, 10)]);
        let table = second.since(&first).table(Per::Cpu);
        let count = |cpu| table.count(Part::Cpu(cpu), 0).unwrap();
        assert_eq!((count(0).exact(), count(0).enabled), (Some(4), 10));
        // Nothing ran there: zero, and not "not counted".
        assert_eq!(count(1).exact(), Some(0));
        assert_eq!(second.table(Per::All).count(Part::All, 0).unwrap().raw, 16);
    }

    #[test]
    fn a_part_of_an_interval_is_scaled_by_the_times_of_the_interval() {
        let first = snapshot(&[(0, 100, 10, 10)]);
        let second = snapshot(&[(0, 110, 20, 15)]);
        let count = second
            .since(&first)
            .table(Per::All)
            .count(Part::All, 0)
            .unwrap();
        assert_eq!((count.value(), count.share()), (Some(20), 0.5));
    }
}

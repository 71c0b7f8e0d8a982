//! [`Snapshot`]: readings of all counters at one time.

use crate::places::Per;
use crate::places::Place;
use crate::table::{CountTable, part_of};
use crate::topology::Topology;
use rprof_perf_event::{ReadError, Reading};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlaceReading {
    pub(crate) place: usize,
    pub(crate) event: usize,
    pub(crate) reading: Result<Reading, ReadError>,
}

/// Readings of all counters of a session at one time, since its start.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) events: usize,
    pub(crate) places: Arc<Vec<Place>>,
    pub(crate) topology: Arc<Topology>,
    /// True for each event whose counter shows a level instead of a sum; indexed by event.
    pub(crate) levels: Arc<[bool]>,
    pub(crate) readings: Vec<PlaceReading>,
}

impl Snapshot {
    /// Returns the counts since an earlier snapshot of the same session.
    ///
    /// Counters are not reset: a reset does not clear the counts of ended threads, and loses events
    /// between reading and reset.
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        let mut readings = self.readings.clone();
        // Counters are always read in the same order.
        for (now, before) in readings.iter_mut().zip(&earlier.readings) {
            let is_level = self.levels.get(now.event).is_some_and(|level| *level);
            if let (Ok(now), Ok(before)) = (&mut now.reading, before.reading) {
                let level = now.value;
                *now = now.since(&before);
                if is_level {
                    // Keeps the final level: a difference would be 0 or negative.
                    now.value = level;
                }
            }
        }
        Snapshot {
            readings,
            ..self.clone()
        }
    }

    /// Combines runs of a command, each with its event indexes and counts. `events` is the total
    /// number of events.
    pub fn joined(events: usize, passes: Vec<(Vec<usize>, Snapshot)>) -> Snapshot {
        let mut joined = Snapshot {
            events,
            places: Arc::default(),
            topology: Arc::default(),
            levels: vec![false; events].into(),
            readings: Vec::new(),
        };
        let mut places = Vec::new();
        for (numbers, pass) in passes {
            let before = places.len();
            places.extend(pass.places.iter().cloned());
            let readings = pass.readings.into_iter().filter_map(|reading| {
                Some(PlaceReading {
                    place: before + reading.place,
                    event: *numbers.get(reading.event)?,
                    ..reading
                })
            });
            joined.readings.extend(readings);
        }
        joined.places = Arc::new(places);
        joined
    }

    /// Sums up the readings by part of the target.
    pub fn table(&self, per: Per) -> CountTable {
        let mut table = CountTable::new(self.events);
        let is_command = self.places.iter().any(|place| place.is_followed);
        for PlaceReading {
            place,
            event,
            reading,
        } in &self.readings
        {
            let place = self.places.get(*place);
            // The counts of the whole command include these.
            if let Some(place) = place.filter(|place| per.is_by_thread() || !place.is_followed) {
                table.add(
                    part_of(place, per, &self.topology, is_command),
                    *event,
                    *reading,
                );
            }
        }
        if per.is_by_thread() && is_command {
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
            levels: [false].into(),
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
        // Nothing ran there: the count is zero, not missing.
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

    #[test]
    fn a_level_is_shown_as_it_is() {
        let mut first = snapshot(&[(0, 900, 10, 10)]);
        let mut second = snapshot(&[(0, 400, 20, 20)]);
        (first.levels, second.levels) = ([true].into(), [true].into());
        let count = second
            .since(&first)
            .table(Per::All)
            .count(Part::All, 0)
            .unwrap();
        assert_eq!((count.exact(), count.enabled), (Some(400), 10));
    }

    #[test]
    fn passes_are_put_together_event_by_event() {
        let (a, b) = (
            snapshot(&[(0, 5, 10, 10), (1, 6, 10, 10)]),
            snapshot(&[(1, 70, 8, 8)]),
        );
        let joined = Snapshot::joined(3, vec![(vec![2], a), (vec![0], b)]);
        let table = joined.table(Per::All);
        let exact = |event| table.count(Part::All, event).map(|count| count.exact());
        assert_eq!(
            [exact(0), exact(1), exact(2)],
            [Some(Some(70)), None, Some(Some(11))]
        );
    }

    #[test]
    fn threads_of_a_process_are_added_up() {
        use rprof_launch::TargetThread;
        let thread = |pid, tid| Place {
            is_followed: false,
            ..Place::followed(TargetThread { pid, tid })
        };
        let mut attached = snapshot(&[(0, 1, 10, 10), (1, 2, 10, 10), (2, 4, 10, 10)]);
        attached.places = Arc::new(vec![thread(7, 7), thread(7, 8), thread(9, 9)]);
        let table = attached.table(Per::Process);
        let parts: Vec<_> = (table.parts())
            .map(|part| (part, table.count(part, 0).unwrap().raw))
            .collect();
        assert_eq!(parts, [(Part::Process(7), 3), (Part::Process(9), 4)]);
    }
}

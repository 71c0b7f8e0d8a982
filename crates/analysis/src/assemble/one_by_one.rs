//! Single samples: compact rows of all workers, as columns or streams.

use rprof_profile::{
    AggregatedStack, ProfileBuilder, ProfileSample, SampleColumns, SampleStreams, StreamedSample,
};

use rustc_hash::FxHashSet;

use crate::options::Options;
use crate::sample_pass::compact_rows::{BlockRows, RowsInTime};

/// Index of the profile's entry, by worker and key number.
#[derive(Debug, Default)]
pub(super) struct Entries(Vec<Vec<Option<u32>>>);

impl Entries {
    /// Adds the entries of the next worker's keys; `None` for rejected samples.
    pub(super) fn add(&mut self, entries: impl Iterator<Item = Option<u32>>) {
        self.0.push(entries.collect());
    }

    /// Passes all samples to the builder. `awake` holds the entries of waits for a CPU after a
    /// wakeup.
    pub(super) fn keep_samples(
        &self,
        rows: Vec<Vec<BlockRows>>,
        (entries, awake): (&[AggregatedStack], &FxHashSet<u32>),
        options: &Options,
        builder: &mut ProfileBuilder,
    ) {
        let mut columns = options.columns.then(SampleColumns::default);
        let mut streams = options.streams.then(SampleStreams::default);
        let rows = RowsInTime::new(rows).filter_map(|(worker, row)| {
            let entry = (*self.0.get(worker)?.get(row.entry as usize)?)?;
            Some(StreamedSample { entry, ..row })
        });
        let mut keep = |row: StreamedSample| {
            let Some(entry) = entries.get(row.entry as usize) else {
                return;
            };
            if let Some(columns) = &mut columns {
                columns.push(ProfileSample {
                    time: row.time,
                    cpu: row.cpu,
                    thread: entry.thread,
                    stack: entry.stack,
                    event: entry.event,
                    weight: row.weight,
                });
            }
            if let Some(streams) = &mut streams {
                streams.push(entry.thread, row);
            }
        };
        match awake.is_empty() {
            true => rows.for_each(keep),
            false => {
                let mut rows: Vec<StreamedSample> = rows.collect();
                end_with_wakeup(&mut rows, entries, awake);
                rows.into_iter().for_each(&mut keep);
            }
        }
        if let Some(columns) = columns {
            builder.set_columns(columns);
        }
        if let Some(streams) = streams {
            builder.set_streams(streams);
        }
    }
}

/// Ends each blocked wait at its wakeup. Both parts of a wait (blocked, and waiting for a CPU) are
/// recorded at its end. Keeps the time order.
fn end_with_wakeup(
    rows: &mut [StreamedSample],
    entries: &[AggregatedStack],
    awake: &FxHashSet<u32>,
) {
    let of = |row: &StreamedSample| {
        let entry = entries.get(row.entry as usize);
        entry.map(|entry| (entry.thread, entry.event))
    };
    for moment in rows.chunk_by_mut(|one, next| one.time == next.time) {
        let parts: Vec<_> = (moment.iter())
            .filter(|row| awake.contains(&row.entry))
            .map(|row| (of(row), row.weight))
            .collect();
        for (whose, weight) in parts {
            let blocked = moment
                .iter_mut()
                .filter(|row| of(row) == whose && !awake.contains(&row.entry));
            blocked.for_each(|row| row.time = row.time.saturating_sub(weight));
        }
    }
    rows.sort_by_key(|row| row.time);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::{StackId, ThreadId};

    #[test]
    fn what_a_thread_was_blocked_for_ends_where_it_was_woken() {
        let entry = |thread, event| AggregatedStack {
            event,
            thread: ThreadId(thread),
            stack: StackId(0),
            samples: 1,
            weight: 1,
        };
        let entries = [entry(0, 1), entry(0, 1), entry(1, 1), entry(0, 0)];
        let row = |time, entry, weight| StreamedSample {
            time,
            cpu: None,
            entry,
            weight,
        };
        let mut rows = [
            row(50, 3, 1),
            row(100, 0, 30),
            row(100, 1, 40),
            row(100, 2, 7),
            row(100, 3, 1),
            row(120, 0, 5),
        ];
        end_with_wakeup(&mut rows, &entries, &FxHashSet::from_iter([1]));
        let times = rows.map(|row| (row.time, row.entry, row.weight));
        let expected = [
            (50, 3, 1),
            (60, 0, 30),
            (100, 1, 40),
            (100, 2, 7),
            (100, 3, 1),
            (120, 0, 5),
        ];
        assert_eq!(times, expected);
    }
}

//! Samples one by one: compact rows of all workers, as columns or streams of the profile.

use rprof_profile::{
    AggregatedStack, ProfileBuilder, Sample, SampleColumns, SampleStreams, StreamedSample,
};

use crate::options::Options;
use crate::sample_pass::compact_rows::{BlockRows, RowsInTime};

/// Index of the profile's entry, by worker and by the number of the worker's own key.
#[derive(Debug, Default)]
pub(super) struct Entries(Vec<Vec<Option<u32>>>);

impl Entries {
    /// Adds the entries of the next worker's keys, in the order of their numbers; `None` for samples that do not count.
    pub(super) fn add(&mut self, entries: impl Iterator<Item = Option<u32>>) {
        self.0.push(entries.collect());
    }

    /// Gives the builder the samples of all workers, as the options ask for them.
    pub(super) fn keep_samples(
        &self,
        rows: Vec<Vec<BlockRows>>,
        entries: &[AggregatedStack],
        options: &Options,
        builder: &mut ProfileBuilder,
    ) {
        let mut columns = options.columns.then(SampleColumns::default);
        let mut streams = options.streams.then(SampleStreams::default);
        for (worker, row) in RowsInTime::new(rows) {
            let known = self.0.get(worker);
            let Some(Some(number)) = known.and_then(|keys| keys.get(row.entry as usize)) else {
                continue;
            };
            let Some(entry) = entries.get(*number as usize) else {
                continue;
            };
            if let Some(columns) = &mut columns {
                columns.push(Sample {
                    time: row.time,
                    cpu: row.cpu,
                    thread: entry.thread,
                    stack: entry.stack,
                    event: entry.event,
                    weight: row.weight,
                });
            }
            if let Some(streams) = &mut streams {
                let entry_of_profile = StreamedSample {
                    entry: *number,
                    ..row
                };
                streams.push(entry.thread, entry_of_profile);
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

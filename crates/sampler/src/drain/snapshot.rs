use super::batch::{Batch, NO_CPU, Stream};
use super::drainer::{Layouts, time_of};
use super::trim;
use crate::open::OverwrittenRing;
use crossbeam_channel::Sender;
use rprof_perf_event::ring::MAX_RECORD;
use rprof_records::RawBytes;

pub(super) const SNAPSHOT_BATCH: usize = 128 << 10;

#[derive(Debug)]
pub(crate) struct SnapshotSender {
    pub(super) sender: Sender<Batch>,
    pub(super) layouts: Layouts,
}

#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    bytes: Vec<u8>,
    /// Time, offset and length.
    records: Vec<(u64, usize, usize)>,
}

impl SnapshotSender {
    pub(crate) fn add(&self, record: RawBytes<'_>, snapshot: &mut Snapshot) {
        let start = snapshot.bytes.len();
        let Layouts { dumps, bases, .. } = &self.layouts;
        trim::put(record, dumps, bases, &mut snapshot.bytes, usize::MAX);
        let time = time_of(&record, &self.layouts.samples).unwrap_or(0);
        let length = snapshot.bytes.len() - start;
        snapshot.records.push((time, start, length));
    }

    /// Sends the records in time order. Returns the bytes that did not fit.
    pub(crate) fn send(&self, mut snapshot: Snapshot) -> u64 {
        snapshot.records.sort_by_key(|(time, ..)| *time);
        let mut unsent = 0;
        let mut send = |bytes: Vec<u8>| {
            let length = bytes.len() as u64;
            let batch = Batch {
                cpu: NO_CPU,
                stream: Stream::Samples,
                bytes,
                watermark: 0,
            };
            if self.sender.try_send(batch).is_err() {
                unsent += length;
            }
        };
        let mut bytes = Vec::new();
        for (_, start, length) in &snapshot.records {
            if bytes.len() + length > SNAPSHOT_BATCH && !bytes.is_empty() {
                send(std::mem::take(&mut bytes));
            }
            bytes.extend_from_slice(&snapshot.bytes[*start..start + length]);
        }
        if !bytes.is_empty() {
            send(bytes);
        }
        unsent
    }
}

pub(super) fn places(bytes: usize) -> usize {
    // A batch may be smaller than its limit by one record.
    bytes.div_ceil(SNAPSHOT_BATCH - MAX_RECORD) + usize::from(bytes > 0)
}

/// Rings whose oldest records the kernel overwrites.
#[derive(Debug, Default)]
pub(crate) struct OverwrittenRings {
    rings: Vec<OverwrittenRing>,
}

impl OverwrittenRings {
    pub(crate) fn new(rings: Vec<OverwrittenRing>) -> OverwrittenRings {
        OverwrittenRings { rings }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rings.is_empty()
    }

    pub(crate) fn ring_bytes(&self) -> Option<usize> {
        self.rings.first().map(|ring| ring.ring.size())
    }

    pub(crate) fn bytes(&self) -> usize {
        self.rings.iter().map(|ring| ring.ring.size()).sum()
    }

    /// Passes the new records to `put`, CPU by CPU, oldest first.
    pub(crate) fn take(&mut self, mut put: impl FnMut(RawBytes<'_>)) {
        // All rings are paused first, so that they end at the same time.
        for ring in &self.rings {
            // Before Linux 4.7 there is no pause; records overwritten meanwhile are skipped.
            ring.event.pause_output(true).ok();
        }
        for ring in &mut self.rings {
            ring.ring.take(&mut put);
        }
        for ring in &self.rings {
            ring.event.pause_output(false).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::stack_bases::StackBases;
    use super::*;
    use crossbeam_channel::bounded;
    use rprof_records::{Attr, Endian, Misc, SampleFields, SampleLayout, SampleType};
    use std::sync::Arc;

    #[test]
    fn samples_of_all_cpus_come_in_the_order_of_time() {
        let attr = Attr {
            sample_type: SampleType::IDENTIFIER | SampleType::TIME | SampleType::RAW,
            ..Attr::default()
        };
        let layout = SampleLayout::new(&attr, Endian::NATIVE);
        let (sender, receiver) = bounded(100);
        let sender = SnapshotSender {
            sender,
            layouts: Layouts {
                samples: layout.clone(),
                sideband: layout.clone(),
                dumps: Arc::default(),
                bases: StackBases::default(),
            },
        };
        let mut snapshot = Snapshot::default();
        let times = [1, 4, 9, 10, 2, 3, 9, 11];
        let mut bytes = 0;
        for time in times {
            let fields = SampleFields {
                time,
                raw: vec![7; 20_000 * (time as usize % 4)],
                ..SampleFields::default()
            };
            let mut record = Vec::new();
            fields.encode(Misc::USER, &layout, &mut record).unwrap();
            bytes += record.len();
            sender.add(RawBytes::from(&record[..]), &mut snapshot);
        }
        assert_eq!(sender.send(snapshot), 0);
        let batches: Vec<Batch> = receiver.try_iter().collect();
        assert!(batches.len() > 1 && batches.len() <= places(bytes));
        let mut sent = Vec::new();
        for batch in &batches {
            assert_eq!((batch.cpu, batch.watermark), (NO_CPU, 0));
            let mut rest = RawBytes::from(&batch.bytes[..]);
            while let Some(raw) = rprof_records::RawRecord::parse(rest, Endian::NATIVE) {
                sent.push(layout.time_of(&raw).unwrap());
                rest = rest.get_from(raw.size()).unwrap();
            }
        }
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        assert_eq!(sent, sorted);
    }
}

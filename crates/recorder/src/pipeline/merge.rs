//! Merges the batches of all CPUs into one order by time.
//!
//! The records of one CPU arrive sorted, but CPUs send at different times. A record may be released
//! once no CPU can send an earlier one, according to the watermarks:
//!
//! ```text
//!   CPU 0  ---a----c---------|  watermark 9      released: everything before
//!   CPU 1  -----b--------|      watermark 7      min(9, 7) = 7, sorted
//! ```

use std::collections::VecDeque;

use rprof_records::{Endian, RawBytes, RawRecord, SampleLayout};
use rprof_sampler::{Batch, NO_CPU, Stream};
use rustc_hash::FxHashMap;

use super::flood::FloodFilter;
use super::waiting::{Key, WaitingRecord, WaitingRecords};

/// Maximum pending bytes on up to 32 CPUs. Beyond it, the oldest records are released regardless of
/// watermarks. It needs a drain thread that stops for seconds.
const MAX_PENDING: usize = 64 << 20;

/// Maximum pending bytes per CPU on larger machines. 256 busy CPUs send 1.3 GB per second, so a lag
/// of 100 ms makes 130 MB wait.
const PENDING_OF_CPU: usize = 2 << 20;

/// Bytes per CPU to push before the next release.
const MUCH_OF_CPU: usize = 512 << 10;

/// Maximum uncopied batches per ring. Further ones are copied, so that the drain thread gets its
/// buffers back while another CPU lags.
const MAX_HELD: usize = 4;

/// Merges batches by (time, sideband first, CPU, sequence).
#[derive(Debug)]
pub struct Merge {
    samples: SampleLayout,
    sideband: SampleLayout,
    flood: FloodFilter,
    /// Nanoseconds subtracted from inexact watermarks.
    slack: u64,
    watermarks: Vec<u64>,
    /// Index of each CPU in `watermarks`; its rings start at twice the index.
    places: FxHashMap<u32, usize>,
    /// Numbers of the uncopied batches of each ring, oldest first; some may be finished. The last
    /// entry is for batches of no CPU.
    rings: Vec<VecDeque<usize>>,
    most_pending: usize,
    /// Batches with pending records, in order of arrival.
    held: VecDeque<HeldBatch>,
    /// Number of the first held batch. Batches are numbered in order of arrival.
    first_held: usize,
    done: Vec<Batch>,
    pending: WaitingRecords,
    pending_bytes: usize,
    high_water: usize,
    sequence: u64,
    last_bound: u64,
    damaged: u64,
}

#[derive(Debug)]
struct HeldBatch {
    batch: Batch,
    waiting: usize,
    /// True if the buffer was returned and this is a copy.
    is_copy: bool,
}

/// A released record.
#[derive(Clone, Copy, Debug)]
pub struct Released<'a> {
    /// Time in nanoseconds, on the records' clock.
    pub time: u64,
    /// CPU of the record's ring.
    pub cpu: u32,
    /// Ring of the record.
    pub stream: Stream,
    /// The record, with its header.
    pub bytes: &'a [u8],
}

impl<'a> Released<'a> {
    /// Parses the record's header. `None` if it is damaged.
    pub fn raw(&self) -> Option<RawRecord<'a>> {
        RawRecord::parse(RawBytes::from(self.bytes), Endian::NATIVE)
    }
}

impl Merge {
    /// Creates a merge for these CPUs, with the record layouts of their rings. `slack` is the
    /// maximum error of watermarks in nanoseconds.
    pub fn new(cpus: &[u32], samples: SampleLayout, sideband: SampleLayout, slack: u64) -> Merge {
        Merge {
            samples,
            sideband,
            flood: FloodFilter::new(cpus.len()),
            slack,
            watermarks: vec![0; cpus.len()],
            places: cpus.iter().copied().zip(0..).collect(),
            rings: vec![VecDeque::new(); 2 * cpus.len() + 1],
            most_pending: MAX_PENDING.max(PENDING_OF_CPU * cpus.len()),
            held: VecDeque::new(),
            first_held: 0,
            done: Vec::new(),
            pending: WaitingRecords::new(2 * cpus.len() + 1),
            pending_bytes: 0,
            high_water: 0,
            sequence: 0,
            last_bound: 0,
            damaged: 0,
        }
    }

    /// Adds a batch's records and watermark. [`take_done`](Self::take_done) returns the batch.
    pub fn push(&mut self, batch: Batch) {
        let layout = match batch.stream {
            Stream::Samples => &self.samples,
            Stream::Sideband => &self.sideband,
        };
        let number = self.first_held + self.held.len();
        let is_sample = batch.stream == Stream::Samples;
        let place = self.places.get(&batch.cpu).copied();
        let ring = place.map_or(self.rings.len() - 1, |place| {
            2 * place + usize::from(is_sample)
        });
        let mut waiting = 0;
        // Synthesized records come once, from the recorder itself.
        let may_flood = batch.stream == Stream::Sideband && batch.cpu != NO_CPU;
        let mut at = 0;
        while at < batch.bytes.len() {
            let rest = RawBytes::from(&batch.bytes[at..]);
            let Some(record) = RawRecord::parse(rest, Endian::NATIVE) else {
                self.damaged += (batch.bytes.len() - at) as u64;
                break;
            };
            // A record without a time is released next.
            let time = layout.time_of(&record).unwrap_or(0);
            let start = at;
            at += record.size();
            if may_flood && !self.flood.accepts(&record, time) {
                continue;
            }
            self.pending_bytes += record.size();
            let waits = WaitingRecord {
                key: Key::new(time, is_sample, batch.cpu, self.sequence),
                batch: number,
                start: start as u32,
                len: record.size() as u16,
            };
            self.pending.push(ring, waits);
            waiting += 1;
            self.sequence += 1;
        }
        if let Some(watermark) = place.and_then(|place| self.watermarks.get_mut(place)) {
            *watermark = batch.watermark.max(*watermark);
        }
        match waiting {
            0 => self.done.push(batch),
            waiting => {
                self.let_go(ring, number);
                self.held.push_back(HeldBatch {
                    batch,
                    waiting,
                    is_copy: false,
                });
            }
        }
    }

    /// Returns true if records should be released before more batches are pushed.
    pub fn has_much(&self) -> bool {
        self.pending_bytes >= MUCH_OF_CPU * self.watermarks.len()
    }

    /// Adds batch `number` to a ring, and copies the ring's oldest batch if it holds too many.
    fn let_go(&mut self, ring: usize, number: usize) {
        let numbers = &mut self.rings[ring];
        numbers.retain(|number| {
            let held = number.checked_sub(self.first_held);
            let held = held.and_then(|place| self.held.get(place));
            held.is_some_and(|held| held.waiting != 0)
        });
        numbers.push_back(number);
        if numbers.len() <= MAX_HELD {
            return;
        }
        let oldest = numbers.pop_front().map(|number| number - self.first_held);
        if let Some(oldest) = oldest.and_then(|place| self.held.get_mut(place)) {
            let copy = oldest.batch.bytes.as_slice().to_vec();
            let bytes = std::mem::replace(&mut oldest.batch.bytes, copy);
            oldest.is_copy = true;
            let Batch {
                cpu,
                stream,
                watermark,
                ..
            } = oldest.batch;
            self.done.push(Batch {
                bytes,
                cpu,
                stream,
                watermark,
            });
        }
    }

    /// Returns the finished and the copied batches, to recycle their buffers.
    pub fn take_done(&mut self) -> impl Iterator<Item = Batch> {
        self.done.drain(..)
    }

    /// Returns the time before which all records have arrived.
    fn bound(&self) -> u64 {
        match self.watermarks.iter().copied().min() {
            Some(u64::MAX) | None => u64::MAX,
            Some(watermark) => watermark.saturating_sub(self.slack),
        }
    }

    /// Returns the time before which all records were released.
    pub fn reached(&self) -> u64 {
        self.last_bound
    }

    /// Releases all records that no later arrival can precede, sorted. Returns false if there were
    /// none.
    ///
    /// # Errors
    /// Returns the first error of `sink`; drops the other due records.
    pub fn release<E>(
        &mut self,
        mut sink: impl FnMut(Released<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        self.high_water = self.high_water.max(self.pending_bytes);
        let mut bound = self.bound();
        let full = self.pending_bytes > self.most_pending;
        // Nothing is due until a watermark moves. Late records wait for that too.
        if bound == self.last_bound && bound != u64::MAX && !full {
            return Ok(false);
        }
        self.last_bound = bound;
        if full {
            bound = bound.max(self.pending.newest().unwrap_or(0));
        }
        let due = self.pending.take_before(bound);
        if due.is_empty() {
            return Ok(false);
        }
        let mut result = Ok(true);
        for p in due {
            let Some(held) = self.held.get_mut(p.batch - self.first_held) else {
                continue;
            };
            let len = usize::from(p.len);
            self.pending_bytes -= len;
            held.waiting -= 1;
            if result.is_ok() {
                let time = p.key.time;
                let start = p.start as usize;
                let bytes = &held.batch.bytes[start..start + len];
                result = sink(Released {
                    time,
                    cpu: held.batch.cpu,
                    stream: held.batch.stream,
                    bytes,
                })
                .map(|()| true);
            }
            if held.waiting == 0 {
                // Its entry stays until the batches before it are finished.
                let bytes = std::mem::take(&mut held.batch.bytes);
                if !held.is_copy {
                    self.done.push(Batch {
                        bytes,
                        ..held.batch
                    });
                }
            }
        }
        while self.held.pop_front_if(|held| held.waiting == 0).is_some() {
            self.first_held += 1;
        }
        result
    }

    /// Returns the maximum bytes that were pending.
    pub fn high_water(&self) -> usize {
        self.high_water
    }

    /// Returns the number of COMM and mapping records dropped because their processes flood them.
    pub fn flooded(&self) -> u64 {
        self.flood.rejected()
    }

    /// Returns the number of bytes that could not be parsed.
    pub fn damaged_bytes(&self) -> u64 {
        self.damaged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rprof_records::{Attr, AttrFlags, Lost, Misc, Record, SampleFields, SampleId, SampleType};

    fn layout() -> SampleLayout {
        let attr = Attr {
            sample_type: SampleType::IDENTIFIER | SampleType::TIME | SampleType::ADDR,
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..Attr::default()
        };
        SampleLayout::new(&attr, Endian::NATIVE)
    }

    fn record(time: u64, addr: u64, stream: Stream) -> Vec<u8> {
        let mut out = Vec::new();
        match stream {
            Stream::Samples => SampleFields {
                time,
                addr,
                ..SampleFields::default()
            }
            .encode(Misc::USER, &layout(), &mut out)
            .unwrap(),
            Stream::Sideband => {
                let id = SampleId {
                    time: Some(time),
                    ..SampleId::default()
                };
                Record::Lost(Lost { id: addr, lost: 0 })
                    .encode(Misc(0), &layout(), &id, &mut out)
                    .unwrap();
            }
        }
        out
    }

    proptest! {
        /// For any batches in any order of arrival, every record comes out once, sorted.
        #[test]
        fn order_does_not_depend_on_batches(
            streams in proptest::collection::vec(
                proptest::collection::vec((0u64..1000, any::<bool>()), 0..40), 1..4),
            cuts in proptest::collection::vec(1usize..7, 60),
            picks in proptest::collection::vec(any::<usize>(), 200),
        ) {
            let cpus: Vec<u32> = (0..streams.len() as u32).collect();
            let mut all = Vec::new();
            // Each CPU's sorted records, cut into batches with the watermark that the next record
            // allows.
            let mut queues: Vec<Vec<Batch>> = Vec::new();
            let mut cut = cuts.iter().cycle();
            for (cpu, times) in streams.iter().enumerate() {
                let mut times = times.clone();
                times.sort();
                let mut queue = Vec::new();
                let mut at = 0;
                while at < times.len() {
                    let end = (at + cut.next().unwrap()).min(times.len());
                    for stream in [Stream::Sideband, Stream::Samples] {
                        let mut bytes = Vec::new();
                        for (i, (time, is_sample)) in times[at..end].iter().enumerate() {
                            if *is_sample == (stream == Stream::Samples) {
                                let addr = (cpu * 1000 + at + i) as u64;
                                bytes.extend(record(*time, addr, stream));
                                all.push((*time, *is_sample, cpu as u32));
                            }
                        }
                        // Only the second of the two batches completes the time.
                        let watermark = match stream {
                            Stream::Sideband => 0,
                            Stream::Samples => times.get(end).map_or(u64::MAX, |(t, _)| *t),
                        };
                        queue.push(Batch { cpu: cpu as u32, stream, bytes, watermark });
                    }
                    at = end;
                }
                queue.push(Batch { cpu: cpu as u32, stream: Stream::Samples, bytes: vec![], watermark: u64::MAX });
                queue.reverse();
                queues.push(queue);
            }
            let mut merge = Merge::new(&cpus, layout(), layout(), 0);
            let mut out = Vec::new();
            let mut take = |r: Released<'_>| {
                out.push((r.time, r.stream == Stream::Samples, r.cpu));
                Ok::<(), ()>(())
            };
            let (mut pick, mut pushed) = (picks.iter().cycle(), 0);
            while queues.iter().any(|q| !q.is_empty()) {
                let n = pick.next().unwrap() % queues.len();
                let n = (n..n + queues.len()).map(|i| i % queues.len()).find(|i| !queues[*i].is_empty()).unwrap();
                merge.push(queues[n].pop().unwrap());
                pushed += 1;
                merge.release(&mut take).unwrap();
                pushed -= merge.take_done().count();
                // Buffers return even if one CPU lags.
                prop_assert!(pushed <= streams.len() * 2 * (MAX_HELD + 1));
            }
            prop_assert_eq!(pushed, 0);
            all.sort();
            prop_assert_eq!(out, all);
            }
    }

    #[test]
    fn bytes_that_are_no_records_are_counted() {
        let mut merge = Merge::new(&[0], layout(), layout(), 0);
        let mut bytes = record(5, 1, Stream::Samples);
        bytes.extend([0; 16]);
        merge.push(Batch {
            cpu: 0,
            stream: Stream::Samples,
            bytes,
            watermark: u64::MAX,
        });
        let mut n = 0;
        let mut count = |_: Released<'_>| {
            n += 1;
            Ok::<(), ()>(())
        };
        assert_eq!(merge.release(&mut count), Ok(true));
        assert_eq!((n, merge.damaged_bytes()), (1, 16));
    }

    #[test]
    fn a_record_behind_the_watermark_is_not_lost() {
        let mut merge = Merge::new(&[0], layout(), layout(), 0);
        let mut times = Vec::new();
        for (time, watermark) in [(10, 20), (5, u64::MAX)] {
            merge.push(Batch {
                cpu: 0,
                stream: Stream::Samples,
                bytes: record(time, 0, Stream::Samples),
                watermark,
            });
            merge
                .release(|r| {
                    times.push(r.time);
                    Ok::<(), ()>(())
                })
                .unwrap();
        }
        assert_eq!(times, [10, 5]);
    }
}

//! The writer thread: merge, count, write.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use rprof_perfdata::{Feature, FeatureSections};
use rprof_records::{
    Endian, Lost, Misc, RawBytes, RawRecord, Record, RecordType, SampleId, SampleLayout, put_record,
};
use rprof_sampler::{Batch, Recycler, Stream};

use crate::images::Images;
use crate::kernel_maps;
use crate::merge::{Merge, Released};
use crate::sink::Sink;
use crate::summary::Live;

/// Least time between two rounds.
const ROUND: Duration = Duration::from_millis(100);

/// Everything the writer thread owns.
pub(crate) struct Writing {
    pub(crate) batches: Receiver<Batch>,
    pub(crate) recycler: Recycler,
    pub(crate) merge: Merge,
    pub(crate) sink: Sink,
    pub(crate) live: Arc<Live>,
    pub(crate) samples: SampleLayout,
    pub(crate) sideband: SampleLayout,
}

/// What it knows when all batches are taken.
pub(crate) struct Written {
    pub(crate) sink: Sink,
    pub(crate) images: Images,
    pub(crate) tally: Tally,
    pub(crate) late: u64,
    pub(crate) damaged_bytes: u64,
    /// The first failure to write. What was written before is in the file.
    pub(crate) failure: Option<io::Error>,
    samples: SampleLayout,
}

/// Counts of what went into the file.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) samples: u64,
    pub(crate) throttled: u64,
    /// Lost samples told by LOST records, by CPU.
    pub(crate) lost: Vec<(u32, u64)>,
    pub(crate) first_sample: Option<u64>,
    pub(crate) last_sample: u64,
    pub(crate) last: u64,
}

impl Writing {
    /// Takes batches until no more can come. Goes on taking them after a failure
    /// to write, so that nobody waits for this thread.
    pub(crate) fn run(mut self) -> Written {
        let mut images = Images::default();
        let mut tally = Tally::default();
        let mut made_up = Vec::new();
        kernel_maps::append(&self.samples, &mut made_up);
        let mut failure = self.sink.write_records(&made_up).err();
        let mut round = Instant::now();
        while let Ok(batch) = self.batches.recv() {
            self.merge.push(&batch);
            self.recycler.recycle(batch);
            // A batch that waits already is taken in before anything is released.
            while let Ok(batch) = self.batches.try_recv() {
                self.merge.push(&batch);
                self.recycler.recycle(batch);
            }
            let Writing {
                merge,
                sink,
                sideband,
                samples,
                live,
                ..
            } = &mut self;
            let released = merge.release(|r| {
                note(&r, &mut tally, &mut images, samples, sideband);
                match failure {
                    None => sink.write_records(r.bytes),
                    Some(_) => Ok(()),
                }
            });
            let ended = match released {
                Ok(true) if failure.is_none() && round.elapsed() >= ROUND => {
                    round = Instant::now();
                    end_round(sink)
                }
                Ok(_) => Ok(()),
                Err(e) => Err(e),
            };
            failure = failure.or(ended.err());
            live.samples.store(tally.samples, Ordering::Relaxed);
            live.bytes.store(sink.len(), Ordering::Relaxed);
            let lost = tally.lost.iter().map(|(_, n)| n).sum();
            live.lost.store(lost, Ordering::Relaxed);
        }
        Written {
            late: self.merge.late(),
            damaged_bytes: self.merge.damaged_bytes(),
            sink: self.sink,
            images,
            tally,
            failure,
            samples: self.samples,
        }
    }
}

/// Ends a round: readers may then sort and release what they hold. What was
/// written so far survives if this process is killed.
fn end_round(sink: &mut Sink) -> io::Result<()> {
    let mut round = Vec::new();
    put_record(
        &mut round,
        RecordType::FINISHED_ROUND,
        Misc(0),
        Endian::NATIVE,
        |_| (),
    )
    .map_err(io::Error::other)?;
    sink.write_records(&round)?;
    sink.checkpoint()
}

/// Counts a record, and takes note of mappings.
fn note(
    released: &Released<'_>,
    tally: &mut Tally,
    images: &mut Images,
    samples: &SampleLayout,
    sideband: &SampleLayout,
) {
    tally.last = tally.last.max(released.time);
    let Some(raw) = RawRecord::parse(RawBytes::from(released.bytes), Endian::NATIVE) else {
        return;
    };
    match (raw.kind, released.stream) {
        (RecordType::SAMPLE, _) => {
            tally.samples += 1;
            tally.first_sample.get_or_insert(released.time);
            tally.last_sample = tally.last_sample.max(released.time);
        }
        (RecordType::THROTTLE, _) => tally.throttled += 1,
        (RecordType::LOST, Stream::Samples) => {
            if let Ok(Record::Lost(lost)) = Record::decode(&raw, Some(samples)) {
                tally.add_lost(released.cpu, lost.lost);
            }
        }
        (RecordType::MMAP2, Stream::Sideband) => {
            if let Ok(record) = Record::decode(&raw, Some(sideband)) {
                images.take(&record);
            }
        }
        _ => {}
    }
}

impl Tally {
    pub(crate) fn add_lost(&mut self, cpu: u32, n: u64) {
        match self.lost.iter_mut().find(|(c, _)| *c == cpu) {
            Some((_, sum)) => *sum += n,
            None => self.lost.push((cpu, n)),
        }
    }

    fn lost_on(&self, cpu: u32) -> u64 {
        (self.lost.iter())
            .find_map(|(c, n)| (*c == cpu).then_some(*n))
            .unwrap_or(0)
    }
}

impl Written {
    /// Notes how many samples a CPU lost in all, `id` being its event there.
    /// Those that no LOST record told, since the ring stayed full to the end, get
    /// one here.
    pub(crate) fn settle_lost(&mut self, cpu: u32, id: u64, lost: u64) -> io::Result<()> {
        let untold = lost.saturating_sub(self.tally.lost_on(cpu));
        if untold == 0 {
            return Ok(());
        }
        self.tally.add_lost(cpu, untold);
        let trailer = SampleId {
            time: Some(self.tally.last),
            id: Some(id),
            cpu: Some(cpu),
            ..SampleId::default()
        };
        let mut out = Vec::new();
        Record::Lost(Lost { id, lost: untold })
            .encode(Misc(0), &self.samples, &trailer, &mut out)
            .map_err(io::Error::other)?;
        self.sink.write_records(&out)
    }

    /// Ends the recording; answers its length in bytes. `notes` are rprof's own.
    pub(crate) fn finish(
        self,
        mut features: FeatureSections,
        notes: &[(String, String)],
    ) -> io::Result<u64> {
        features.insert_build_ids(&self.images.build_ids());
        let first = self.tally.first_sample.unwrap_or(0);
        features.insert_words(Feature::SAMPLE_TIME, &[first, self.tally.last_sample]);
        features.insert_private(notes);
        self.sink.finish(features)
    }
}

/// What the header says from the start: machine, recorder, command line.
pub(crate) fn start_features(command_line: &[String], online: u32) -> FeatureSections {
    let mut features = FeatureSections::new(Endian::NATIVE);
    crate::machine::describe(&mut features, online);
    let version = concat!("rprof ", env!("CARGO_PKG_VERSION"));
    features.insert_string(Feature::VERSION, version);
    features.insert_command_line(command_line);
    features
}

//! The file that is written, and those that follow it.
//!
//! ```text
//!   perf.data ... --switch--> renamed to perf.data.STAMP, finished
//!   perf.data: header, what lives (State), the records that follow ... --switch--> ...
//! ```
//!
//! A switch falls between two records: the last of a file is older than the first of
//! the next one. Where a time is the reason, it is exactly that time that divides them.

mod switching;
mod wall_clock;

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rprof_perfdata::{EventDescription, FeatureSections, WriteOptions};
use rprof_records::{
    Endian, Misc, RawBytes, RawRecord, Record, RecordType, SampleId, SampleLayout, put_record,
};
use rprof_sampler::{Sieve, Stream};

use crate::images::Images;
use crate::keeping::Keeper;
use crate::kernel_maps;
use crate::merge::Released;
use crate::sink::Sink;
use crate::state::State;
use crate::summary::Live;
use crate::tally::{Tally, Tasks};

/// When to go on in another file, and how many to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    /// After so long.
    pub every: Option<Duration>,
    /// Once a file has so many bytes of records.
    pub bytes: Option<u64>,
    /// How many files to keep; the oldest goes first.
    pub keep: Option<u32>,
}

/// How each file is made.
#[derive(Debug)]
pub(crate) struct How {
    pub(crate) events: Vec<EventDescription>,
    pub(crate) write: WriteOptions,
    /// What is known from the start.
    pub(crate) features: FeatureSections,
    /// Notes that each file gets.
    pub(crate) notes: Vec<(String, String)>,
    pub(crate) samples: SampleLayout,
    pub(crate) sideband: SampleLayout,
    /// Where the files stand; none for a stream.
    pub(crate) path: Option<PathBuf>,
    pub(crate) switch: Option<Switch>,
    /// Bytes of records at which the recording ends.
    pub(crate) max_bytes: Option<u64>,
    /// Samples that are not to be counted.
    pub(crate) sieve: Sieve,
}

/// The file that is written, with what is counted of it.
pub(crate) struct Files {
    pub(crate) how: How,
    sink: Option<Sink>,
    images: Images,
    keeper: Keeper,
    /// Of this file.
    tally: Tally,
    /// Of those before it.
    before: Tally,
    bytes_before: u64,
    finished: VecDeque<PathBuf>,
    /// Kept where another file may follow.
    state: Option<State>,
    tasks: Tasks,
    live: Arc<Live>,
    /// When this file is to end, in time of the records.
    until: Option<u64>,
    /// Nothing more is taken: there are as many bytes as are wanted.
    full: bool,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    /// Bytes of the last file.
    pub(crate) file_bytes: u64,
    /// All files that are kept, where there may be several.
    pub(crate) files: Vec<PathBuf>,
    /// What there is to say of files that were kept, or not.
    pub(crate) told: Vec<String>,
}

impl Files {
    pub(crate) fn new(how: How, sink: Sink, live: Arc<Live>) -> Files {
        let state = how.switch.map(|_| State::default());
        let mut files = Files {
            how,
            sink: Some(sink),
            images: Images::default(),
            keeper: Keeper::default(),
            tally: Tally::default(),
            before: Tally::default(),
            bytes_before: 0,
            finished: VecDeque::new(),
            state,
            tasks: Tasks::default(),
            live,
            until: None,
            full: false,
        };
        files.set_end(rprof_sampler::monotonic_ns());
        files
    }

    /// Writes what stands first in every file: where the kernel lies.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        let mut made_up = Vec::new();
        kernel_maps::append(&self.how.samples, &mut made_up);
        self.sink()?.write_records(&made_up)
    }

    /// A record has come that will be [put](Self::put) in time: takes hold of the files that it speaks of,
    /// which may not be there for long.
    pub(crate) fn notice(&mut self, released: &Released<'_>) {
        if self.full || released.stream == Stream::Samples {
            return;
        }
        let raw = RawRecord::parse(RawBytes::from(released.bytes), Endian::NATIVE);
        if let Some(raw) = raw.filter(|raw| Keeper::wants(raw.kind))
            && let Ok(record) = Record::decode(&raw, Some(&self.how.sideband))
        {
            self.keeper.take(&record, raw.misc, released.time);
        }
    }

    /// Takes the next record.
    pub(crate) fn put(&mut self, released: &Released<'_>) -> io::Result<()> {
        if self.full || !self.how.sieve.takes(released.stream, released.bytes) {
            return Ok(());
        }
        if self.is_over(released.time) {
            self.switch()?;
        }
        if self.would_be_full(released.bytes.len() as u64) {
            self.full = true;
            return Ok(());
        }
        self.note(released);
        self.sink()?.write_records(released.bytes)
    }

    /// Everything before `time` has been taken.
    pub(crate) fn reached(&mut self, time: u64) -> io::Result<()> {
        // The end of all records is no reason for another file.
        match time != u64::MAX && !self.full && self.is_over(time) {
            true => self.switch(),
            false => Ok(()),
        }
    }

    /// Whether there are as many bytes as are wanted.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// Ends a round: readers may then sort and release what they hold. What was
    /// written so far survives if this process is killed.
    pub(crate) fn end_round(&mut self) -> io::Result<()> {
        self.keeper.round();
        let mut round = Vec::new();
        put_record(
            &mut round,
            RecordType::FINISHED_ROUND,
            Misc(0),
            Endian::NATIVE,
            |_| (),
        )
        .map_err(io::Error::other)?;
        let sink = self.sink()?;
        sink.write_records(&round)?;
        sink.checkpoint()
    }

    /// Tells others how far it is.
    pub(crate) fn publish(&self) {
        let bytes = self.sink.as_ref().map_or(0, Sink::len);
        let (now, before, live) = (&self.tally, &self.before, &self.live);
        let samples = now.samples + before.samples;
        live.samples.store(samples, Ordering::Relaxed);
        let lost = now.all_lost() + before.all_lost();
        live.lost.store(lost, Ordering::Relaxed);
        (live.bytes).store(self.bytes_before + bytes, Ordering::Relaxed);
    }

    /// Notes how many samples a CPU lost in all, `id` being its event there.
    /// Those that no LOST record told, since the ring stayed full to the end, get
    /// one here.
    pub(crate) fn settle_lost(&mut self, cpu: u32, id: u64, lost: u64) -> io::Result<()> {
        let told = self.tally.lost_on(cpu) + self.before.lost_on(cpu);
        let untold = lost.saturating_sub(told);
        if untold == 0 {
            return Ok(());
        }
        self.tally.add_lost(cpu, untold);
        let trailer = SampleId {
            time: Some(self.tally.last.max(self.before.last)),
            id: Some(id),
            cpu: Some(cpu),
            ..SampleId::default()
        };
        let mut out = Vec::new();
        let lost = rprof_records::Lost { id, lost: untold };
        Record::Lost(lost)
            .encode(Misc(0), &self.how.samples, &trailer, &mut out)
            .map_err(io::Error::other)?;
        self.sink()?.write_records(&out)
    }

    /// Records of names and mappings that were lost in all.
    pub(crate) fn settle_lost_sideband(&mut self, lost: u64) {
        let told = self.tally.lost_sideband + self.before.lost_sideband;
        self.tally.lost_sideband += lost.saturating_sub(told);
    }

    /// Processes that the command started and that have not ended, as far as was seen.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = i32> + '_ {
        self.tasks.processes()
    }

    /// Counts of all files so far.
    pub(crate) fn total(&self) -> Tally {
        let mut total = self.before.clone();
        total.add(&self.tally);
        total
    }

    /// Ends the last file, with these notes.
    pub(crate) fn finish(mut self, notes: &[(String, String)]) -> io::Result<Finished> {
        let file_bytes = self.finish_file(notes)?;
        if self.how.switch.is_some() {
            self.put_aside()?;
        }
        Ok(Finished {
            file_bytes,
            files: self.finished.into(),
            told: self.keeper.into_told(),
        })
    }

    fn sink(&mut self) -> io::Result<&mut Sink> {
        let gone = || io::Error::other("the file was not made");
        self.sink.as_mut().ok_or_else(gone)
    }

    fn would_be_full(&self, more: u64) -> bool {
        let bytes = self.sink.as_ref().map_or(0, Sink::len);
        (self.how.max_bytes).is_some_and(|most| self.bytes_before + bytes + more > most)
    }

    /// Counts a record, and takes note of what it says.
    fn note(&mut self, released: &Released<'_>) {
        let Some(raw) = RawRecord::parse(RawBytes::from(released.bytes), Endian::NATIVE) else {
            return;
        };
        if raw.kind == RecordType::SAMPLE {
            self.tally.take_sample(released.time);
            return;
        }
        let layout = match released.stream {
            Stream::Samples => &self.how.samples,
            Stream::Sideband => &self.how.sideband,
        };
        self.tally.take(released, &raw, layout);
        let known = State::wants(raw.kind) || Tasks::wants(raw.kind);
        if released.stream == Stream::Samples || !known {
            return;
        }
        if let Ok(record) = Record::decode(&raw, Some(layout)) {
            self.images.take(&record);
            self.tasks.take(&record);
            if let Some(state) = &mut self.state {
                state.take(&raw, &record, released.bytes);
            }
        }
    }
}

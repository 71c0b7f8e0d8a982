//! The file that is written, and those that follow it.
//!
//! ```text
//!   perf.data ... --rotation--> renamed to perf.data.STAMP, finished
//!   perf.data: header, CarriedRecords, the records that follow ... --rotation--> ...
//! ```
//!
//! A rotation falls between two records: the last of a file is older than the first of
//! the next one. Where a time is the reason, it is exactly that time that divides them.
//!
//! | module | holds |
//! |---|---|
//! | `rotation` | from one file to the next |
//! | `carried` | [`CarriedRecords`]: what a file must begin with |
//! | `custom_writer` | [`WriterFactory`]: writers of the caller's |
//! | `sampled_images` | which images samples lie in, where no stack is unwound |
//! | `sink` | [`Sink`]: a file, a stream, or a writer of the caller's |
//! | `tally` | [`Tally`]: counts of what went into a file |
//! | `build_ids` | build-ids of what was mapped, by path |
//! | `identified` | build-ids of what was mapped, by device and inode |
//! | `wall_clock` | time stamps in names of files |
//! | `embedding` | files that a report needs and that will be gone by then |

mod build_ids;
mod carried;
mod custom_writer;
mod embedding;
mod identified;
mod rotation;
mod sampled_images;
mod sink;
mod tally;
mod wall_clock;

pub(crate) use carried::CarriedRecords;
pub use custom_writer::WriterFactory;
pub use embedding::{EmbeddedName, Embedding, NotEmbedded, Notice};
pub(crate) use sink::Sink;
pub(crate) use tally::Tally;

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rprof_output::{OwnFile, RecordingFile, Whereabouts};
use rprof_perfdata::{EventDescription, FeatureSections, WriteOptions};
use rprof_processes::{LiveProcesses, Pid};
use rprof_records::{
    Endian, Misc, ProcessEvent, RawBytes, RawRecord, Record, RecordType, Sample, SampleId,
    put_record,
};
use rprof_sampler::{Clock, Stream, TracePiece};

use crate::backlog::Backlog;
use crate::limits::{Limit, ReachedLimits};
use crate::mapped_files::MappedImage;
use crate::pipeline::deferred::RecordSink;
use crate::pipeline::layouts::Layouts;
use crate::pipeline::merge::Released;
use crate::progress::LiveCounts;
use crate::synthesize::{cgroups, kernel_maps};
use crate::trace;
use build_ids::BuildIds;
use embedding::EmbeddingThread;
use identified::IdentifiedFiles;
use sampled_images::SampledImages;

/// When to go on in another file, and how many files to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RotationPolicy {
    /// Time after which a file ends.
    pub every: Option<Duration>,
    /// Bytes of records after which a file ends.
    pub bytes: Option<u64>,
    /// Number of files that are kept; the oldest goes first.
    pub max_files: Option<u32>,
}

/// Settings common to all files of a recording.
#[derive(Debug)]
pub(crate) struct OutputConfig {
    pub(crate) events: Vec<EventDescription>,
    pub(crate) write: WriteOptions,
    /// Features that are known from the start.
    pub(crate) features: FeatureSections,
    /// Keys and values for the private section of each file.
    pub(crate) notes: Vec<(String, String)>,
    pub(crate) layouts: Arc<Layouts>,
    pub(crate) rotation: Option<RotationPolicy>,
    /// The command, if what it starts is recorded.
    pub(crate) command: Option<Pid>,
    /// Bytes of records at which the recording ends.
    pub(crate) max_bytes: Option<u64>,
    /// Which files are embedded.
    pub(crate) embedding: Embedding,
    /// Stacks are unwound, which tells which images are sampled.
    pub(crate) unwinds: bool,
    pub(crate) backlog: Backlog,
    /// True if samples come after sideband that is later than they are: then no round ends, and readers sort all
    /// records.
    pub(crate) overwrites: bool,
    /// Clock of the records.
    pub(crate) clock: Clock,
    /// True if each file begins with the control groups that there are.
    pub(crate) cgroups: bool,
    /// Record that comes before all traces; empty where nothing is traced.
    pub(crate) trace: Vec<u8>,
    /// Samples of idle CPUs are counted.
    pub(crate) counts_idle: bool,
}

/// The file that is written, with the counts of it and of those before it.
pub(crate) struct RotatingOutput {
    pub(crate) config: OutputConfig,
    sink: Option<Sink>,
    /// The file that is written; `None` for a stream, a file without a name, and a writer of the caller's.
    file: Option<RecordingFile>,
    /// Path of the recording: the file's, unless another stands there.
    path: Option<PathBuf>,
    build_ids: BuildIds,
    identified: IdentifiedFiles,
    embedder: EmbeddingThread,
    /// Images that are sampled, where nobody else tells.
    sampled: Option<SampledImages>,
    /// Files that were embedded, in this file and those before it.
    embedded: Vec<EmbeddedName>,
    /// Limits that were reached in the files before this one.
    limits: ReachedLimits,
    /// Counts of this file.
    tally: Tally,
    /// Counts of the files before it.
    before: Tally,
    bytes_before: u64,
    finished: VecDeque<(PathBuf, OwnFile)>,
    /// Files that others renamed, deleted or replaced.
    moved: Vec<(PathBuf, Whereabouts)>,
    /// Name given to the file before this one.
    last_name: Option<PathBuf>,
    /// `None` where no other file may follow.
    carried: Option<CarriedRecords>,
    /// What the command started.
    processes: Option<LiveProcesses>,
    live: Arc<LiveCounts>,
    /// Time of the records at which this file is to end.
    until: Option<u64>,
    /// True once there are as many bytes as are wanted: nothing more is taken.
    full: bool,
}

/// Result of all files of a recording.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    /// Bytes of the last file.
    pub(crate) file_bytes: u64,
    /// Files that are kept, where there may be several.
    pub(crate) files: Vec<PathBuf>,
    /// Files that others renamed, deleted or replaced.
    pub(crate) moved: Vec<(PathBuf, Whereabouts)>,
    /// Files that were embedded.
    pub(crate) embedded: Vec<EmbeddedName>,
    /// What the user should know of embedded files, and of those that could not be.
    pub(crate) notices: Vec<Notice>,
    /// Limits of embedding that were reached.
    pub(crate) limits: ReachedLimits,
}

impl RotatingOutput {
    /// Begins with `sink`, which writes to `file` if that has a name.
    pub(crate) fn new(
        config: OutputConfig,
        file: Option<RecordingFile>,
        sink: Sink,
        live: Arc<LiveCounts>,
    ) -> RotatingOutput {
        let carried = config.rotation.map(|_| CarriedRecords::default());
        let processes = config.command.map(LiveProcesses::descendants_of);
        let follows_images = config.embedding == Embedding::Unreachable && !config.unwinds;
        let mut output = RotatingOutput {
            embedder: EmbeddingThread::new(config.embedding, config.backlog.clone()),
            sampled: follows_images.then(SampledImages::new),
            config,
            sink: Some(sink),
            path: file.as_ref().map(|file| file.path.clone()),
            file,
            build_ids: BuildIds::default(),
            identified: IdentifiedFiles::default(),
            embedded: Vec::new(),
            limits: ReachedLimits::default(),
            tally: Tally::default(),
            before: Tally::default(),
            bytes_before: 0,
            finished: VecDeque::new(),
            moved: Vec::new(),
            last_name: None,
            carried,
            processes,
            live,
            until: None,
            full: false,
        };
        let now = output.config.clock.now_ns();
        output.set_end(now);
        output
    }

    /// Writes the records that every file begins with: the kernel's own mappings, and control groups.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        let mut made_up = self.config.trace.clone();
        kernel_maps::append(&self.config.layouts.samples, &mut made_up);
        if self.config.cgroups {
            cgroups::append(&self.config.layouts.samples, &mut made_up);
        }
        self.sink()?.write_records(&made_up)
    }

    /// Writes a piece of a trace. Records that speak of it come later. Where the file is full, or its limit reached by
    /// this, it is left out, and so is what comes after it.
    pub(crate) fn put_trace(&mut self, piece: &TracePiece) -> io::Result<()> {
        if self.would_be_full(piece.bytes.len() as u64) {
            self.full = true;
        }
        if self.full {
            return Ok(());
        }
        let reference = self.config.clock.now_ns();
        for record in trace::records(piece, reference) {
            self.sink()?.write_with_payload(&record?)?;
        }
        Ok(())
    }

    /// Has the files looked at that an event speaks of, which may not be there for long. Its record
    /// is [put](RecordSink::put) later, perhaps.
    pub(crate) fn notice(&mut self, event: &ProcessEvent<'_>, time: u64) {
        if !self.full {
            self.embedder.handle(event, time);
            if let Some(sampled) = &mut self.sampled {
                sampled.handle(event);
            }
        }
    }

    /// Handles the first sample in an image, whose file may not be there for long.
    pub(crate) fn handle_sampled(&mut self, image: MappedImage) {
        if !self.full {
            self.embedder.handle_sampled(image);
        }
    }

    /// Rotates if the file ends at `time`; everything before `time` has been put.
    pub(crate) fn reached(&mut self, time: u64) -> io::Result<()> {
        // The end of all records is no reason for another file.
        match time != u64::MAX && !self.full && self.is_over(time) {
            true => self.rotate(),
            false => Ok(()),
        }
    }

    /// Returns true once there are as many bytes as are wanted.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// Ends a round: readers may then sort and release what they hold. What was
    /// written so far survives if this process is killed.
    pub(crate) fn end_round(&mut self) -> io::Result<()> {
        self.embedder.round();
        if self.config.overwrites {
            return self.sink()?.checkpoint();
        }
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

    /// Publishes the counts to other threads.
    pub(crate) fn publish(&self) {
        let bytes = self.sink.as_ref().map_or(0, Sink::len);
        let (now, before, live) = (&self.tally, &self.before, &self.live);
        let samples = now.samples + before.samples;
        live.samples.store(samples, Ordering::Relaxed);
        let lost = now.all_lost() + before.all_lost();
        live.lost.store(lost, Ordering::Relaxed);
        (live.bytes).store(self.bytes_before + bytes, Ordering::Relaxed);
    }

    /// Counts the samples that a CPU lost in all; `id` is the event's id there. Losses that no LOST
    /// record told of, since the ring stayed full to the end, get one here.
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
            .encode(Misc(0), &self.config.layouts.samples, &trailer, &mut out)
            .map_err(io::Error::other)?;
        self.sink()?.write_records(&out)
    }

    /// Counts the sideband records that were lost in all.
    pub(crate) fn settle_lost_sideband(&mut self, lost: u64) {
        let told = self.tally.lost_sideband + self.before.lost_sideband;
        self.tally.lost_sideband += lost.saturating_sub(told);
    }

    /// Returns the processes that the command started and that have not ended, as far as was seen.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = Pid> + '_ {
        self.processes.iter().flat_map(LiveProcesses::pids)
    }

    /// Returns the counts of all files so far.
    pub(crate) fn total(&self) -> Tally {
        let mut total = self.before.clone();
        total.add(&self.tally);
        total
    }

    /// Returns the limits that were reached so far.
    pub(crate) fn limits(&self) -> ReachedLimits {
        let mut limits = self.limits.clone();
        limits.add(Limit::BuildIds, self.build_ids.left_out());
        limits
    }

    /// Ends the last file, with these notes.
    pub(crate) fn finish(mut self, notes: &[(String, String)]) -> io::Result<Finished> {
        let file_bytes = self.finish_file(notes)?;
        match self.config.rotation {
            Some(_) => self.put_aside()?,
            None => self.tell_if_moved(),
        }
        let (notices, limits) = self.embedder.into_notices();
        Ok(Finished {
            file_bytes,
            files: self.finished.into_iter().map(|(path, _)| path).collect(),
            moved: self.moved,
            embedded: self.embedded,
            notices,
            limits,
        })
    }

    /// Writes a wait that began at a time: a sample that stands for no CPU time.
    pub(crate) fn put_wait(&mut self, from: u64, released: &Released<'_>) -> io::Result<()> {
        if self.takes(released)? {
            self.tally.count_wait(from, released.time);
            if let Some(raw) = RawRecord::parse(RawBytes::from(released.bytes), Endian::NATIVE) {
                self.follow_images(&raw);
            }
            self.sink()?.write_records(released.bytes)?;
        }
        Ok(())
    }

    /// Goes on in another file if the next record belongs there. Returns false if nothing more is taken.
    fn takes(&mut self, released: &Released<'_>) -> io::Result<bool> {
        if !self.full && self.is_over(released.time) {
            self.rotate()?;
        }
        self.full = self.full || self.would_be_full(released.bytes.len() as u64);
        Ok(!self.full)
    }

    fn sink(&mut self) -> io::Result<&mut Sink> {
        let gone = || io::Error::other("the file was not made");
        self.sink.as_mut().ok_or_else(gone)
    }

    fn would_be_full(&self, more: u64) -> bool {
        let bytes = self.sink.as_ref().map_or(0, Sink::len);
        (self.config.max_bytes).is_some_and(|most| self.bytes_before + bytes + more > most)
    }

    /// Takes the build-ids that were read meanwhile.
    fn take_identified(&mut self) {
        while let Some((identity, build_id)) = self.embedder.next_identified() {
            self.identified.add(identity, build_id);
        }
    }

    /// Takes note of the file that was mapped.
    fn handle_identity(&mut self, event: &ProcessEvent<'_>) {
        self.build_ids.handle(event);
        if let ProcessEvent::Mapped(mapped) = event {
            self.identified.handle(mapped);
            self.take_identified();
        }
    }

    /// Follows which images samples lie in.
    fn follow_images(&mut self, raw: &RawRecord<'_>) {
        if let Some(sampled) = &mut self.sampled
            && let Ok(sample) = Sample::parse(raw.body, &self.config.layouts.samples)
        {
            let embedder = &mut self.embedder;
            sampled.sample(&sample, raw.misc, |image| embedder.handle_sampled(image));
        }
    }

    /// Counts a record, and follows what it says.
    fn follow(&mut self, released: &Released<'_>, event: Option<&ProcessEvent<'_>>) {
        let Some(raw) = RawRecord::parse(RawBytes::from(released.bytes), Endian::NATIVE) else {
            return;
        };
        if raw.kind == RecordType::SAMPLE {
            self.tally.count_sample(released.time);
            self.follow_images(&raw);
            if self.config.counts_idle {
                let sample = Sample::parse(raw.body, &self.config.layouts.samples);
                // The kernel's idle tasks are process 0.
                let is_idle = sample.is_ok_and(|sample| sample.pid() == Some(0));
                self.tally.idle += u64::from(is_idle);
            }
            return;
        }
        let layout = self.config.layouts.of(released.stream);
        self.tally.count_other(released, &raw, layout);
        if released.stream == Stream::Samples {
            return;
        }
        if let Some(event) = event {
            self.handle_identity(event);
            if let Some(processes) = &mut self.processes {
                processes.handle(event);
            }
            self.tally.born += u64::from(matches!(event, ProcessEvent::Forked { .. }));
        }
        if let Some(carried) = &mut self.carried {
            carried.handle(&raw, event, released.bytes);
        }
    }
}

impl RecordSink for RotatingOutput {
    fn put(&mut self, released: &Released<'_>, event: Option<&ProcessEvent<'_>>) -> io::Result<()> {
        if !self.takes(released)? {
            return Ok(());
        }
        self.follow(released, event);
        let gone = || io::Error::other("the file was not made");
        let sink = self.sink.as_mut().ok_or_else(gone)?;
        let identified = match event {
            Some(ProcessEvent::Mapped(mapped)) if released.stream == Stream::Sideband => {
                self.identified.with_build_id(released.bytes, mapped)
            }
            _ => None,
        };
        sink.write_records(identified.unwrap_or(released.bytes))
    }
}

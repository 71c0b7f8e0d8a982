//! Writes the output files, with rotation.
//!
//! ```text
//!   perf.data ... --rotation--> renamed to perf.data.STAMP, finished
//!   perf.data: header, CarriedRecords, the records that follow ... --rotation--> ...
//! ```
//!
//! A rotation falls between two records, so all records stay sorted across files. A rotation by
//! time divides them exactly at that time.
//!
//! | module | contents |
//! |---|---|
//! | `rotation` | switches from one file to the next |
//! | `carried` | [`CarriedRecords`]: records that a new file begins with |
//! | `custom_writer` | [`WriterFactory`]: writers of the caller |
//! | `sampled_images` | finds sampled images if stacks are not unwound |
//! | `sink` | [`Sink`]: a file, a stream, or a writer of the caller |
//! | `tally` | [`Tally`]: counts of a file's records |
//! | `build_ids` | build-ids of mapped files, by path |
//! | `identified` | build-ids of mapped files, by device and inode |
//! | `interpreted` | mapping and names of interpreted functions |
//! | `wall_clock` | timestamps in file names |
//! | `embedding` | embeds files that reports need and that may disappear |

mod build_ids;
mod carried;
mod custom_writer;
mod embedding;
mod identified;
pub(crate) mod interpreted;
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

use rprof_jit::InterpretedNames;
use rprof_output::{OwnFile, RecordingFile, Whereabouts};
use rprof_perfdata::{EventDescription, FeatureSections, WriteOptions};
use rprof_processes::{LiveProcesses, Pid};
use rprof_records::{
    Endian, Misc, ProcessEvent, RawRecord, Record, RecordType, Sample, SampleId, put_record,
};
use rprof_sampler::{Clock, Stream, TracePiece};

use crate::backlog::Backlog;
use crate::limits::{Limit, ReachedLimits};
use crate::mapped_files::MappedImage;
use crate::pipeline::deferred::RecordSink;
use crate::pipeline::layouts::Layouts;
use crate::pipeline::merge::Released;
use crate::progress::LiveCounts;
use crate::requests::is_of;
use crate::synthesize::{cgroups, kernel_maps};
use crate::trace;
use build_ids::BuildIds;
use embedding::EmbeddingThread;
use identified::IdentifiedFiles;
use sampled_images::SampledImages;

/// When to switch to a new file, and how many files to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RotationPolicy {
    /// Maximum duration of a file.
    pub every: Option<Duration>,
    /// Maximum bytes of records in a file.
    pub bytes: Option<u64>,
    /// Maximum number of files kept; the oldest is deleted first.
    pub max_files: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct OutputConfig {
    pub(crate) events: Vec<EventDescription>,
    pub(crate) write: WriteOptions,
    pub(crate) features: FeatureSections,
    pub(crate) notes: Vec<(String, String)>,
    pub(crate) layouts: Arc<Layouts>,
    pub(crate) rotation: Option<RotationPolicy>,
    /// The command, if its child processes are recorded.
    pub(crate) command: Option<Pid>,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) embedding: Embedding,
    /// True if stacks are unwound: then the unwinder reports sampled images.
    pub(crate) unwinds: bool,
    pub(crate) backlog: Backlog,
    /// True if samples arrive after later sideband, in overwrite mode or with memory: no round ends,
    /// and readers sort all records.
    pub(crate) unsorted: bool,
    pub(crate) clock: Clock,
    pub(crate) cgroups: bool,
    /// Ids of the event for the contexts of requests.
    pub(crate) contexts: Vec<u64>,
    pub(crate) trace: Vec<u8>,
    pub(crate) counts_idle: bool,
    pub(crate) names: InterpretedNames,
}

/// The current output file, with counts of this and earlier files.
pub(crate) struct RotatingOutput {
    pub(crate) config: OutputConfig,
    sink: Option<Sink>,
    file: Option<RecordingFile>,
    /// Path of the recording. If it is occupied, the current file has another name.
    path: Option<PathBuf>,
    build_ids: BuildIds,
    identified: IdentifiedFiles,
    embedder: EmbeddingThread,
    sampled: Option<SampledImages>,
    embedded: Vec<EmbeddedName>,
    limits: ReachedLimits,
    tally: Tally,
    before: Tally,
    bytes_before: u64,
    finished: VecDeque<(PathBuf, OwnFile)>,
    /// Files that other programs renamed, deleted or replaced.
    moved: Vec<(PathBuf, Whereabouts)>,
    last_name: Option<PathBuf>,
    carried: Option<CarriedRecords>,
    processes: Option<LiveProcesses>,
    live: Arc<LiveCounts>,
    /// Record time at which this file ends.
    until: Option<u64>,
    /// True once the byte limit is reached: further records are dropped.
    full: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Finished {
    pub(crate) file_bytes: u64,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) moved: Vec<(PathBuf, Whereabouts)>,
    pub(crate) embedded: Vec<EmbeddedName>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) limits: ReachedLimits,
}

impl RotatingOutput {
    /// Starts with `sink`, which writes to `file` if the output has a name.
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

    /// Writes the first records of each file: AUXTRACE_INFO, mappings of the kernel, and cgroups.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        let mut made_up = self.config.trace.clone();
        kernel_maps::append(&self.config.layouts.samples, &mut made_up);
        if self.config.cgroups {
            cgroups::append(&self.config.layouts.samples, &mut made_up);
        }
        self.sink()?.write_records(&made_up)
    }

    /// Writes a piece of a trace, before the records that refer to it. Beyond the byte limit, drops
    /// it and all later records.
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

    /// Inspects the files of an event soon, because they may disappear before
    /// [`put`](RecordSink::put).
    pub(crate) fn notice(&mut self, event: &ProcessEvent<'_>, time: u64) {
        if !self.full {
            self.embedder.handle(event, time);
            if let Some(sampled) = &mut self.sampled {
                sampled.handle(event);
            }
        }
    }

    pub(crate) fn handle_sampled(&mut self, image: MappedImage) {
        if !self.full {
            self.embedder.handle_sampled(image);
        }
    }

    /// Rotates if the file ends at `time`. All records before `time` must be put.
    pub(crate) fn reached(&mut self, time: u64) -> io::Result<()> {
        // The end of all records starts no new file.
        match time != u64::MAX && !self.full && self.is_over(time) {
            true => self.rotate(),
            false => Ok(()),
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// Ends a round: readers may sort and release its records. They survive if this process is
    /// killed.
    pub(crate) fn end_round(&mut self) -> io::Result<()> {
        self.embedder.round();
        if self.config.unsorted {
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
        self.tally.end_round();
        let sink = self.sink()?;
        sink.write_records(&round)?;
        sink.checkpoint()
    }

    pub(crate) fn publish(&self) {
        let bytes = self.sink.as_ref().map_or(0, Sink::len);
        let (now, before, live) = (&self.tally, &self.before, &self.live);
        let samples = now.samples + before.samples;
        live.samples.store(samples, Ordering::Relaxed);
        let lost = now.all_lost() + before.all_lost();
        live.lost.store(lost, Ordering::Relaxed);
        (live.bytes).store(self.bytes_before + bytes, Ordering::Relaxed);
    }

    /// Sets the number of samples lost on a CPU; `id` is the event's id there. Writes a LOST record
    /// for losses without one: the ring stayed full to the end.
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

    pub(crate) fn settle_lost_sideband(&mut self, lost: u64) {
        let told = self.tally.lost_sideband + self.before.lost_sideband;
        self.tally.lost_sideband += lost.saturating_sub(told);
    }

    /// Returns the processes of the command without an EXIT record.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = Pid> + '_ {
        self.processes.iter().flat_map(LiveProcesses::pids)
    }

    pub(crate) fn total(&self) -> Tally {
        let mut total = self.before.clone();
        total.add(&self.tally);
        total
    }

    pub(crate) fn limits(&self) -> ReachedLimits {
        let mut limits = self.limits.clone();
        limits.add(Limit::BuildIds, self.build_ids.left_out());
        limits
    }

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

    /// Writes a wait sample, which represents no CPU time. `from` is the start of the wait.
    pub(crate) fn put_wait(&mut self, from: u64, released: &Released<'_>) -> io::Result<()> {
        if self.takes(released)? {
            self.tally.count_wait(from, released.time);
            if let Some(raw) = released.raw() {
                self.follow_images(&raw);
            }
            self.sink()?.write_records(released.bytes)?;
        }
        Ok(())
    }

    /// Rotates if the next record belongs to a new file. Returns false once the byte limit is
    /// reached.
    fn takes(&mut self, released: &Released<'_>) -> io::Result<bool> {
        if !self.full && self.is_over(released.time) {
            self.rotate()?;
        }
        self.full = self.full || self.would_be_full(released.bytes.len() as u64);
        if !self.full {
            self.tally.count_late(released);
        }
        Ok(!self.full)
    }

    /// Returns true for a record of a context, which is no sample of its own.
    pub(crate) fn is_context(&self, released: &Released<'_>) -> bool {
        !self.config.contexts.is_empty() && is_of(&self.config.contexts, released)
    }

    /// Repeats the process context of a process in each later file.
    pub(crate) fn carry_request_context(&mut self, pid: i32, record: &[u8]) {
        if let Some(carried) = &mut self.carried {
            carried.set_request_context(pid, record);
        }
    }

    fn sink(&mut self) -> io::Result<&mut Sink> {
        let gone = || io::Error::other("the file was not made");
        self.sink.as_mut().ok_or_else(gone)
    }

    fn would_be_full(&self, more: u64) -> bool {
        let bytes = self.sink.as_ref().map_or(0, Sink::len);
        (self.config.max_bytes).is_some_and(|most| self.bytes_before + bytes + more > most)
    }

    fn take_identified(&mut self) {
        while let Some((identity, build_id)) = self.embedder.next_identified() {
            self.identified.add(identity, build_id);
        }
    }

    fn handle_identity(&mut self, event: &ProcessEvent<'_>) {
        self.build_ids.handle(event);
        if let ProcessEvent::Mapped(mapped) = event {
            self.identified.handle(mapped);
            self.take_identified();
        }
    }

    fn follow_images(&mut self, raw: &RawRecord<'_>) {
        if let Some(sampled) = &mut self.sampled
            && let Ok(sample) = Sample::parse(raw.body, &self.config.layouts.samples)
        {
            let embedder = &mut self.embedder;
            sampled.sample(&sample, raw.misc, |image| embedder.handle_sampled(image));
        }
    }

    fn follow(&mut self, released: &Released<'_>, event: Option<&ProcessEvent<'_>>) {
        let Some(raw) = released.raw() else {
            return;
        };
        if self.is_context(released) {
            return;
        }
        if raw.kind == RecordType::SAMPLE {
            self.tally.count_sample(released.time);
            self.follow_images(&raw);
            if self.config.counts_idle {
                let sample = Sample::parse(raw.body, &self.config.layouts.samples);
                // The kernel's idle tasks have pid 0.
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
            self.tally.count_process(event);
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

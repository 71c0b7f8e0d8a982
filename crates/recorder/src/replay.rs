//! [`replay`]: runs the writer thread's work on given batches, to benchmark it.
//!
//! It opens no kernel events. It opens images as usual, but process memory is unavailable if the
//! processes are gone.

use std::fs::File;
use std::io;
use std::sync::Arc;

use crossbeam_channel::Receiver;
use rprof_jit::InterpretedNames;
use rprof_perfdata::{FeatureSections, WriteOptions};
use rprof_records::Endian;
use rprof_sampler::{
    Batch, Boosted, Clock, EventIds, FastDrain, InheritedEventFilter, LateBoost, Recycler,
    StackBases, Traces,
};

use crate::backlog::Backlog;
use crate::described::Rewriting;
use crate::offcpu::WaitOutput;
use crate::options::UNWIND_MEMORY;
use crate::output::{Embedding, OutputConfig, RotatingOutput, Sink};
use crate::pipeline::deferred::DeferralQueue;
use crate::pipeline::layouts::Layouts;
use crate::pipeline::merge::Merge;
use crate::pipeline::writer::{RecordSteps, Writer};
use crate::progress::LiveCounts;
use crate::unwind::{StackTally, Unwinding};

/// Input of a replay.
#[derive(Debug)]
pub struct Replay {
    /// CPUs of the batches.
    pub cpus: Vec<u32>,
    /// Events, with all ids in the records.
    pub events: Vec<EventIds>,
    /// The batches; the last one of each CPU has the watermark [`u64::MAX`].
    pub batches: Receiver<Batch>,
    /// Takes the buffers back.
    pub recycler: Recycler,
    /// Output file.
    pub file: File,
}

/// Result of a [`replay`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Replayed {
    /// Samples written.
    pub samples: u64,
    /// Records that readers cannot sort: a round with a later one had ended before.
    pub late: u64,
    /// Bytes dropped because they were damaged.
    pub damaged_bytes: u64,
    /// Maximum bytes of records that waited to be merged.
    pub most_pending: usize,
    /// Results of unwinding, if samples have registers and stacks.
    pub stacks: Option<StackTally>,
    /// Length of the file in bytes.
    pub file_bytes: u64,
}

/// Merges, unwinds and writes all batches on this thread until the channel is closed.
///
/// # Errors
/// Errors of writing the file.
pub fn replay(replay: Replay) -> io::Result<Replayed> {
    let Replay {
        cpus,
        events,
        batches,
        recycler,
        file,
    } = replay;
    let fast_drain = FastDrain::detached();
    let backlog = Backlog::new(batches.clone(), usize::MAX, Boosted::default());
    let bases = StackBases::default();
    let clock = Clock::MONOTONIC;
    let unwinding = Unwinding::new(
        &events,
        &bases,
        &fast_drain,
        &backlog,
        0,
        clock,
        UNWIND_MEMORY,
    );
    let layouts = Arc::new(Layouts::new(&events));
    let rewriting = Rewriting {
        unwinds: unwinding.is_some(),
        ..Rewriting::default()
    };
    let config = OutputConfig {
        events: rewriting.describe(&events),
        write: WriteOptions::default(),
        features: FeatureSections::new(Endian::NATIVE),
        notes: Vec::new(),
        layouts: Arc::clone(&layouts),
        rotation: None,
        command: None,
        max_bytes: None,
        embedding: Embedding::Nothing,
        unwinds: true,
        backlog,
        unsorted: false,
        clock,
        trace: Vec::new(),
        contexts: Vec::new(),
        cgroups: false,
        counts_idle: false,
        names: InterpretedNames::default(),
    };
    let live = Arc::new(LiveCounts::default());
    let sink = Sink::file(file, config.events.clone(), &config.features, config.write)?;
    let (samples, sideband) = (layouts.samples.clone(), layouts.sideband.clone());
    let written = Writer {
        merge: Merge::new(&cpus, samples.clone(), sideband.clone(), 0),
        steps: RecordSteps {
            short_threads: None,
            filter: InheritedEventFilter::of_everything(samples, sideband),
            requests: None,
            unwinding,
            deferrals: DeferralQueue::new(Arc::clone(&layouts), cpus.len()),
            sink: WaitOutput {
                off_cpu: None,
                memory: None,
                allocations: None,
                output: RotatingOutput::new(config, None, sink, Arc::clone(&live)),
            },
        },
        batches,
        recycler,
        fast_drain,
        remote_drain: None,
        layouts,
        live,
        traces: Traces::default(),
        pause: None,
        boost: LateBoost::default(),
        late: usize::MAX,
        notify: None,
    }
    .run();
    if let Some(error) = written.failure {
        return Err(error);
    }
    let samples = written.output.total().samples;
    let finished = written.output.finish(&[])?;
    Ok(Replayed {
        samples,
        late: written.late,
        damaged_bytes: written.damaged_bytes,
        most_pending: written.most_pending,
        stacks: written.stacks,
        file_bytes: finished.file_bytes,
    })
}

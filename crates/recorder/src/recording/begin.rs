//! The start of a recording: from open events to a running writer thread.
//!
//! ```text
//!   session, options --> Stages --> OutputConfig --> file --> writer thread --> events are enabled
//! ```

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use rprof_launch::Target;
use rprof_output::RecordingFile;
use rprof_perfdata::{Feature, FeatureSections, WriteOptions};
use rprof_processes::Pid;
use rprof_records::AttrFlags;
use rprof_sampler::{Batch, Degradation, LateBoost, Role, Session};

use super::Recording;
use crate::allocations::{self, Allocations};
use crate::backlog::Backlog;
use crate::beside::CountsBeside;
use crate::cpu_time::{self, Accounts};
use crate::described::Rewriting;
use crate::memory::{self, Looks, Memory};
use crate::offcpu::{OffCpu, Pace, WaitOutput};
use crate::options::{Output, RecordError, RecordOptions, Remains};
use crate::output::{OutputConfig, RotatingOutput, Sink};
use crate::pipeline::deferred::DeferralQueue;
use crate::pipeline::layouts::Layouts;
use crate::pipeline::merge::Merge;
use crate::pipeline::writer::{RecordSteps, Writer, Written, start_features};
use crate::progress::LiveCounts;
use crate::requests::Requests;
use crate::run_delay;
use crate::short_threads::ShortThreads;
use crate::synthesize::existing;
use crate::trace;
use crate::tracing_data;
use crate::unwind::{StackTally, Unwinding};

/// Error of a watermark in nanoseconds if drain threads are not bound to their CPUs.
const SLACK: u64 = 1_000_000;

/// Queue length per CPU at which the writer thread is late: some 80 ms of samples.
const LATE_BATCHES: usize = 8;

/// Nanoseconds of fast draining at the start of a recording with stacks.
const FAST_DRAIN_AT_START: u64 = 1_000_000_000;

impl Recording {
    pub(super) fn begin(
        mut session: Session,
        mut options: RecordOptions,
    ) -> Result<Recording, RecordError> {
        // The session already follows processes, but takes no samples yet.
        let existing = existing::read(&session);
        for step in existing.degradations() {
            session.add_degradation(step);
        }
        let counted = options.counted.take();
        let counts = counted.map(|events| CountsBeside::open(events, &session));
        let mut counts = counts.transpose().map_err(RecordError::Counts)?;
        let (path, remains) = (options.output.path(), options.output.remains());
        let switch_budget = options.switch_budget;
        let live = Arc::new(LiveCounts::default());
        let boost = LateBoost::new(session.realtime());
        let many = session.many_batches();
        let backlog = Backlog::new(session.batches().clone(), many, boost.boosted());
        let stages = Stages::of(&mut session, &options, &backlog, &live)?;
        let looks = (stages.memory.as_ref()).map(|memory| Arc::clone(memory.looks()));
        let boundaries = (stages.off_cpu.as_ref()).map(|waits| Arc::clone(waits.boundaries()));
        let config = stages.output_config(&session, &options, backlog)?;
        let (file, writer) = stages.start_writer(
            &session,
            options,
            config,
            existing.into_batch(),
            boost,
            &live,
        )?;
        if let Some(counts) = &mut counts {
            counts.start();
        }
        if session.is_enabled_from_start() && *session.target() != Target::Command {
            live.begin(session.clock().now_ns());
        }
        let started = Instant::now();
        let accounts = Accounts::begin(&session, !session.is_enabled_from_start());
        let delays = cpu_time::watch_delays(&session);
        let run_delays = boundaries.is_some().then(|| run_delay::begin(&session));
        if let Err(e) = session.start() {
            drop(session);
            // Without the session no more batches arrive, and the thread ends.
            drop(writer.join());
            discard(file);
            return Err(e.into());
        }
        if let Some(file) = file {
            file.settle();
        }
        if let Some(looks) = &looks {
            let at_once = *session.target() != Target::Command;
            Looks::start(looks, at_once).map_err(RecordError::Thread)?;
        }
        let pace =
            boundaries.and_then(|boundaries| Pace::begin(&session, &boundaries, switch_budget));
        Ok(Recording {
            pace,
            session,
            writer: Some(writer),
            live,
            path,
            remains,
            started,
            enabled: started,
            counts,
            accounts,
            run_delays: run_delays.flatten(),
            delays,
            looks,
            stopped: None,
        })
    }
}

/// The stages between the rings and the file.
struct Stages {
    rewriting: Rewriting,
    layouts: Arc<Layouts>,
    unwinding: Option<Unwinding>,
    off_cpu: Option<OffCpu>,
    memory: Option<Memory>,
    allocations: Option<Allocations>,
    requests: Option<Requests>,
}

impl Stages {
    /// Creates the stages that the options and the events ask for.
    fn of(
        session: &mut Session,
        options: &RecordOptions,
        backlog: &Backlog,
        live: &Arc<LiveCounts>,
    ) -> Result<Stages, RecordError> {
        let unwinding = (options.unwind.then(|| {
            Unwinding::new(
                session.events(),
                session.stack_bases(),
                session.fast_drain(),
                backlog,
                session.extras().user_registers,
                session.clock(),
                options.unwind_memory,
            )
        }))
        .flatten()
        .map(|unwinding| unwinding.with_names(&options.names));
        let rewriting = Rewriting {
            unwinds: unwinding.is_some(),
            kept_registers: session.extras().user_registers,
            keeps_switches: (session.extras().records).contains(AttrFlags::CONTEXT_SWITCH),
            sums: match (options.memory, &options.allocations) {
                (true, _) => &memory::EVENTS,
                (false, Some(_)) => &allocations::EVENTS,
                (false, None) => &[],
            },
            records_wakers: (session.events().iter()).any(|event| event.role == Role::Wakeups),
        };
        let layouts = Arc::new(Layouts::new(session.events()));
        let off_cpu = OffCpu::of(session, rewriting, options.least_wait, &layouts, live);
        if rewriting.records_wakers && !off_cpu.as_ref().is_some_and(OffCpu::reads_wakeups) {
            session.add_degradation(Degradation::NoWakers {
                cause: "unsupported format of sched:sched_waking in this kernel".to_owned(),
            });
        }
        // Page faults or allocations, which are summed.
        let summed = session.events().first();
        let memory = summed.filter(|_| options.memory).map(|faults| {
            let attr = rewriting.unwound(&faults.attr);
            Memory::of(session, &attr, &options.names, &layouts)
        });
        let allocations = (options.allocations.as_ref()).and_then(|source| {
            Allocations::of(session, rewriting, source, &options.names, &layouts)
        });
        let requests = Requests::of(session).map_err(RecordError::Thread)?;
        Ok(Stages {
            rewriting,
            layouts,
            unwinding,
            off_cpu,
            memory,
            allocations,
            requests,
        })
    }

    /// Returns the header of the file and the limits of its content.
    fn output_config(
        &self,
        session: &Session,
        options: &RecordOptions,
        backlog: Backlog,
    ) -> Result<OutputConfig, RecordError> {
        let mut features = self.features(session, options)?;
        let is_named = matches!(options.output, Output::File(_));
        let command = session.child().map(|child| Pid(child.pid()));
        let by_cpu = *session.target() == Target::System;
        let trace = match (session.trace_unit(), session.events().first()) {
            (Some(unit), Some(event)) => {
                features.insert_words(Feature::AUXTRACE, &[0]);
                trace::info(unit, event.attr.kind, by_cpu).map_err(RecordError::Thread)?
            }
            _ => Vec::new(),
        };
        Ok(OutputConfig {
            events: self.rewriting.describe(session.events()),
            write: WriteOptions {
                compression: options.compression,
                ..WriteOptions::default()
            },
            features,
            notes: (session.degradations().iter())
                .map(|step| ("degraded".to_owned(), step.to_string()))
                .collect(),
            layouts: Arc::clone(&self.layouts),
            rotation: options.rotation.filter(|_| is_named),
            command: command.filter(|_| session.inherits()),
            max_bytes: options.max_bytes,
            embedding: options.embedding,
            unwinds: self.unwinding.is_some(),
            backlog,
            unsorted: session.overwrites() || !self.rewriting.sums.is_empty(),
            clock: session.clock(),
            trace,
            contexts: (self.requests.as_ref()).map_or_else(Vec::new, Requests::ids),
            cgroups: (session.extras().records).contains(AttrFlags::CGROUP),
            names: options.names.clone(),
            counts_idle: by_cpu,
        })
    }

    fn features(
        &self,
        session: &Session,
        options: &RecordOptions,
    ) -> Result<FeatureSections, RecordError> {
        let mut features = start_features(&options.command_line, session.cpus().len() as u32);
        if session.is_stamped_by_clock() {
            crate::machine::describe_clock(&mut features, session.clock());
        }
        if self.unwinding.is_some() {
            features.insert_rprof_notes(&[StackTally::announced()]);
        }
        if self.rewriting.sums.is_empty() {
            tracing_data::add(&mut features, session.events()).map_err(RecordError::TracingData)?;
        }
        Ok(features)
    }

    /// Opens the output and starts the writer thread. Returns the file, if it has a name; after an
    /// error there is no new file.
    fn start_writer(
        self,
        session: &Session,
        options: RecordOptions,
        config: OutputConfig,
        existing: Batch,
        boost: LateBoost,
        live: &Arc<LiveCounts>,
    ) -> Result<(Option<RecordingFile>, JoinHandle<Written>), RecordError> {
        // As late as possible: if rprof is killed before it writes the header, the old file is
        // intact.
        let (file, shared, sink) = open(options.output, &config)?;
        let (samples, sideband) = (self.layouts.samples.clone(), self.layouts.sideband.clone());
        let slack = u64::from(!session.has_exact_watermarks()) * SLACK;
        let mut merge = Merge::new(session.cpus(), samples, sideband, slack);
        merge.push(existing);
        if options.unwind {
            // Drain fast to detect deep stacks early. Set it before the writer starts, to avoid a
            // wake-up.
            let now = rprof_sampler::monotonic_ns();
            let until = now.saturating_add(FAST_DRAIN_AT_START);
            session.fast_drain().request_until(until);
        }
        let unwinds = self.unwinding.is_some();
        let writer = Writer {
            batches: session.batches().clone(),
            recycler: session.recycler(),
            fast_drain: session.fast_drain().clone(),
            remote_drain: unwinds.then(|| session.remote_drain()).flatten(),
            merge,
            steps: RecordSteps {
                filter: session.inherited_event_filter(),
                short_threads: ShortThreads::of(session),
                requests: self.requests,
                unwinding: self.unwinding,
                deferrals: DeferralQueue::new(Arc::clone(&self.layouts), session.cpus().len()),
                sink: WaitOutput {
                    off_cpu: self.off_cpu,
                    memory: self.memory,
                    allocations: self.allocations,
                    output: RotatingOutput::new(config, shared, sink, Arc::clone(live)),
                },
            },
            layouts: self.layouts,
            live: Arc::clone(live),
            traces: session.traces(),
            pause: options.pause,
            boost,
            late: LATE_BATCHES * session.cpus().len(),
            notify: options.notify,
        };
        let thread = std::thread::Builder::new().name("rprof-writer".into());
        let spawned = thread.spawn(move || {
            rprof_sampler::prefer_this_thread();
            writer.run()
        });
        match spawned {
            Ok(thread) => Ok((file, thread)),
            Err(error) => {
                discard(file);
                Err(RecordError::Thread(error))
            }
        }
    }
}

/// Opens an output: the file if it has a name, a handle of it for the writer, and the sink.
///
/// # Errors
/// [`RecordError::Output`]; [`RecordError::Write`], where the new file is deleted.
fn open(
    output: Output,
    config: &OutputConfig,
) -> Result<(Option<RecordingFile>, Option<RecordingFile>, Sink), RecordError> {
    let path = output.path();
    let file = match output {
        Output::File(_) => Some(RecordingFile::create(&path)?),
        _ => None,
    };
    let sink = output.open(
        file.as_ref(),
        config.events.clone(),
        &config.features,
        config.write,
    );
    let shared = file.as_ref().map(RecordingFile::share).transpose();
    match sink.and_then(|sink| io::Result::Ok((shared?, sink))) {
        Ok((shared, sink)) => Ok((file, shared, sink)),
        Err(source) => {
            discard(file);
            Err(Remains::Nothing.write_error(&path)(source))
        }
    }
}

fn discard(file: Option<RecordingFile>) {
    if let Some(file) = file {
        file.discard();
    }
}

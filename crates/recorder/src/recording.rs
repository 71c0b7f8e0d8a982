//! [`Recording`]: starts, controls and finishes a recording.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rprof_launch::procfs::Procfs;
use rprof_launch::{Child, DelayWatcher, Launcher, RunDelay, RunDelays, Target, WaitOutcome};
use rprof_output::RecordingFile;
use rprof_perfdata::{Feature, WriteOptions};
use rprof_processes::Pid;
use rprof_records::{AttrFlags, Endian, SampleLayout};
use rprof_sampler::{
    ControlError, Degradation, EventCount, LateBoost, Role, Session, SessionBuilder,
};

use crate::allocations::Allocations;
use crate::backlog::Backlog;
use crate::beside::CountsBeside;
use crate::cpu_time::{self, Accounts};
use crate::described::Rewriting;
use crate::losses::LossAdvice;
use crate::memory::{Looks, Memory, MemoryUse};
use crate::offcpu::{OffCpu, Pace, ThreadTime};
use crate::options::{Output, RecordError, RecordOptions, Remains};
use crate::output::{OutputConfig, RotatingOutput};
use crate::pipeline::deferred::DeferralQueue;
use crate::pipeline::layouts::Layouts;
use crate::pipeline::merge::Merge;
use crate::pipeline::writer::{Writer, Written, start_features};
use crate::progress::{LiveCounts, Progress, WriterState};
use crate::requests::Requests;
use crate::run_delay::{self, is_whole};
use crate::summary::Summary;
use crate::synthesize::existing;
use crate::throttling::Throttling;
use crate::trace;
use crate::tracing_data;
use crate::unwind::{StackTally, Unwinding};

/// Error of a watermark in nanoseconds if drain threads are not bound to their CPUs.
const SLACK: u64 = 1_000_000;

/// Queue length per CPU at which the writer thread is late: some 80 ms of samples.
const LATE_BATCHES: usize = 8;

/// Nanoseconds of fast draining at the start of a recording with stacks.
const FAST_DRAIN_AT_START: u64 = 1_000_000_000;

/// A running recording.
#[derive(Debug)]
pub struct Recording {
    // First field, so that it is dropped before the events that it controls.
    pace: Option<Pace>,
    session: Session,
    writer: Option<JoinHandle<Written>>,
    live: Arc<LiveCounts>,
    path: PathBuf,
    remains: Remains,
    started: Instant,
    enabled: Instant,
    counts: Option<CountsBeside>,
    accounts: Accounts,
    run_delays: Option<RunDelays>,
    delays: Option<DelayWatcher>,
    looks: Option<Arc<Looks>>,
    stopped: Option<Stopped>,
}

/// Measurements at the end of sampling. The target may run on.
#[derive(Debug)]
struct Stopped {
    used: Option<Duration>,
    run_delay: Option<RunDelay>,
    duration: Duration,
    wall: Duration,
}

impl Recording {
    /// Starts the command and records it, or the builder's target while the command runs.
    ///
    /// # Errors
    /// [`RecordError`]. If the command cannot be executed, the new file is deleted and the previous
    /// one restored.
    pub fn start(
        builder: SessionBuilder,
        command: &Launcher,
        options: RecordOptions,
    ) -> Result<Recording, RecordError> {
        Recording::begin(builder.launch(command)?, options)
    }

    /// Records the builder's target, which is already running.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn attach(
        builder: SessionBuilder,
        options: RecordOptions,
    ) -> Result<Recording, RecordError> {
        Recording::begin(builder.attach()?, options)
    }

    fn begin(mut session: Session, options: RecordOptions) -> Result<Recording, RecordError> {
        // The session already follows processes, but takes no samples yet.
        let existing = existing::read(&session);
        for step in existing.degradations() {
            session.add_degradation(step);
        }
        let counts = match options.counted {
            Some(events) => {
                Some(CountsBeside::open(events, &session).map_err(RecordError::Counts)?)
            }
            None => None,
        };
        let is_named = matches!(options.output, Output::File(_));
        let (path, remains) = (options.output.path(), options.output.remains());
        let boost = LateBoost::new(session.realtime());
        let many = session.many_batches();
        let backlog = Backlog::new(session.batches().clone(), many, boost.boosted());
        let unwinding = match options.unwind {
            true => Unwinding::new(
                session.events(),
                session.stack_bases(),
                session.fast_drain(),
                &backlog,
                session.extras().user_registers,
                session.clock(),
                options.unwind_memory,
            )
            .map(|unwinding| unwinding.with_names(&options.names)),
            false => None,
        };
        let rewriting = Rewriting {
            unwinds: unwinding.is_some(),
            kept_registers: session.extras().user_registers,
            keeps_switches: (session.extras().records).contains(AttrFlags::CONTEXT_SWITCH),
            sums: match (options.memory, options.allocations) {
                (true, _) => &crate::memory::EVENTS,
                (false, Some(_)) => &crate::allocations::EVENTS,
                (false, None) => &[],
            },
            records_wakers: (session.events().iter()).any(|event| event.role == Role::Wakeups),
        };
        let events = rewriting.describe(session.events());
        let layout = |role| {
            let event = session.events().iter().find(|e| e.role == role);
            let attr = event.map(|e| e.attr.clone()).unwrap_or_default();
            SampleLayout::new(&attr, Endian::NATIVE)
        };
        let layouts = Arc::new(Layouts {
            samples: layout(Role::Samples),
            sideband: layout(Role::Sideband),
        });
        let slack = u64::from(!session.has_exact_watermarks()) * SLACK;
        let live = Arc::new(LiveCounts::default());
        let off_cpu = OffCpu::of(&session, rewriting, options.least_wait, &layouts, &live);
        let memory = (options.memory)
            .then(|| session.events().first())
            .flatten()
            .map(|faults| {
                let attr = rewriting.unwound(&faults.attr);
                Memory::of(&session, &attr, &options.names, &layouts)
            });
        let allocations =
            (options.allocations.zip(session.events().first())).map(|(mean, hits)| {
                let attr = rewriting.unwound(&hits.attr);
                Allocations::of(&hits.ids, &attr, mean, &options.names, &layouts)
            });
        let looks = memory.as_ref().map(|memory| Arc::clone(memory.looks()));
        if rewriting.records_wakers && !off_cpu.as_ref().is_some_and(OffCpu::reads_wakeups) {
            session.add_degradation(Degradation::NoWakers {
                cause: "unsupported format of sched:sched_waking in this kernel".to_owned(),
            });
        }
        let requests = Requests::of(&session).map_err(RecordError::Thread)?;
        let boundaries = (off_cpu.as_ref()).map(|off_cpu| Arc::clone(off_cpu.boundaries()));
        let mut features = start_features(&options.command_line, session.cpus().len() as u32);
        if session.is_stamped_by_clock() {
            crate::machine::describe_clock(&mut features, session.clock());
        }
        if unwinding.is_some() {
            features.insert_rprof_notes(&[StackTally::announced()]);
        }
        if rewriting.sums.is_empty() {
            tracing_data::add(&mut features, session.events()).map_err(RecordError::TracingData)?;
        }
        let inherits = session.inherits();
        let command = session.child().map(|child| Pid(child.pid()));
        let by_cpu = *session.target() == Target::System;
        let trace = match (session.trace_unit(), session.events().first()) {
            (Some(unit), Some(event)) => {
                features.insert_words(Feature::AUXTRACE, &[0]);
                trace::info(unit, event.attr.kind, by_cpu).map_err(RecordError::Thread)?
            }
            _ => Vec::new(),
        };
        let config = OutputConfig {
            events,
            write: WriteOptions {
                compression: options.compression,
                ..WriteOptions::default()
            },
            features,
            notes: (session.degradations().iter())
                .map(|step| ("degraded".to_owned(), step.to_string()))
                .collect(),
            layouts: Arc::clone(&layouts),
            rotation: options.rotation.filter(|_| is_named),
            command: command.filter(|_| inherits),
            max_bytes: options.max_bytes,
            embedding: options.embedding,
            unwinds: unwinding.is_some(),
            backlog,
            unsorted: session.overwrites() || !rewriting.sums.is_empty(),
            clock: session.clock(),
            trace,
            contexts: requests.as_ref().map_or_else(Vec::new, Requests::ids),
            cgroups: (session.extras().records).contains(AttrFlags::CGROUP),
            names: options.names.clone(),
            counts_idle: *session.target() == Target::System,
        };
        // As late as possible: if rprof is killed before it writes the header, the old file is
        // intact.
        let output = match is_named {
            true => Some(RecordingFile::create(&path)?),
            false => None,
        };
        let events = config.events.clone();
        let sink = (options.output).open(output.as_ref(), events, &config.features, config.write);
        let shared = output.as_ref().map(RecordingFile::share).transpose();
        let (sink, shared) = match sink.and_then(|sink| Ok((sink, shared?))) {
            Ok(both) => both,
            Err(source) => {
                discard(output);
                return Err(Remains::Nothing.write_error(&path)(source));
            }
        };
        let (samples, sideband) = (layouts.samples.clone(), layouts.sideband.clone());
        let mut merge = Merge::new(session.cpus(), samples, sideband, slack);
        merge.push(existing.into_batch());
        let unwinds = unwinding.is_some();
        let remote_drain = unwinds.then(|| session.remote_drain()).flatten();
        if options.unwind {
            // Drain fast to detect deep stacks early. Set it before the writer starts, to avoid a
            // wake-up.
            let now = rprof_sampler::monotonic_ns();
            let until = now.saturating_add(FAST_DRAIN_AT_START);
            session.fast_drain().request_until(until);
        }
        let writer = Writer {
            batches: session.batches().clone(),
            recycler: session.recycler(),
            fast_drain: session.fast_drain().clone(),
            remote_drain,
            merge,
            filter: session.inherited_event_filter(),
            output: RotatingOutput::new(config, shared, sink, Arc::clone(&live)),
            deferrals: DeferralQueue::new(Arc::clone(&layouts), session.cpus().len()),
            layouts,
            unwinding,
            off_cpu,
            memory,
            allocations,
            requests,
            live: Arc::clone(&live),
            traces: session.traces(),
            pause: options.pause,
            boost,
            late: LATE_BATCHES * session.cpus().len(),
            notify: options.notify,
        };
        let writer = std::thread::Builder::new()
            .name("rprof-writer".into())
            .spawn(move || {
                rprof_sampler::prefer_this_thread();
                writer.run()
            });
        let writer = match writer {
            Ok(writer) => writer,
            Err(error) => {
                discard(output);
                return Err(RecordError::Thread(error));
            }
        };
        let mut counts = counts;
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
            discard(output);
            return Err(e.into());
        }
        if let Some(output) = output {
            output.settle();
        }
        if let Some(looks) = &looks {
            let at_once = *session.target() != Target::Command;
            Looks::start(looks, at_once).map_err(RecordError::Thread)?;
        }
        let pace = boundaries
            .and_then(|boundaries| Pace::begin(&session, &boundaries, options.switch_budget));
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

    /// Returns the degradations so far.
    pub fn degradations(&self) -> &[Degradation] {
        self.session.degradations()
    }

    /// Waits until the command ends, all attached targets end, `stop` becomes readable, or
    /// `timeout` expires.
    ///
    /// # Errors
    /// [`RecordError::Wait`].
    pub fn wait(
        &mut self,
        stop: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> Result<WaitOutcome, RecordError> {
        self.session
            .wait_or(stop, timeout)
            .map_err(RecordError::Wait)
    }

    /// Waits like [`wait`](Self::wait), but only for the command, after the end of the recording.
    ///
    /// # Errors
    /// [`RecordError::Wait`], also if there is no command.
    pub fn wait_for_command(
        &mut self,
        stop: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> Result<WaitOutcome, RecordError> {
        let none = || RecordError::Wait(io::ErrorKind::NotFound.into());
        let child = self.session.child_mut().ok_or_else(none)?;
        child.wait_or(stop, timeout).map_err(RecordError::Wait)
    }

    /// Returns the session, with its open events.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the counters so far.
    pub fn progress(&self) -> Progress {
        self.live.progress(self.started.elapsed())
    }

    /// Returns the state of the writer thread. Finish the recording once it is not
    /// [`WriterState::Writing`]: further records are dropped.
    pub fn writer(&self) -> WriterState {
        self.live.state()
    }

    /// Starts sampling, if the session did not enable its events at the start.
    ///
    /// # Errors
    /// The error of the first event that failed. All other events are started.
    pub fn enable(&mut self) -> Result<(), ControlError> {
        self.enabled = Instant::now();
        self.live.begin(self.session.clock().now_ns());
        self.accounts = Accounts::begin(&self.session, true);
        self.delays = cpu_time::watch_delays(&self.session);
        if let Some(counts) = &mut self.counts {
            counts.enable();
        }
        self.session.enable()
    }

    /// Continues in a new file from now on, if [`RecordOptions::rotation`] is set.
    ///
    /// In overwrite mode, the samples now in the rings go to the current file.
    pub fn switch(&mut self) {
        self.session.snapshot();
        let now = self.session.clock().now_ns();
        self.live.switch.store(now, Ordering::Relaxed);
    }

    /// Sends a signal to the command, unless it has ended.
    pub fn signal_command(&self, signal: i32) {
        if let Some(child) = self.session.child() {
            child.signal(signal).ok();
        }
    }

    /// Stops sampling. Later activity is not recorded.
    pub fn stop_sampling(&mut self) {
        if self.stopped.is_some() {
            return;
        }
        self.pace.take();
        // Before sampling stops, because the target runs on.
        let used = self.accounts.used(&self.session);
        let run_delay = run_delay::of(&self.session, self.run_delays.as_ref());
        if let Some(looks) = self.looks.take() {
            // Running processes get a last look, while their faults are still recorded. Without an
            // answer, their pages keep their owners.
            looks.stop();
        }
        // An event that cannot be disabled stops when it is closed.
        self.session.disable().ok();
        if let Some(counts) = &mut self.counts {
            counts.disable();
        }
        // On a busy machine, stopping the events takes part of a second.
        self.live.end(self.session.clock().now_ns());
        self.stopped = Some(Stopped {
            used,
            run_delay,
            duration: self.started.elapsed(),
            wall: self.enabled.elapsed(),
        });
        if let Some(delays) = &self.delays {
            delays.stop();
        }
    }

    /// Ends the recording and finishes the file. A command may run on without sampling:
    /// [`wait_for_command`](Self::wait_for_command).
    ///
    /// # Errors
    /// [`RecordError::Write`]; [`RecordError::Thread`] if the writer thread panicked or the
    /// recording is already finished.
    pub fn finish(&mut self) -> Result<Summary, RecordError> {
        self.stop_sampling();
        let counts = self.session.stop();
        let Some(stopped) = self.stopped.take() else {
            return Err(RecordError::Thread(io::Error::other("finished already")));
        };
        let Stopped {
            used,
            run_delay,
            duration,
            wall,
        } = stopped;
        let usage = self.session.child().and_then(Child::usage);
        let counted = self.counts.take().map(|counts| counts.finish(wall, usage));
        let Some(writer) = self.writer.take() else {
            return Err(RecordError::Thread(io::Error::other("finished already")));
        };
        // The writer may be pausing.
        writer.thread().unpark();
        let mut written = writer.join().map_err(|_| {
            RecordError::Thread(io::Error::other("it panicked; please report this"))
        })?;
        let write = self.remains.write_error(&self.path);
        if let Some(source) = written.failure.take() {
            return Err(write(source));
        }
        let events = self.session.events();
        let sampled: Vec<_> = events.iter().filter(|e| e.role == Role::Samples).collect();
        for (place, cpu) in counts.cpus.iter().enumerate() {
            // All events of a CPU share its ring, so the first id stands for all.
            let lost = cpu.events.iter().filter_map(EventCount::lost).sum();
            let id = sampled.first().and_then(|e| e.ids.get(place));
            (written.output)
                .settle_lost(cpu.cpu, id.copied().unwrap_or(0), lost)
                .map_err(&write)?;
        }
        (written.output).settle_lost_sideband(counts.lost_sideband().unwrap_or(0));
        let total = written.output.total();
        let unfinished: Vec<i32> = written.output.unfinished().map(|pid| pid.0).collect();
        let cpu_time = cpu_time::measured(
            &self.session,
            (&self.accounts, used),
            &counts,
            &total,
            &unfinished,
            wall,
        );
        let delays = self.delays.take();
        let cpu_time =
            cpu_time.map(|time| cpu_time::with_delays(time, &self.session, delays.as_ref()));
        let run_delay = (written.thread_time.as_ref())
            .and_then(|time| run_delay.filter(|delay| is_whole(&self.session, delay, time)));
        let drains = || counts.cpus.iter().map(|cpu| &cpu.drain);
        let mut summary = Summary {
            path: self.path.clone(),
            events: sampled.iter().map(|e| e.name.clone()).collect(),
            samples: total.samples,
            waits: total.waits,
            run_delay,
            thread_time: written.thread_time.take(),
            memory: written.memory.take(),
            allocations: written.allocations.take(),
            duration,
            lost: total.lost.clone().into_iter().collect(),
            dropped: total.dropped.clone().into_iter().collect(),
            lagged: drains().map(|d| d.starved + d.sideband_starved).sum(),
            lost_sideband: total.lost_sideband,
            throttling: Throttling::of(&total, events, &counts, duration.as_secs_f64()),
            rejected: written.rejected,
            late: written.late,
            damaged_bytes: written.damaged_bytes
                + (drains().map(|d| d.damaged_bytes + d.unsent_bytes)).sum::<u64>(),
            // Overwritten samples are missing from the sum, so there is no CPU time in overwrite
            // mode.
            trace: self.session.trace_unit().map(|_| total.trace),
            cpu_time: cpu_time.filter(|_| !self.session.overwrites()),
            left_running: self.left_running(&unfinished),
            degradations: self.session.degradations().to_vec(),
            stacks: written.stacks.take(),
            limits: written.output.limits(),
            ..Summary::default()
        };
        if let (Some(memory), Some(usage)) = (&mut summary.memory, usage) {
            memory.most_resident = usage.max_rss;
        }
        let lost_in_rings: u64 = summary.lost.iter().map(|(_, lost)| lost).sum();
        let lost_switches =
            (summary.thread_time.as_ref()).is_some_and(|time| time.lost_switches > 0);
        if lost_in_rings > 0 || lost_switches {
            let all = lost_in_rings + summary.samples;
            summary.loss_advice = Some(LossAdvice::of(&self.session, lost_in_rings, all));
        }
        summary.limits.extend(&written.limits);
        let mut notes = total.notes();
        notes.push(("late".into(), summary.late.to_string()));
        notes.push(("duration.ns".into(), duration.as_nanos().to_string()));
        notes.extend(
            (summary.degradations.iter()).map(|step| ("degraded".into(), step.to_string())),
        );
        notes.extend(summary.stacks.iter().flat_map(StackTally::notes));
        notes.extend(summary.limits.notes());
        notes.extend(summary.thread_time.iter().flat_map(ThreadTime::notes));
        notes.extend(summary.memory.iter().flat_map(MemoryUse::notes));
        notes.extend((summary.allocations.iter()).flat_map(|made| made.requests.notes()));
        notes.extend(summary.run_delay.iter().flat_map(run_delay::notes));
        notes.extend(counted.into_iter().flatten());
        if let (Some(time), None) = (&summary.cpu_time, written.output.config.rotation) {
            notes.extend(time.notes());
        }
        let finished = written.output.finish(&notes).map_err(&write)?;
        summary.file_bytes = finished.file_bytes;
        summary.files = finished.files;
        summary.moved = finished.moved;
        summary.embedded = finished.embedded;
        summary.notices = finished.notices;
        summary.limits.extend(&finished.limits);
        Ok(summary)
    }

    /// Returns the running processes that the command started.
    fn left_running(&self, unfinished: &[i32]) -> Vec<i32> {
        let Some(child) = self.session.child() else {
            return Vec::new();
        };
        let proc = Procfs::default();
        let is_there = |pid: &i32| proc.exists(*pid as u32);
        let mut left: Vec<i32> = (unfinished.iter().copied())
            .filter(|pid| *pid != child.pid())
            .filter(is_there)
            .collect();
        left.sort_unstable();
        left
    }
}

fn discard(output: Option<RecordingFile>) {
    if let Some(output) = output {
        output.discard();
    }
}

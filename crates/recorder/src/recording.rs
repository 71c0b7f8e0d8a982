//! [`Recording`]: starts, controls and finishes a recording.

mod begin;

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rprof_launch::procfs::Procfs;
use rprof_launch::{Child, DelayWatcher, Launcher, RunDelay, RunDelays, Target, WaitOutcome};
use rprof_sampler::{
    ControlError, Degradation, EventCount, EventIds, FinalCounts, Role, Session, SessionBuilder,
};

use crate::beside::CountsBeside;
use crate::cpu_time::{self, Accounts};
use crate::losses::LossAdvice;
use crate::memory::{Looks, MemoryUse};
use crate::offcpu::{Pace, ThreadTime};
use crate::options::{RecordError, RecordOptions, Remains};
use crate::output::RotatingOutput;
use crate::pipeline::writer::Written;
use crate::progress::{LiveCounts, Progress, WriterState};
use crate::run_delay::{self, is_whole};
use crate::summary::Summary;
use crate::throttling::Throttling;
use crate::unwind::StackTally;

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
        let used = match self.accounts.are_final(&self.session) {
            true => None,
            false => self.accounts.used(&self.session),
        };
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
        // Later, rprof only waited for a CPU.
        let end = match self.session.target() {
            Target::Command => self.session.child().and_then(Child::ended_at),
            _ => None,
        };
        let end = end.unwrap_or_else(Instant::now);
        self.stopped = Some(Stopped {
            used,
            run_delay,
            duration: end.saturating_duration_since(self.started),
            wall: end.saturating_duration_since(self.enabled),
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
            mut used,
            run_delay,
            duration,
            wall,
        } = stopped;
        let mut written = self.join_writer()?;
        let usage = self.session.child().and_then(Child::usage);
        if self.accounts.are_final(&self.session) {
            used = self.accounts.used(&self.session);
        }
        let counted = self.counts.take().map(|counts| counts.finish(wall, usage));
        let write = self.remains.write_error(&self.path);
        if let Some(source) = written.failure.take() {
            return Err(write(source));
        }
        let events = self.session.events();
        let sampled: Vec<_> = events.iter().filter(|e| e.role == Role::Samples).collect();
        settle_losses(&mut written.output, &sampled, &counts).map_err(&write)?;
        let total = written.output.total();
        let unfinished: Vec<i32> = written.output.unfinished().map(|pid| pid.0).collect();
        let cpu_time = cpu_time::measured(
            &self.session,
            (&self.accounts, used),
            &counts,
            (&total, written.sampled),
            &unfinished,
            wall,
        );
        let delays = self.delays.take();
        let cpu_time =
            cpu_time.map(|time| cpu_time::with_delays(time, &self.session, delays.as_ref()));
        let run_delay = (written.sums.thread_time.as_ref())
            .and_then(|time| run_delay.filter(|delay| is_whole(&self.session, delay, time)));
        let drains = || counts.cpus.iter().map(|cpu| &cpu.drain);
        let mut summary = Summary {
            path: self.path.clone(),
            events: sampled.iter().map(|e| e.name.clone()).collect(),
            samples: total.samples,
            waits: total.waits,
            run_delay,
            thread_time: written.sums.thread_time.take(),
            memory: written.sums.memory.take(),
            allocations: written.sums.allocations.take(),
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
            trace: self.session.trace_unit().map(|_| total.trace),
            // Overwritten samples are missing from the sum.
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
        if let (Some(made), Some(usage)) = (&mut summary.allocations, usage) {
            made.requests.resident = usage.max_rss;
        }
        summary.loss_advice = self.loss_advice(&summary);
        summary.limits.extend(&written.limits);
        let is_rotated = written.output.config.rotation.is_some();
        let mut notes = total.notes();
        notes.extend(notes_of(&summary, is_rotated));
        notes.extend(counted.into_iter().flatten());
        let finished = written.output.finish(&notes).map_err(&write)?;
        summary.file_bytes = finished.file_bytes;
        summary.files = finished.files;
        summary.moved = finished.moved;
        summary.embedded = finished.embedded;
        summary.notices = finished.notices;
        summary.limits.extend(&finished.limits);
        Ok(summary)
    }

    fn join_writer(&mut self) -> Result<Written, RecordError> {
        let Some(writer) = self.writer.take() else {
            return Err(RecordError::Thread(io::Error::other("finished already")));
        };
        // The writer may be pausing.
        writer.thread().unpark();
        writer
            .join()
            .map_err(|_| RecordError::Thread(io::Error::other("it panicked; please report this")))
    }

    /// Returns advice if records or switches were lost.
    fn loss_advice(&self, summary: &Summary) -> Option<LossAdvice> {
        let lost: u64 = summary.lost.iter().map(|(_, lost)| lost).sum();
        let thread_time = summary.thread_time.as_ref();
        let lost_switches = thread_time.is_some_and(|time| time.lost_switches > 0);
        let all = lost + summary.samples;
        (lost > 0 || lost_switches).then(|| LossAdvice::of(&self.session, lost, all))
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

/// Adds the losses that the kernel counted to those that records reported.
fn settle_losses(
    output: &mut RotatingOutput,
    sampled: &[&EventIds],
    counts: &FinalCounts,
) -> io::Result<()> {
    for (place, cpu) in counts.cpus.iter().enumerate() {
        // All events of a CPU share its ring, so the first id stands for all.
        let lost = cpu.events.iter().filter_map(EventCount::lost).sum();
        let id = sampled.first().and_then(|event| event.ids.get(place));
        output.settle_lost(cpu.cpu, id.copied().unwrap_or(0), lost)?;
    }
    output.settle_lost_sideband(counts.lost_sideband().unwrap_or(0));
    Ok(())
}

/// Returns the notes of the last file. The CPU time belongs to the whole recording, so a file of a
/// rotation has none.
fn notes_of(summary: &Summary, is_rotated: bool) -> Vec<(String, String)> {
    let mut notes = vec![
        ("late".into(), summary.late.to_string()),
        (
            "duration.ns".into(),
            summary.duration.as_nanos().to_string(),
        ),
    ];
    let degradations = summary.degradations.iter();
    notes.extend(degradations.map(|step| ("degraded".into(), step.to_string())));
    notes.extend(summary.stacks.iter().flat_map(StackTally::notes));
    notes.extend(summary.limits.notes());
    notes.extend(summary.thread_time.iter().flat_map(ThreadTime::notes));
    notes.extend(summary.memory.iter().flat_map(MemoryUse::notes));
    let allocations = summary.allocations.iter();
    notes.extend(allocations.flat_map(|made| made.requests.notes()));
    notes.extend(summary.run_delay.iter().flat_map(run_delay::notes));
    if !is_rotated && let Some(time) = &summary.cpu_time {
        notes.extend(time.notes());
    }
    notes
}

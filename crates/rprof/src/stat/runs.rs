//! Runs: one, and all of them, in turns where there are two commands.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Context;
use rprof_counting::session::CountedEvent;
use rprof_counting::{CountError, CountingSession, Notice, Snapshot};
use rprof_export::clean::{brief, clean};
use rprof_launch::{Launcher, ResourceUsage, WaitOutcome};

use super::job::{Job, Repeat};
use super::reasons::reason;
use crate::messages::{Failure, say};
use crate::remedies;
use crate::signals::Signals;
use crate::status::{exit_status, of_exec};
use crate::terminal::{Terminal, has_reached_command};

/// One run of a command, or the time over which something else was counted.
pub(super) struct Run {
    pub(super) status: Option<ExitStatus>,
    pub(super) wall: Duration,
    pub(super) usage: Option<ResourceUsage>,
    pub(super) counts: Snapshot,
}

/// Runs of one command.
#[derive(Default)]
pub(super) struct Side {
    pub(super) command: Vec<OsString>,
    pub(super) events: Vec<CountedEvent>,
    pub(super) notices: Vec<Notice>,
    pub(super) runs: Vec<Run>,
    /// Statuses of runs that failed or were killed, which are not counted.
    pub(super) left_out: Vec<ExitStatus>,
}

/// All runs.
pub(super) struct Measured {
    pub(super) sides: Vec<Side>,
    /// Status of the run that decides on rprof's own: the last one, or the first that failed.
    pub(super) last_status: Option<ExitStatus>,
}

/// Counts of an interval.
pub(super) struct Interval<'a> {
    /// Time from the start to its end.
    pub(super) end: Duration,
    pub(super) length: Duration,
    pub(super) events: &'a [CountedEvent],
    pub(super) counts: Snapshot,
}

/// Receiver of intervals.
type OnInterval<'a> = &'a mut dyn FnMut(&Interval<'_>) -> Result<(), Failure>;

/// Runs everything, two commands in turns whose order alternates, so that what drifts is the same for both.
pub(super) fn measure(
    job: &Job,
    signals: &Signals,
    mut on_interval: impl FnMut(&Interval<'_>) -> Result<(), Failure>,
) -> Result<Measured, Failure> {
    let terminal = Terminal::remember();
    let commands = match job.commands.is_empty() {
        true => vec![Vec::new()],
        false => job.commands.clone(),
    };
    let mut measured = Measured {
        sides: (commands.into_iter())
            .map(|command| Side {
                command,
                ..Side::default()
            })
            .collect(),
        last_status: None,
    };
    for _ in 0..job.warmup {
        for index in 0..measured.sides.len() {
            if signals.last().is_none() && !job.commands.is_empty() {
                prepare(job)?;
                one_run(
                    job,
                    signals,
                    &mut Side::copy(&measured.sides[index]),
                    &mut |_| Ok(()),
                )?;
            }
        }
    }
    let begun = Instant::now();
    let is_repeated = job.repeat != Repeat::Times(1);
    let mut round = 0;
    while job.has_round(round, begun.elapsed()) && signals.last().is_none() {
        let mut order: Vec<usize> = (0..measured.sides.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        let mut runs: Vec<Option<Run>> = order.iter().map(|_| None).collect();
        for index in order {
            prepare(job)?;
            let run = one_run(job, signals, &mut measured.sides[index], &mut on_interval)?;
            if run.status.is_some_and(|status| status.signal().is_some()) {
                terminal.restore();
            }
            if is_repeated {
                measured.note(&run);
            } else {
                measured.last_status = run.status;
            }
            runs[index] = Some(run);
        }
        measured.keep(job, runs, is_repeated);
        round += 1;
    }
    Ok(measured)
}

impl Job {
    fn has_round(&self, round: u32, elapsed: Duration) -> bool {
        match self.repeat {
            Repeat::Times(times) => round < times,
            Repeat::For(time) => round < 2 || elapsed < time,
        }
    }
}

impl Measured {
    /// Takes down the status of one run of many: that of the first which failed stays.
    fn note(&mut self, run: &Run) {
        let has_failed = self.last_status.is_some_and(|status| !status.success());
        if !has_failed {
            self.last_status = run.status;
        }
    }

    /// Keeps the runs of a round, unless one of them failed: the others have nothing to be compared with then.
    fn keep(&mut self, job: &Job, runs: Vec<Option<Run>>, is_repeated: bool) {
        let is_good = |run: &Run| {
            let status = run.status;
            let exited = status.is_none_or(|status| status.signal().is_none());
            let succeeded = status.is_none_or(|status| status.success());
            !is_repeated || (exited && (succeeded || job.counts_failures))
        };
        let all_good = runs.iter().flatten().all(is_good);
        for (side, run) in self.sides.iter_mut().zip(runs) {
            let Some(run) = run else { continue };
            match run.status {
                Some(status) if !is_good(&run) => side.left_out.push(status),
                _ if all_good => side.runs.push(run),
                _ => {}
            }
        }
    }
}

impl Side {
    /// Returns a side of the same command, whose runs are not kept.
    fn copy(side: &Side) -> Side {
        Side {
            command: side.command.clone(),
            ..Side::default()
        }
    }
}

/// Runs what is to be run before each run.
fn prepare(job: &Job) -> Result<(), Failure> {
    let Some(script) = &job.prepare else {
        return Ok(());
    };
    let launcher = Launcher::new("sh")
        .args(["-c", script])
        .stdout_to_stderr(job.takes_stdout());
    let mut child = launcher.spawn()?;
    child.release()?;
    let status = child.wait().context("cannot wait for --prepare")?;
    match status.success() {
        true => Ok(()),
        false => {
            Err(anyhow::anyhow!("--prepare failed ({}): {}", ended(status), brief(script)).into())
        }
    }
}

/// Counts one run.
fn one_run(
    job: &Job,
    signals: &Signals,
    side: &mut Side,
    on_interval: OnInterval<'_>,
) -> Result<Run, Failure> {
    let mut session = match side.command.split_first() {
        None => CountingSession::attach(&job.options),
        Some((program, args)) => {
            let launcher = (Launcher::new(program).args(args)).stdout_to_stderr(job.takes_stdout());
            CountingSession::launch(&job.options, &launcher)
        }
    }
    .map_err(failed)?;
    if side.events.is_empty() {
        side.events = session.events().to_vec();
        side.notices = session.notices().to_vec();
        if job.verbose {
            describe(&session);
        }
    }
    // Once it is started it counts: what happens before the first look belongs to the first interval.
    let before = session.read();
    session.start().map_err(failed)?;
    Watch::new(job, signals, &session, before).until_end(&mut session, on_interval)
}

/// Waiting for the end of a run.
struct Watch<'a> {
    job: &'a Job,
    signals: &'a Signals,
    started: Instant,
    /// When counting begins, if it has not.
    begin: Option<Instant>,
    /// When counting ends.
    end: Option<Instant>,
    next_interval: Option<Instant>,
    intervals: u64,
    last: (Instant, Snapshot),
    /// Counts, once counting has ended before the command.
    stopped: Option<(Duration, Snapshot)>,
    is_told: bool,
}

impl<'a> Watch<'a> {
    fn new(
        job: &'a Job,
        signals: &'a Signals,
        session: &CountingSession,
        before: Snapshot,
    ) -> Watch<'a> {
        let started = session.started().unwrap_or_else(Instant::now);
        let begin = job.delay.map(|delay| started + delay);
        Watch {
            job,
            signals,
            started,
            begin,
            end: job
                .timeout
                .map(|timeout| begin.unwrap_or(started) + timeout),
            next_interval: job.interval.map(|interval| started + interval),
            intervals: 0,
            last: (started, before),
            stopped: None,
            is_told: false,
        }
    }

    fn until_end(
        mut self,
        session: &mut CountingSession,
        on_interval: OnInterval<'_>,
    ) -> Result<Run, Failure> {
        let has_command = !self.job.commands.is_empty();
        let status = loop {
            if self.stopped.is_some() && !has_command {
                break None;
            }
            let now = Instant::now();
            let next = [self.begin, self.end, self.next_interval]
                .into_iter()
                .flatten()
                .min();
            let timeout = next.map(|next| next.saturating_duration_since(now));
            let wake = (!self.is_told).then(|| self.signals.fd());
            match session
                .wait_or(wake, timeout)
                .context("cannot wait for the command")?
            {
                WaitOutcome::Exited(status) => break Some(status),
                WaitOutcome::TargetsExited => break None,
                WaitOutcome::Other => self.take_signal(session),
                WaitOutcome::Timeout => self.take_time(session, on_interval)?,
            }
        };
        let (wall, counts) = match self.stopped.take() {
            Some(stopped) => stopped,
            None => (self.started.elapsed(), session.read()),
        };
        if self.job.interval.is_some() && self.next_interval.is_some() {
            self.tell(session, counts.clone(), self.started + wall, on_interval)?;
        }
        Ok(Run {
            status,
            wall,
            usage: session.usage(),
            counts,
        })
    }

    /// Passes a signal on to the command, unless it has it already; without one, counting ends.
    fn take_signal(&mut self, session: &mut CountingSession) {
        self.signals.drain();
        let Some(signal) = self.signals.last() else {
            return;
        };
        if self.job.commands.is_empty() {
            self.stop(session);
            return;
        }
        self.is_told = true;
        if !has_reached_command(signal) {
            session.signal(signal).ok();
        }
    }

    /// Does what is due.
    fn take_time(
        &mut self,
        session: &mut CountingSession,
        on_interval: OnInterval<'_>,
    ) -> Result<(), Failure> {
        let now = Instant::now();
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(self.begin) {
            self.begin = None;
            if let Err(error) = session.enable() {
                // What could be started is counted.
                say(error);
            }
        }
        if let Some(at) = self.next_interval.filter(|at| *at <= now) {
            self.next_interval = self
                .job
                .interval
                .map(|interval| next_after(at, interval, now));
            self.tell(session, session.read(), now, on_interval)?;
            self.intervals += 1;
            if self
                .job
                .most_intervals
                .is_some_and(|most| self.intervals >= most)
            {
                self.next_interval = None;
                self.end_early(session);
            }
        }
        if is_due(self.end) {
            self.end_early(session);
        }
        Ok(())
    }

    /// Ends counting, and the command.
    fn end_early(&mut self, session: &mut CountingSession) {
        self.stop(session);
        if !self.job.commands.is_empty() {
            session.signal(signal_hook::consts::SIGTERM).ok();
        }
    }

    fn stop(&mut self, session: &mut CountingSession) {
        self.end = None;
        if self.stopped.is_none() {
            session.disable().ok();
            self.stopped = Some((self.started.elapsed(), session.read()));
        }
    }

    fn tell(
        &mut self,
        session: &CountingSession,
        counts: Snapshot,
        now: Instant,
        on_interval: OnInterval<'_>,
    ) -> Result<(), Failure> {
        let (before, earlier) = &self.last;
        let interval = Interval {
            end: now.saturating_duration_since(self.started),
            length: now.saturating_duration_since(*before),
            events: session.events(),
            counts: counts.since(earlier),
        };
        on_interval(&interval)?;
        self.last = (now, counts);
        Ok(())
    }
}

/// Returns the next moment of a rhythm that is still to come.
fn next_after(mut at: Instant, interval: Duration, now: Instant) -> Instant {
    let passed = now.saturating_duration_since(at).as_nanos() / interval.as_nanos().max(1);
    at += interval
        * u32::try_from(passed)
            .unwrap_or(u32::MAX - 1)
            .saturating_add(1);
    at
}

/// Gives a command that cannot be executed the exit status of a shell, and words other failures.
fn failed(error: CountError) -> Failure {
    match &error {
        CountError::Exec(exec) => {
            let status = of_exec(exec);
            Failure::with_status(status, error)
        }
        CountError::Cpus(_) | CountError::NoTarget { .. } | CountError::Cgroup(_) => error.into(),
        CountError::Open(refused) => match remedies::of_event(refused) {
            Some(worded) => anyhow::Error::msg(worded).into(),
            None => error.into(),
        },
        _ => error.into(),
    }
}

fn describe(session: &CountingSession) {
    for event in session.events() {
        let state = match event.state.is_counted() {
            true => "counted".to_owned(),
            false => reason(event),
        };
        say(format_args!("event `{}`: {state}", event.name));
    }
    say(format_args!("{} counters are open", session.counters()));
}

/// Describes how a command ended: `exit status 3`, `killed by signal 9`.
pub(super) fn ended(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("killed by signal {signal}"),
        None => format!("exit status {}", exit_status(status)),
    }
}

/// Returns a command as one line, for titles.
pub(super) fn command_text(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    clean(&brief(&words.join(" "))).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_that_were_missed_are_not_made_up_for() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let next = |at, now| {
            next_after(after(at), Duration::from_millis(10), after(now)).duration_since(start)
        };
        assert_eq!(next(10, 10), Duration::from_millis(20));
        assert_eq!(next(10, 19), Duration::from_millis(20));
        assert_eq!(next(10, 45), Duration::from_millis(50));
    }
}

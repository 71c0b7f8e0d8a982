//! Runs commands, two of them in turns.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Context;
use rprof_counting::session::CountedEvent;
use rprof_counting::{CountError, CountingSession, SessionNotice, SessionOptions, Snapshot};
use rprof_export::clean::{brief, clean};
use rprof_launch::Launcher;

use super::job::{Job, Repeat};
use super::run::{Interval, OnInterval, Run, reason};
use super::watch::Watch;
use crate::recording::signals::Signals;
use crate::recording::status::{exit_status, of_exec};
use crate::terminal::Terminal;
use crate::wording::messages::{Failure, say};
use crate::wording::remedies;

#[derive(Default)]
pub(super) struct Side {
    pub(super) command: Vec<OsString>,
    pub(super) events: Vec<CountedEvent>,
    pub(super) notices: Vec<SessionNotice>,
    pub(super) runs: Vec<Run>,
    /// Events of each pass, if one run cannot count all events.
    pub(super) passes: Vec<Vec<usize>>,
    /// Statuses of failed or killed runs, which are not counted.
    pub(super) left_out: Vec<ExitStatus>,
}

pub(super) struct Measured {
    pub(super) sides: Vec<Side>,
    /// Status that decides rprof's own: the last one, or the first failure.
    pub(super) last_status: Option<ExitStatus>,
}

/// Runs everything. The order of two commands alternates, so that drift affects both.
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
    /// Stores the status of a run, unless an earlier one failed.
    fn note(&mut self, run: &Run) {
        let has_failed = self.last_status.is_some_and(|status| !status.success());
        if !has_failed {
            self.last_status = run.status;
        }
    }

    /// Keeps the runs of a round, unless one failed.
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
    fn copy(side: &Side) -> Side {
        Side {
            command: side.command.clone(),
            ..Side::default()
        }
    }
}

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

/// Counts one run, or several passes with a part of the events each (`--multiplex=no`).
fn one_run(
    job: &Job,
    signals: &Signals,
    side: &mut Side,
    on_interval: OnInterval<'_>,
) -> Result<Run, Failure> {
    let mut session = open(job, &job.options, side)?;
    if side.events.is_empty() {
        side.events = session.events().to_vec();
        side.notices = session.notices().to_vec();
        if job.verbose {
            describe(&session);
        }
        if !job.multiplex {
            side.passes = session.passes();
        }
        if let passes @ 2.. = side.passes.len() {
            side.notices.push(SessionNotice::RunInPasses { passes });
        }
    }
    if side.passes.len() < 2 {
        let run = counted(job, signals, &mut session, on_interval);
        side.notices.extend(session.late_notices());
        return run;
    }
    drop(session);
    in_passes(job, signals, side)
}

/// Runs each pass, and joins the counts. Times come from the first pass, unless a later one fails.
fn in_passes(job: &Job, signals: &Signals, side: &Side) -> Result<Run, Failure> {
    let mut first: Option<Run> = None;
    let mut passes = Vec::new();
    for numbers in &side.passes {
        let events = numbers
            .iter()
            .filter_map(|event| job.options.events.get(*event));
        let options = SessionOptions {
            events: events.cloned().collect(),
            ..job.options.clone()
        };
        if first.is_some() {
            prepare(job)?;
        }
        let mut session = open(job, &options, side)?;
        let run = counted(job, signals, &mut session, &mut |_| Ok(()))?;
        passes.push((numbers.clone(), run.counts.clone()));
        let failed = run.status.is_some_and(|status| !status.success());
        match &mut first {
            Some(first) if failed => first.status = run.status,
            Some(_) => {}
            None => first = Some(run),
        }
        if failed || signals.last().is_some() {
            break;
        }
    }
    let mut run = first.ok_or_else(|| anyhow::anyhow!("no event to count"))?;
    run.counts = Snapshot::joined(job.options.events.len(), passes);
    Ok(run)
}

/// Opens the counters of a run. The command waits.
fn open(job: &Job, options: &SessionOptions, side: &Side) -> Result<CountingSession, Failure> {
    match side.command.split_first() {
        None => CountingSession::attach(options),
        Some((program, args)) => {
            let launcher = (Launcher::new(program).args(args)).stdout_to_stderr(job.takes_stdout());
            CountingSession::launch(options, &launcher)
        }
    }
    .map_err(failed)
}

fn counted(
    job: &Job,
    signals: &Signals,
    session: &mut CountingSession,
    on_interval: OnInterval<'_>,
) -> Result<Run, Failure> {
    // Early counts belong to the first interval.
    let before = session.read();
    session.start().map_err(failed)?;
    Watch::new(job, signals, session, before).until_end(session, on_interval)
}

/// Words failures. A command that cannot be executed gets a shell's exit status.
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

pub(super) fn command_text(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    clean(&brief(&words.join(" "))).into_owned()
}

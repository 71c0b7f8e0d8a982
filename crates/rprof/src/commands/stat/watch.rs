//! Waits for the end of a run, and handles timers meanwhile.

use std::time::{Duration, Instant};

use anyhow::Context;
use rprof_counting::{CountingSession, Snapshot};
use rprof_launch::WaitOutcome;

use super::job::Job;
use super::run::{Interval, OnInterval, Run};
use crate::recording::signals::Signals;
use crate::terminal::has_reached_command;
use crate::wording::messages::{Failure, say};

pub(super) struct Watch<'a> {
    job: &'a Job,
    signals: &'a Signals,
    started: Instant,
    /// Start of counting, if still ahead.
    begin: Option<Instant>,
    end: Option<Instant>,
    next_interval: Option<Instant>,
    intervals: u64,
    last: (Instant, Snapshot),
    /// Counts, if counting ended before the command.
    stopped: Option<(Duration, Snapshot)>,
    is_told: bool,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
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

    pub(super) fn until_end(
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

    /// Forwards a signal, unless the terminal sent it to both. Without a command, ends counting.
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

fn next_after(mut at: Instant, interval: Duration, now: Instant) -> Instant {
    let passed = now.saturating_duration_since(at).as_nanos() / interval.as_nanos().max(1);
    at += interval
        * u32::try_from(passed)
            .unwrap_or(u32::MAX - 1)
            .saturating_add(1);
    at
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

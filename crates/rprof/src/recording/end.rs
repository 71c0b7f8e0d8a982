//! Waits for the end of a recording, and then for the command.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rprof_launch::WaitOutcome;
use rprof_recorder::{Recording, WriterState};

use crate::recording::signals::Signals;
use crate::terminal;
use crate::terminal::progress::{ProgressLine, TICK};
use crate::wording::messages::{Failure, say};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    /// Time before the first sample.
    pub(crate) delay: Option<Duration>,
    /// Time from the first sample to the end.
    pub(crate) duration: Option<Duration>,
}

#[derive(Debug)]
pub(crate) enum StopReason {
    Exited(ExitStatus),
    /// All targets exited.
    TargetsGone,
    /// A signal with this number came.
    Signal(i32),
    Duration,
    Full,
    Failed,
}

/// Waits for the end of the recording, and shows its progress.
pub(crate) fn watch(
    recording: &mut Recording,
    signals: &Signals,
    times: Times,
    quiet: bool,
) -> Result<StopReason, Failure> {
    let line = ProgressLine::new(quiet);
    let end = loop_until_end(recording, signals, times, &line);
    line.clear();
    end
}

fn loop_until_end(
    recording: &mut Recording,
    signals: &Signals,
    times: Times,
    line: &ProgressLine,
) -> Result<StopReason, Failure> {
    let start = Instant::now();
    let mut begin = times.delay.map(|delay| start + delay);
    let end = (times.duration).map(|time| start + times.delay.unwrap_or_default() + time);
    loop {
        let now = Instant::now();
        if begin.is_some_and(|begin| begin <= now) {
            if let Err(error) = recording.enable() {
                say(error);
            }
            begin = None;
        }
        if end.is_some_and(|end| end <= now) {
            return Ok(StopReason::Duration);
        }
        let tick = line.is_shown().then(|| now + TICK);
        let next = [begin, end, tick].into_iter().flatten().min();
        let timeout = next.map(|next| next.saturating_duration_since(now));
        match recording.wait(Some(signals.fd()), timeout)? {
            WaitOutcome::Exited(status) => return Ok(StopReason::Exited(status)),
            WaitOutcome::TargetsExited => return Ok(StopReason::TargetsGone),
            WaitOutcome::Other => {
                signals.drain();
                if let Some(signal) = signals.last() {
                    return Ok(StopReason::Signal(signal));
                }
                if signals.take_switch() {
                    recording.switch();
                }
            }
            WaitOutcome::Timeout => line.show(&recording.progress()),
        }
        match recording.writer() {
            WriterState::Writing => {}
            WriterState::Full => return Ok(StopReason::Full),
            WriterState::Failed => return Ok(StopReason::Failed),
        }
    }
}

/// Waits for the command. Forwards the signal that ended the recording, or the first one now. The
/// second ends rprof (see `Signals`).
pub(crate) fn wait_for_command(
    recording: &mut Recording,
    signals: &Signals,
    end: &StopReason,
) -> Result<ExitStatus, Failure> {
    let mut told = false;
    if let StopReason::Signal(signal) = end {
        pass_on(recording, *signal);
        told = true;
    }
    loop {
        let wake = (!told).then(|| signals.fd());
        if let WaitOutcome::Exited(status) = recording.wait_for_command(wake, None)? {
            return Ok(status);
        }
        signals.drain();
        if let (Some(signal), false) = (signals.last(), told) {
            pass_on(recording, signal);
            told = true;
        }
    }
}

/// Forwards a signal to the command, unless the terminal sent it to both.
fn pass_on(recording: &Recording, signal: i32) {
    if !terminal::has_reached_command(signal) {
        recording.signal_command(signal);
    }
}

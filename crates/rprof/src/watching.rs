//! Waiting for a recording to end, and for the command after it.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rprof_recorder::{Recording, StopReason, WriterState};

use crate::messages::Failure;
use crate::progress::{ProgressLine, TICK};
use crate::signals::Signals;
use crate::terminal;

/// When to begin, and for how long.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    /// Before sampling begins.
    pub(crate) delay: Option<Duration>,
    /// From then on.
    pub(crate) duration: Option<Duration>,
}

/// Why a recording ends.
#[derive(Debug)]
pub(crate) enum End {
    /// The command ended.
    Exited(ExitStatus),
    /// Everything that was attached to has ended.
    TargetsGone,
    /// This signal came.
    Signal(i32),
    /// The time is over.
    Duration,
    /// There are as many bytes as were wanted.
    Full,
    /// It cannot be written.
    Failed,
}

/// Waits until the recording is to end.
pub(crate) fn watch(
    recording: &mut Recording,
    signals: &Signals,
    times: Times,
    quiet: bool,
) -> Result<End, Failure> {
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
) -> Result<End, Failure> {
    let start = Instant::now();
    let mut begin = times.delay.map(|delay| start + delay);
    let end = (times.duration).map(|time| start + times.delay.unwrap_or_default() + time);
    loop {
        let now = Instant::now();
        if begin.is_some_and(|begin| begin <= now) {
            recording.enable();
            begin = None;
        }
        if end.is_some_and(|end| end <= now) {
            return Ok(End::Duration);
        }
        let tick = line.is_shown().then(|| now + TICK);
        let next = [begin, end, tick].into_iter().flatten().min();
        let timeout = next.map(|next| next.saturating_duration_since(now));
        match recording.wait(Some(signals.fd()), timeout)? {
            Some(StopReason::Exited(status)) => return Ok(End::Exited(status)),
            Some(StopReason::TargetsGone) => return Ok(End::TargetsGone),
            Some(StopReason::Asked) => {
                signals.drain();
                if let Some(signal) = signals.last() {
                    return Ok(End::Signal(signal));
                }
                if signals.take_switch() {
                    recording.switch();
                }
            }
            None => line.show(&recording.progress()),
        }
        match recording.writer() {
            WriterState::Writing => {}
            WriterState::Full => return Ok(End::Full),
            WriterState::Failed => return Ok(End::Failed),
        }
    }
}

/// After the recording the command ends in its own time. It is told of the signal that
/// ended the recording, or of one that comes now; a second one does not wait for it.
pub(crate) fn wait_for_command(
    recording: &mut Recording,
    signals: &Signals,
    end: &End,
) -> Result<ExitStatus, Failure> {
    let mut told = false;
    if let End::Signal(signal) = end {
        pass_on(recording, *signal);
        told = true;
    }
    loop {
        let wake = (!told).then(|| signals.fd());
        if let Some(StopReason::Exited(status)) = recording.wait_for_command(wake, None)? {
            return Ok(status);
        }
        signals.drain();
        if let (Some(signal), false) = (signals.last(), told) {
            pass_on(recording, signal);
            told = true;
        }
    }
}

/// Gives the command a signal that we got, unless it has got it by itself.
fn pass_on(recording: &Recording, signal: i32) {
    let by_terminal = signal == signal_hook::consts::SIGINT && terminal::signals_command();
    if !by_terminal {
        recording.signal_command(signal);
    }
}

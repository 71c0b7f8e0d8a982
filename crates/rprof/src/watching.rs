//! Waiting for a recording to end, and for the command after it.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rprof_recorder::{Recording, StopReason, WriterState};

use crate::messages::Failure;
use crate::progress::{ProgressLine, TICK};
use crate::signals::Signals;
use crate::terminal;

/// Start and length of a recording.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    /// Time before the first sample.
    pub(crate) delay: Option<Duration>,
    /// Time from then on until recording ends.
    pub(crate) duration: Option<Duration>,
}

/// Reason for which a recording ends.
#[derive(Debug)]
pub(crate) enum End {
    /// The command ended.
    Exited(ExitStatus),
    /// Everything that was attached to has ended.
    TargetsGone,
    /// A signal of this number came.
    Signal(i32),
    /// `Times::duration` is over.
    Duration,
    /// `--max-size` is reached.
    Full,
    /// Writing has failed.
    Failed,
}

/// Waits until the recording is to end, and shows its progress meanwhile.
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

/// Waits for the command after the recording. Passes on to it the signal that ended the recording, or the
/// first that comes now; the second ends rprof (see `Signals`).
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

/// Sends the command a signal that rprof got, unless the terminal has sent it to both.
fn pass_on(recording: &Recording, signal: i32) {
    let by_terminal = signal == signal_hook::consts::SIGINT && terminal::signals_command();
    if !by_terminal {
        recording.signal_command(signal);
    }
}

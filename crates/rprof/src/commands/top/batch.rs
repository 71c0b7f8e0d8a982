//! Prints a table or a line of JSON for each interval.

use std::io::{self, IsTerminal, Write};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Context;
use rprof_analysis::{LiveView, Span};
use rprof_export::live::{LiveLook, LookOptions, write_json, write_text};
use rprof_launch::WaitOutcome;
use rprof_profile::TopFunctions;
use rprof_recorder::WriterState;
use signal_hook::consts::SIGTERM;

use super::live::{CommandOutput, Live};
use super::looks::{OwnCpu, Rhythm};
use crate::Outcome;
use crate::cli::{TopArgs, TopFormat};
use crate::recording::end::{StopReason, wait_for_command};
use crate::recording::signals::Signals;
use crate::recording::status::exit_status;
use crate::terminal;
use crate::terminal::output::check_standard_output;
use crate::terminal::wants_color;
use crate::wording::messages::Failure;

const ROWS: usize = 20;

pub(super) fn run(args: &TopArgs) -> Outcome {
    let signals =
        Signals::listen(false, !args.command.is_empty()).context("cannot listen for signals")?;
    let waker = signals.waker().context("cannot make a socket")?;
    let live = Live::begin(args, CommandOutput::Stderr, &waker)?;
    let shown = &args.shown;
    let window = shown.window.unwrap_or(shown.refresh);
    let mut printer = Printer {
        args,
        rhythm: Rhythm::new(shown.refresh, shown.refresh, window),
        cpu: OwnCpu::new(),
        number: 0,
        samples: 0,
        live,
    };
    let printed = printer.until_end(&signals);
    printer.end(&signals, printed)
}

struct Printer<'a> {
    args: &'a TopArgs,
    live: Live,
    rhythm: Rhythm,
    cpu: OwnCpu,
    /// Number of printed intervals, and of samples up to the last one.
    number: u64,
    samples: u64,
}

enum End {
    Exited(ExitStatus),
    /// A signal with this number came.
    Signal(i32),
    /// The target exited, or a limit is reached.
    Enough,
}

impl Printer<'_> {
    fn until_end(&mut self, signals: &Signals) -> Result<End, Failure> {
        let end = (self.args.sampling.duration).map(|time| Instant::now() + time);
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(End::Enough);
            }
            let timeout = self.rhythm.left().min(left.unwrap_or(Duration::MAX));
            match self
                .live
                .recording
                .wait(Some(signals.fd()), Some(timeout))?
            {
                WaitOutcome::Exited(status) => return Ok(End::Exited(status)),
                WaitOutcome::TargetsExited => return Ok(End::Enough),
                WaitOutcome::Other => {
                    signals.drain();
                    if let Some(signal) = signals.last() {
                        return Ok(End::Signal(signal));
                    }
                }
                WaitOutcome::Timeout => {}
            }
            if self.live.recording.writer() != WriterState::Writing {
                return Ok(End::Enough);
            }
            if self.rhythm.left().is_zero() {
                self.look()?;
                if self.args.shown.intervals == Some(self.number) {
                    return Ok(End::Enough);
                }
            }
        }
    }

    fn look(&mut self) -> Result<(), Failure> {
        // A table waits for names; draining and counting do not.
        let intervals = self.rhythm.intervals;
        let view = self.live.analysis.end_interval(Span::Window, intervals);
        let window = self.rhythm.window();
        self.rhythm.end_interval();
        self.number += 1;
        self.print(&view, window)
    }

    fn print(&mut self, view: &LiveView, window: Duration) -> Result<(), Failure> {
        let shown = &self.args.shown;
        let profile = &view.profile;
        let event = profile.main_event().unwrap_or(0);
        let none = TopFunctions::default();
        let look = LiveLook {
            number: self.number,
            elapsed: self.rhythm.started.elapsed(),
            window,
            profile,
            event,
            since_start: view.since_start.get(event).unwrap_or(&none),
            forgotten: view.forgotten,
            own_cpu: self.cpu.percent(),
        };
        self.samples = samples(view);
        let is_text = shown.format == TopFormat::Text;
        let options = LookOptions {
            by_total: shown.children,
            limit: match shown.entries {
                None => is_text.then_some(ROWS),
                Some(0) => None,
                most => most,
            },
            width: terminal::width().filter(|_| io::stdout().is_terminal()),
            color: wants_color(shown.color),
        };
        let mut text = Vec::new();
        match shown.format {
            TopFormat::Text => write_text(&look, &options, &mut text)?,
            TopFormat::Json => write_json(&look, &options, &mut text)?,
        }
        check_standard_output()?;
        let mut out = io::stdout().lock();
        out.write_all(&text)?;
        out.flush()?;
        Ok(())
    }

    /// Ends the recording and the command, and prints the remaining samples.
    fn end(mut self, signals: &Signals, printed: Result<End, Failure>) -> Outcome {
        let finished = self.live.recording.finish();
        let end = match printed {
            Ok(end) => end,
            Err(failure) => {
                self.live.recording.signal_command(SIGTERM);
                return Err(failure);
            }
        };
        let is_enough = self.args.shown.intervals == Some(self.number);
        if !is_enough && samples(&self.live.analysis.view(Span::SinceStart)) > self.samples {
            self.look()?;
        }
        finished?;
        let has_command = !self.args.command.is_empty();
        let status = match end {
            End::Exited(status) => exit_status(status),
            End::Signal(signal) if has_command => {
                let reason = StopReason::Signal(signal);
                exit_status(wait_for_command(
                    &mut self.live.recording,
                    signals,
                    &reason,
                )?)
            }
            End::Enough if has_command => {
                self.live.recording.signal_command(SIGTERM);
                let reason = StopReason::Duration;
                wait_for_command(&mut self.live.recording, signals, &reason)?;
                0
            }
            End::Signal(_) | End::Enough => 0,
        };
        Ok(status)
    }
}

fn samples(view: &LiveView) -> u64 {
    let rows = view.since_start.iter().flat_map(|top| &top.rows);
    rows.map(|row| row.self_samples).sum()
}

//! [`Collector`]: the thread between the recording and the screen.
//!
//! It sends a profile of the window at each refresh, and executes orders. The [`Namer`] looks up
//! names on another thread.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use rprof_analysis::{LiveView, Span};
use rprof_launch::WaitOutcome;
use rprof_output::RecordingFile;
use rprof_profile::WeighBy;
use rprof_recorder::{RecentRecords, RecentSnapshot, WriterState};
use rprof_tui::{InputEvent, Source, terminal};
use signal_hook::consts::SIGTERM;

use super::live::Live;
use super::looks::{OwnCpu, Rhythm};
use super::orders::{Namer, Order, Orders};
use crate::Outcome;
use crate::cli::TopArgs;
use crate::commands::tui::facts;
use crate::recording::status::exit_status;
use crate::terminal::output::{cannot, choice};
use crate::wording::messages::{Failure, say};

/// Time that the table covers, unless the user chooses another one.
const WINDOW: Duration = Duration::from_secs(10);

/// Time until the first table, which comes before a whole interval has passed.
const FIRST: Duration = Duration::from_millis(500);

/// Time that a refresh waits for names.
const GRACE: Duration = Duration::from_millis(100);

/// Time limit for the command to exit after a signal.
const PATIENCE: Duration = Duration::from_secs(2);

struct Ended {
    told: String,
    status: Option<ExitStatus>,
    failure: Option<Failure>,
}

pub(super) struct Collector {
    live: Live,
    orders: Receiver<Order>,
    wake: UnixStream,
    screen: terminal::Sender,
    names: Option<SyncSender<()>>,
    rhythm: Rhythm,
    /// Deadline to show the latest profile, with the names found by then.
    due: Option<Instant>,
    /// True if it was shown before its names were found.
    is_early: bool,
    cpu: OwnCpu,
    own_cpu: f64,
    span: Span,
    /// Both spans and the records at the time of the pause.
    paused: Option<Paused>,
    until: Option<Instant>,
    ended: Option<Ended>,
    output: PathBuf,
    has_command: bool,
    by_total: bool,
    command: Vec<String>,
}

struct Paused {
    window: Source,
    since_start: Source,
    records: Option<RecentSnapshot>,
}

impl Collector {
    pub(super) fn new(
        args: &TopArgs,
        live: Live,
        (orders, wake): (Receiver<Order>, UnixStream),
        screen: terminal::Sender,
    ) -> Collector {
        let shown = &args.shown;
        Collector {
            live,
            orders,
            wake,
            screen,
            names: None,
            rhythm: Rhythm::new(shown.refresh, FIRST, shown.window.unwrap_or(WINDOW)),
            due: None,
            is_early: false,
            cpu: OwnCpu::new(),
            own_cpu: 0.0,
            span: Span::Window,
            paused: None,
            until: (args.sampling.duration).map(|time| Instant::now() + time),
            ended: None,
            output: shown.output.clone(),
            has_command: !args.command.is_empty(),
            by_total: shown.children,
            command: crate::commands::tui::words(),
        }
    }

    pub(super) fn namer(&mut self, orders: Orders) -> Namer {
        let (sender, wanted) = sync_channel(1);
        self.names = Some(sender);
        Namer {
            analysis: self.live.analysis.clone(),
            wanted,
            orders,
        }
    }

    pub(super) fn source(&self) -> Source {
        self.source_of(self.live.analysis.view(self.span), self.span)
    }

    /// Collects until an order to quit; returns the exit status.
    pub(super) fn run(mut self) -> Outcome {
        loop {
            let first = match self.ended {
                None => {
                    self.collect();
                    None
                }
                Some(_) => match self.orders.recv() {
                    Ok(order) => Some(order),
                    Err(_) => return self.quit(None),
                },
            };
            for order in first
                .into_iter()
                .chain(self.orders.try_iter().collect::<Vec<_>>())
            {
                match order {
                    Order::Quit(signal) => return self.quit(signal),
                    order => self.obey(order),
                }
            }
        }
    }

    fn collect(&mut self) {
        if let Err(failure) = self.wait() {
            self.end(failure.text(), None);
            return;
        }
        if self.ended.is_some() {
            return;
        }
        if self.rhythm.left().is_zero() && self.due.is_none() {
            // Most names are cached.
            self.ask_for_names();
            self.due = Some(Instant::now() + GRACE);
        }
        if self.due.is_some_and(|due| due <= Instant::now()) {
            self.is_early = true;
            self.look();
        }
    }

    fn ask_for_names(&mut self) {
        if let Some(names) = &self.names
            && let Err(TrySendError::Disconnected(())) = names.try_send(())
        {
            self.names = None;
        }
    }

    fn wait(&mut self) -> Result<(), Failure> {
        let until = |at: Instant| at.saturating_duration_since(Instant::now());
        let left = self.until.map(until);
        let next = self.due.map_or_else(|| self.rhythm.left(), until);
        let timeout = next.min(left.unwrap_or(Duration::MAX));
        let recording = &mut self.live.recording;
        match recording.wait(Some(self.wake.as_fd()), Some(timeout))? {
            WaitOutcome::Exited(status) => {
                let told = format!("the command has ended, {status}");
                self.end(told, Some(status));
            }
            WaitOutcome::TargetsExited => self.end("all targets have exited".into(), None),
            WaitOutcome::Other => {
                let mut bytes = [0; 64];
                while (&self.wake).read(&mut bytes).is_ok_and(|n| n > 0) {}
            }
            WaitOutcome::Timeout if left == Some(Duration::ZERO) => {
                self.end("the recording time is over".into(), None);
            }
            WaitOutcome::Timeout => {}
        }
        if self.ended.is_none() && self.live.recording.writer() != WriterState::Writing {
            self.end("recording has failed".into(), None);
        }
        Ok(())
    }

    fn end(&mut self, told: String, status: Option<ExitStatus>) {
        let failure = self.live.recording.finish().err().map(Failure::from);
        self.ended = Some(Ended {
            told,
            status,
            failure,
        });
        self.due = None;
        self.ask_for_names();
        self.show();
    }

    fn look(&mut self) {
        self.own_cpu = self.cpu.percent();
        self.due = None;
        self.show();
        self.rhythm.end_interval();
        self.live.next_interval(self.rhythm.intervals);
    }

    fn show(&self) {
        if self.paused.is_none() {
            let view = self.live.analysis.view(self.span);
            self.send(self.source_of(view, self.span));
        }
    }

    fn show_names(&mut self) {
        match self.due {
            Some(_) => self.look(),
            None if self.is_early || self.ended.is_some() => {
                self.is_early = false;
                self.show();
            }
            None => {}
        }
    }

    fn send(&self, source: Source) {
        self.screen.send(InputEvent::Fresh(Box::new(source)));
    }

    fn source_of(&self, view: LiveView, span: Span) -> Source {
        let profile = view.profile;
        let event = profile.main_event().unwrap_or(0);
        let weight = WeighBy::Period;
        let summary = profile.events.get(event);
        let lost = summary.map_or(0, |event| event.lost);
        let mut words = match span {
            Span::Window => vec![format!(
                "window {:.0} s",
                self.rhythm.window().as_secs_f64()
            )],
            Span::SinceStart => {
                let time = self.rhythm.started.elapsed().as_secs_f64();
                vec![format!("everything, {time:.0} s")]
            }
        };
        words.push(format!("lost {lost}"));
        if view.forgotten > 0 {
            words.push(format!("forgotten {}", view.forgotten));
        }
        words.extend(self.ended.as_ref().map(|ended| ended.told.clone()));
        let since_start = view.since_start.iter();
        let since_start = since_start.map(|top| rprof_tui::SinceStart::new(top, weight));
        let title = format!("top  {}", self.live.title);
        Source {
            event,
            weight,
            title: rprof_export::clean::clean(&title).into_owned(),
            about: words.join("  "),
            by_total: self.by_total,
            facts: facts(&profile),
            hint: None,
            command: self.command.clone(),
            generation: view.generation,
            live: Some(rprof_tui::LiveFacts {
                corner: format!("rprof {:.1}% CPU", self.own_cpu),
                since_start: since_start.collect(),
            }),
            profile: Arc::new(profile),
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Pause(true) => {
                let (moment, records) = self.live.at_once(|analysis, recent| {
                    (analysis.moment(), recent.map(RecentRecords::snapshot))
                });
                // A paused view is read: with all names.
                let source = |span| {
                    let view = self.live.analysis.view_of(&moment, span);
                    self.source_of(view, span)
                };
                let paused = Paused {
                    window: source(Span::Window),
                    since_start: source(Span::SinceStart),
                    records,
                };
                self.paused = Some(paused);
            }
            Order::Pause(false) => {
                self.paused = None;
                self.show();
            }
            Order::Zero => {
                self.live.at_once(|analysis, recent| {
                    analysis.zero();
                    recent.inspect(|recent| recent.clear());
                });
                self.rhythm.zero();
                self.paused = None;
                self.show();
            }
            Order::Window => {
                self.span = match self.span {
                    Span::Window => Span::SinceStart,
                    Span::SinceStart => Span::Window,
                };
                match &self.paused {
                    None => self.show(),
                    Some(paused) => {
                        let source = match self.span {
                            Span::Window => &paused.window,
                            Span::SinceStart => &paused.since_start,
                        };
                        self.send(source.clone());
                    }
                }
            }
            Order::Write => self.write(),
            Order::Named => self.show_names(),
            Order::Quit(_) => {}
        }
    }

    /// Writes the records of the window, or of the pause.
    fn write(&self) {
        let now;
        let records = match (&self.paused, &self.live.recent) {
            (Some(paused), _) => paused.records.as_ref(),
            (None, Some(recent)) => {
                now = recent.snapshot();
                Some(&now)
            }
            (None, None) => None,
        };
        let Some(records) = records else {
            return;
        };
        let path = &self.output;
        let written = rprof_output::Destination::of(path, choice(path))
            .and_then(|_| RecordingFile::create(path))
            .map_err(|error| cannot(error).text())
            .and_then(|made| {
                let file = made.file.try_clone();
                match file.and_then(|file| records.write(file)) {
                    Ok(bytes) => {
                        made.settle();
                        Ok(bytes)
                    }
                    Err(error) => {
                        made.discard();
                        Err(format!("cannot write {}: {error}", path.display()))
                    }
                }
            });
        let told = match written {
            Ok(bytes) => format!("wrote {}, {:.1} MB", path.display(), bytes as f64 / 1e6),
            Err(told) => told,
        };
        self.screen.send(InputEvent::Message(told));
    }

    fn quit(mut self, signal: Option<i32>) -> Outcome {
        self.names = None;
        let ended = match self.ended.take() {
            Some(ended) => ended,
            None => Ended {
                told: String::new(),
                status: None,
                failure: self.live.recording.finish().err().map(Failure::from),
            },
        };
        if ended.status.is_none() && self.has_command {
            let signal = signal.unwrap_or(SIGTERM);
            self.live.recording.signal_command(signal);
            let waited = (self.live.recording).wait_for_command(None, Some(PATIENCE))?;
            if !matches!(waited, WaitOutcome::Exited(_)) {
                say("the command got a signal to end, but still runs");
            }
        }
        match ended.failure {
            Some(failure) => Err(failure),
            None => Ok(ended.status.map_or(0, exit_status)),
        }
    }
}

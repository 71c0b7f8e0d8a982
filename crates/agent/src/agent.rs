//! The main loop of the agent, which connects all other modules.
//!
//! Threads: the drain and writer threads of the recording, which never block on the agent; this
//! one; the analyst, at nice 19; one uploader for each destination; one for metrics.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rprof_fleet_table::Window;
use rprof_output::Folder;
use rprof_profile::unit::counted_were;
use rprof_push::Label;
use rprof_recorder::RecordError;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, flock};
use sd_notify::NotifyState;

use crate::analyst::{Analyst, EndedWindow};
use crate::budget::{Budget, BudgetStep, Meter, Relief, Usage};
use crate::config::Config;
use crate::destination::WindowDestination;
use crate::error::{AgentError, failed};
use crate::live::MachineRecording;
pub use crate::log::Log;
use crate::schedule::{OpenWindow, is_sampled, send_delay, unix_micros};
use crate::spool::{Spool, bytes_below, free_percent};
use crate::status::{DestinationStatus, Status};
use crate::uploader::Uploader;
use crate::watch::ProcessWatch;

/// Time for sending the last window.
const LAST_TRY: Duration = Duration::from_secs(5);

/// Maximum time between two watchdog notifications.
const BEAT: Duration = Duration::from_secs(10);

/// Windows queued for the analyst. Analysis takes far less time than a window.
const WAITING: usize = 2;

/// Returns the configured host name, or the kernel's.
pub fn host_name(config: &Config) -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim().to_owned();
    config.identity.host.clone().unwrap_or(name)
}

/// Records until `stop` is readable. Then closes and stores the last window, and tries once to send
/// it.
///
/// # Errors
/// [`AgentError`] if the agent cannot start. Later failures are logged and retried.
pub fn run(config: Config, stop: BorrowedFd<'_>, log: &Log) -> Result<(), AgentError> {
    crate::heap::configure();
    let config = Arc::new(config);
    let folder = config.spool.folder.clone();
    let spool = Folder::create(&folder).map_err(failed("make", &folder))?;
    let lock = lock(&config)?;
    let host = host_name(&config);
    let mut uploaders = Vec::new();
    for to in &config.to {
        let wrong = |message| AgentError::Config {
            path: "the configuration".into(),
            message: format!("to `{}`: {message}", to.name()),
        };
        let destination = WindowDestination::new(to).map_err(wrong)?;
        let path = folder.join(to.name());
        let queue = Spool::open(&path, destination.sends_once()).map_err(failed("open", &path))?;
        if queue.untold() > 0 {
            log.say(&format!(
                "{}: {} lost before",
                to.name(),
                counted_were(queue.untold(), "window")
            ));
        }
        uploaders.push(Uploader::new(to.name(), destination, queue, log.clone()));
    }
    let status = Arc::new(Mutex::new(Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        host: host.clone(),
        started: unix_micros() / 1_000_000,
        wanted_rate_hz: config.sample.rate,
        window_seconds: config.sample.window_seconds,
        spool_max_bytes: config.spool.max_mib << 20,
        ..Status::default()
    }));
    if let Some(address) = config.metrics.listen {
        crate::metrics::serve(address, Arc::clone(&status))?;
    }
    for uploader in &uploaders {
        uploader.start().map_err(AgentError::System)?;
    }
    let (sender, windows) = sync_channel(WAITING);
    let analyst_thread = AnalystThread {
        config: Arc::clone(&config),
        host: host.clone(),
        uploaders: uploaders.clone(),
        status: Arc::clone(&status),
        log: log.clone(),
    };
    let analyst = analyst_thread.start(windows).map_err(AgentError::System)?;
    let agent = Agent {
        budget: Budget::new(
            config.budget.cpu_percent,
            config.budget.memory_mib << 20,
            config.sample.rate,
        ),
        watch: ProcessWatch::new(config.identity.service_from_env),
        status,
        uploaders,
        spool,
        host,
        config,
        log: log.clone(),
        _lock: lock,
    };
    agent.record(stop, sender, analyst)
}

/// Locks the spool until the returned file is closed.
fn lock(config: &Config) -> Result<File, AgentError> {
    let path = config.spool.folder.join("lock");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    let mut file = options
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
        .open(&path)
        .map_err(failed("open", &path))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut pid = String::new();
        file.read_to_string(&mut pid).ok();
        return Err(AgentError::InUse {
            folder: config.spool.folder.clone(),
            pid: pid.trim().chars().filter(char::is_ascii_digit).collect(),
        });
    }
    let pid = std::process::id().to_string();
    let written = file
        .set_len(0)
        .and_then(|()| file.write_all(pid.as_bytes()));
    written.map_err(failed("write", &path))?;
    Ok(file)
}

struct Agent {
    config: Arc<Config>,
    host: String,
    budget: Budget,
    watch: ProcessWatch,
    uploaders: Vec<Uploader>,
    spool: Folder,
    status: Arc<Mutex<Status>>,
    log: Log,
    _lock: File,
}

enum Work {
    Window(Box<EndedWindow>),
    Forget(Relief),
}

impl Agent {
    fn record(
        mut self,
        stop: BorrowedFd<'_>,
        analyst: SyncSender<Work>,
        thread: JoinHandle<()>,
    ) -> Result<(), AgentError> {
        let length = Duration::from_secs(self.config.sample.window_seconds.into());
        let memory = self.config.budget.memory_mib << 20;
        let mut live = None;
        let mut is_first = true;
        let mut meter = Meter::begin();
        // The first window also reads running processes and their symbols.
        let mut is_warming_up = true;
        let mut has_failed_before = false;
        loop {
            let window = OpenWindow::begin(length);
            let is_sampled = is_sampled(&self.host, window.start, self.config.sample.hosts);
            if is_sampled && live.is_none() {
                match MachineRecording::begin(self.budget.rate(), memory, &self.watch) {
                    Err(error) if is_first => return Err(error.into()),
                    begun => live = self.begun(begun, is_first, &mut has_failed_before),
                }
            }
            if !is_sampled && live.take().is_some() {
                self.log.say("resting: other hosts sample in this hour");
            }
            if live.is_some() {
                for uploader in &self.uploaders {
                    // On failure, a crash during the window is not counted as a loss.
                    uploader
                        .with_spool(|spool| spool.begin_window(window.start))
                        .ok();
                }
            }
            self.update(is_sampled, live.is_some(), is_first);
            if std::mem::take(&mut is_first) {
                self.log.say(&format!(
                    "recording all CPUs at {} Hz in windows of {} s, as {}",
                    self.budget.rate(),
                    length.as_secs(),
                    self.host
                ));
                notify(&[NotifyState::Ready]);
            }
            let is_over = self.wait(stop, &mut live, &window);
            let elapsed = window.elapsed();
            let rate = self.budget.rate();
            let has_failed = live.as_ref().is_some_and(|live| !live.is_alive());
            let usage = meter.lap(elapsed, live.as_ref().map_or(0, MachineRecording::bytes));
            let step = self.judge(usage, &mut is_warming_up, &analyst);
            // A new rate needs a new recording.
            let records = match is_over || has_failed || step.is_some() {
                false => live.as_ref().map(MachineRecording::end_window),
                true => live.take().map(|live| {
                    is_warming_up = true;
                    let (records, ended) = live.finish();
                    if let Err(error) = ended {
                        self.log.say(&format!("the recording ended early: {error}"));
                    }
                    records
                }),
            };
            if let Some(records) = records {
                let window = Window {
                    start: window.start,
                    length: i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX),
                };
                self.hand_on(
                    &analyst,
                    EndedWindow {
                        window,
                        rate,
                        records,
                    },
                );
            }
            if is_over {
                break;
            }
        }
        notify(&[NotifyState::Stopping]);
        drop(analyst);
        thread.join().ok();
        self.finish();
        Ok(())
    }

    /// Reports the first recording's limits, and each first failure in a row.
    fn begun(
        &self,
        begun: Result<MachineRecording, RecordError>,
        is_first: bool,
        has_failed_before: &mut bool,
    ) -> Option<MachineRecording> {
        match begun {
            Ok(live) => {
                if is_first {
                    for step in live.degradations() {
                        self.log.say(&step.to_string());
                    }
                }
                *has_failed_before = false;
                Some(live)
            }
            Err(error) => {
                if !std::mem::replace(has_failed_before, true) {
                    self.log
                        .say(&format!("cannot record; trying again each window: {error}"));
                }
                None
            }
        }
    }

    fn finish(&self) {
        let until = Instant::now() + LAST_TRY;
        for uploader in &self.uploaders {
            uploader.finish(until.saturating_duration_since(Instant::now()));
        }
        lock_status(&self.status).state = "stopped".to_owned();
        self.write_status();
        self.log.say("stopped");
    }

    /// Compares a window's usage with the budget, and logs a change of the rate.
    fn judge(
        &mut self,
        usage: Usage,
        is_warming_up: &mut bool,
        analyst: &SyncSender<Work>,
    ) -> Option<BudgetStep> {
        let mut status = lock_status(&self.status);
        (status.cpu_percent, status.memory_bytes) = (usage.cpu_percent, usage.memory);
        drop(status);
        if let Some(relief) = self.budget.relief(usage) {
            analyst.try_send(Work::Forget(relief)).ok();
        }
        if std::mem::take(is_warming_up) {
            return None;
        }
        let step = self.budget.judge(usage)?;
        let rate = self.budget.rate();
        self.log.say(&match step {
            BudgetStep::Halved(usage) => format!(
                "used {:.2} % of a core and {} MiB of memory, two windows in a row over the budget \
                 ({} %, {} MiB): continuing at {rate} Hz",
                usage.cpu_percent,
                usage.memory >> 20,
                self.config.budget.cpu_percent,
                self.config.budget.memory_mib,
            ),
            BudgetStep::Raised => format!("ten windows within the budget: continuing at {rate} Hz"),
        });
        Some(step)
    }

    /// Waits for the end of a window and notifies the watchdog. Returns true if the agent must
    /// stop.
    fn wait(
        &self,
        stop: BorrowedFd<'_>,
        live: &mut Option<MachineRecording>,
        window: &OpenWindow,
    ) -> bool {
        loop {
            notify(&[NotifyState::Watchdog]);
            let left = window.end.saturating_duration_since(Instant::now());
            let has_failed = live.as_ref().is_some_and(|live| !live.is_alive());
            if left.is_zero() || has_failed && window.elapsed() > Duration::from_secs(1) {
                return is_readable(stop, Duration::ZERO);
            }
            let wait = left.min(BEAT);
            let is_over = match live {
                Some(live) if !has_failed => {
                    live.wait(stop, wait).is_err() || is_readable(stop, Duration::ZERO)
                }
                _ => is_readable(stop, wait.min(Duration::from_secs(1))),
            };
            if is_over {
                return true;
            }
        }
    }

    /// The window is lost if the analyst's queue is full.
    fn hand_on(&self, analyst: &SyncSender<Work>, ended: EndedWindow) {
        let start = ended.window.start;
        match analyst.try_send(Work::Window(Box::new(ended))) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.log
                    .say("a window was lost: earlier windows are still being analysed");
                for uploader in &self.uploaders {
                    uploader.with_spool(|spool| spool.lose(start));
                }
            }
        }
    }

    fn update(&self, is_sampled: bool, is_recording: bool, is_first: bool) {
        let mut status = lock_status(&self.status);
        status.rate_hz = self.budget.rate();
        status.state = match (is_sampled, is_recording) {
            (_, true) => "recording",
            (true, false) => "failing",
            (false, false) => "resting",
        }
        .to_owned();
        drop(status);
        if is_first {
            self.write_status();
        }
    }

    fn write_status(&self) {
        write_status(&self.status, &self.uploaders, &self.config, &self.spool);
    }
}

struct AnalystThread {
    config: Arc<Config>,
    host: String,
    uploaders: Vec<Uploader>,
    status: Arc<Mutex<Status>>,
    log: Log,
}

impl AnalystThread {
    fn start(self, windows: Receiver<Work>) -> std::io::Result<JoinHandle<()>> {
        let thread = thread::Builder::new().name("analyst".to_owned());
        thread.spawn(move || {
            // This thread only (sched(7)).
            rustix::process::setpriority_process(None, 19).ok();
            let mut analyst = Analyst::new(Arc::clone(&self.config), &self.host);
            let delay = send_delay(
                &self.host,
                Duration::from_secs(self.config.sample.window_seconds.into()),
            );
            for work in windows {
                match work {
                    Work::Forget(relief) => analyst.forget(relief),
                    Work::Window(ended) => {
                        self.keep(&mut analyst, *ended);
                        for uploader in &self.uploaders {
                            uploader.wake(delay);
                        }
                    }
                }
            }
        })
    }

    fn keep(&self, analyst: &mut Analyst, ended: EndedWindow) {
        let start = ended.window.start;
        let root = &self.config.spool.folder;
        let lose = |why: String| {
            self.log.say(&format!("a window was lost: {why}"));
            for uploader in &self.uploaders {
                uploader.with_spool(|spool| spool.lose(start));
            }
        };
        let mut window = match analyst.analyse(ended) {
            Ok(window) => window,
            Err(error) => return lose(error.to_string()),
        };
        let free = free_percent(root).unwrap_or(100.0);
        let least = self.config.spool.min_free_percent;
        if free < least {
            return lose(format!(
                "only {free:.1} % of the disk of {} is free, below spool.min-free-percent \
                 ({least})",
                root.display()
            ));
        }
        let has_tables = self
            .uploaders
            .iter()
            .any(|to| to.destination().client().is_none());
        let tables = has_tables.then(|| -> Result<_, rprof_fleet_table::FleetTableError> {
            let mut tables = window.tables()?;
            let hosts = std::mem::take(&mut tables.hosts);
            let files = window.files(&mut tables)?;
            Ok((hosts, files))
        });
        for (uploader, to) in self.uploaders.iter().zip(&self.config.to) {
            let kept = match (uploader.destination().client(), &tables) {
                (Some(client), _) => {
                    let labels = to
                        .labels
                        .iter()
                        .filter_map(|label| Label::parse(label).ok());
                    let labels: Vec<Label> = labels.collect();
                    window
                        .bodies(client, &labels)
                        .map_err(|error| error.to_string())
                        .and_then(|items| {
                            uploader
                                .with_spool(|spool| spool.keep(start, &items))
                                .map_err(|error| error.to_string())
                        })
                }
                (None, Some(Ok((hosts, files)))) => uploader.with_spool(|spool| {
                    let mut tables = rprof_fleet_table::Tables {
                        hosts: hosts.clone(),
                        ..Default::default()
                    };
                    for row in &mut tables.hosts {
                        row.lost_windows = i64::try_from(spool.untold()).unwrap_or(i64::MAX);
                    }
                    let mut items = window.files(&mut tables).map_err(|e| e.to_string())?;
                    items.extend(files.iter().cloned());
                    // A reader that sees samples also finds the rows they refer to.
                    items.sort_by_key(|item| item.name.starts_with("samples/"));
                    spool.keep(start, &items).map_err(|e| e.to_string())
                }),
                (None, Some(Err(error))) => Err(error.to_string()),
                (None, None) => Ok(()),
            };
            if let Err(why) = kept {
                self.log
                    .say(&format!("{}: a window was lost: {why}", uploader.name()));
                uploader.with_spool(|spool| spool.lose(start));
            }
        }
        self.make_room();
        let mut status = lock_status(&self.status);
        status.windows += 1;
        status.samples += window.samples();
        status.lost_samples += window.lost();
        status.services = window.services();
        drop(status);
        if let Ok(folder) = Folder::open(root) {
            write_status(&self.status, &self.uploaders, &self.config, &folder);
        }
    }

    /// Drops the oldest entries of the largest spool until the total is within the limit.
    fn make_room(&self) {
        let most = self.config.spool.max_mib << 20;
        loop {
            let bytes = self.uploaders.iter().map(|uploader| {
                let bytes = uploader.with_spool(|spool| spool.bytes());
                (bytes, uploader)
            });
            let bytes: Vec<_> = bytes.collect();
            let all: u64 = bytes.iter().map(|(bytes, _)| bytes).sum();
            let Some((_, largest)) = bytes.iter().max_by_key(|(bytes, _)| *bytes) else {
                return;
            };
            if all <= most {
                return;
            }
            match largest.with_spool(Spool::drop_oldest) {
                Ok(true) => self.log.say(&format!(
                    "{}: the spool is full ({} MiB): the oldest window was dropped and counted",
                    largest.name(),
                    self.config.spool.max_mib
                )),
                Ok(false) => return,
                Err(error) => {
                    return self
                        .log
                        .say(&format!("cannot make room in the spool: {error}"));
                }
            }
        }
    }
}

fn write_status(status: &Mutex<Status>, uploaders: &[Uploader], config: &Config, to: &Folder) {
    let destinations = uploaders.iter().zip(&config.to).map(|(uploader, to)| {
        let sent = uploader.sent();
        uploader.with_spool(|spool| DestinationStatus {
            name: to.name().to_owned(),
            kind: to.kind.name().to_owned(),
            queued_windows: spool.windows().map_or(0, |windows| windows.len()),
            lost_windows: spool.lost(),
            quarantined: spool.quarantined(),
            sent,
        })
    });
    let destinations = destinations.collect();
    let mut status = lock_status(status);
    status.destinations = destinations;
    status.updated = unix_micros() / 1_000_000;
    status.spool_bytes = bytes_below(&config.spool.folder);
    // The next window writes the status again.
    status.write(to).ok();
}

/// Locks the status, even if poisoned: plain counters stay valid.
fn lock_status(status: &Mutex<Status>) -> MutexGuard<'_, Status> {
    status.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns false after the timeout.
fn is_readable(fd: BorrowedFd<'_>, timeout: Duration) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let timeout = rustix::event::Timespec {
        tv_sec: timeout.as_secs() as i64,
        tv_nsec: timeout.subsec_nanos().into(),
    };
    poll(&mut fds, Some(&timeout)).is_ok_and(|ready| ready > 0)
}

fn notify(states: &[NotifyState<'_>]) {
    sd_notify::notify(states).ok();
}

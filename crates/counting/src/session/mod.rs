//! [`CountingSession`]: opens events for a target and reads their counters.
//!
//! | module | holds |
//! |---|---|
//! | `options` | [`SessionOptions`]: events and target |
//! | `opening` | opening of places and groups, with fallbacks |
//! | `online` | CPUs that go offline and come back |

mod online;
mod opening;
mod options;

pub use options::SessionOptions;

use crate::error::CountError;
use crate::follow::{Follower, LOOK};
use crate::notice::{EventState, SessionNotice};
use crate::open::Settings;
use crate::place_counter::PlaceCounter;
use crate::places::Place;
use crate::plan;
use crate::snapshot::Snapshot;
use crate::topology::Topology;
use online::OnlineCpus;
use rprof_events::Event;
use rprof_launch::{
    Child, Launcher, ResourceUsage, Target, TargetExitWatcher, WaitOutcome, wait_for_targets,
};
use rprof_perf_event::{Errno, PerfFd};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Event of a session.
#[derive(Clone, Debug)]
pub struct CountedEvent {
    /// Name with the effective modes, such as `cycles:u`.
    pub name: String,
    /// Event as requested.
    pub event: Event,
    /// State: counted, or the reason why not.
    pub state: EventState,
}

/// Counters of a command, of running processes, or of whole CPUs.
///
/// Dropping the session closes the counters, and ends a command that was never started.
#[derive(Debug)]
pub struct CountingSession {
    events: Vec<CountedEvent>,
    places: Arc<Vec<Place>>,
    topology: Arc<Topology>,
    counters: Vec<PlaceCounter>,
    /// Groups of the first place, as event indexes.
    groups: Vec<Vec<usize>>,
    /// Dummy counters that measure the time of a thread on one CPU, with place indexes.
    references: Vec<(usize, PerfFd)>,
    notices: Vec<SessionNotice>,
    child: Option<Child>,
    exits: Option<TargetExitWatcher>,
    options: SessionOptions,
    started: Option<Instant>,
    follower: Option<Follower>,
    is_enabled: bool,
    settings: Option<Settings>,
    /// `None` for threads, whose counters the kernel keeps.
    online: Option<OnlineCpus>,
}

impl CountingSession {
    /// Starts a command, held before its first instruction, and opens the events for the target:
    /// the command, or something else.
    ///
    /// # Errors
    /// Fails with [`CountError`]. Only [`start`](Self::start) detects a command that cannot be
    /// executed.
    pub fn launch(
        options: &SessionOptions,
        launcher: &Launcher,
    ) -> Result<CountingSession, CountError> {
        let child = launcher.spawn()?;
        CountingSession::open(options, Some(child))
    }

    /// Opens the events for a running target.
    ///
    /// # Errors
    /// Fails with [`CountError`].
    pub fn attach(options: &SessionOptions) -> Result<CountingSession, CountError> {
        CountingSession::open(options, None)
    }

    /// Opens the events for the target. If that is the command, another session holds it before its
    /// start (process id `held`), and waits for its end.
    ///
    /// # Errors
    /// Fails with [`CountError`].
    pub fn beside(
        options: &SessionOptions,
        held: Option<u32>,
    ) -> Result<CountingSession, CountError> {
        CountingSession::open_for(options, None, held)
    }

    fn open(options: &SessionOptions, child: Option<Child>) -> Result<CountingSession, CountError> {
        let pid = child.as_ref().map(|child| child.pid() as u32);
        CountingSession::open_for(options, child, pid)
    }

    fn close(&mut self) {
        self.counters.clear();
        self.references.clear();
        self.groups.clear();
    }

    /// Returns the events with their state, in order.
    pub fn events(&self) -> &[CountedEvent] {
        &self.events
    }

    /// Returns the differences from the request, known before the start.
    pub fn notices(&self) -> &[SessionNotice] {
        &self.notices
    }

    /// Returns the number of open counters.
    pub fn counters(&self) -> usize {
        self.counters.len()
    }

    /// Distributes the events to passes without multiplexing. One run of the command per pass gives
    /// exact counts.
    pub fn passes(&self) -> Vec<Vec<usize>> {
        plan::passes(&self.options.events, &self.groups)
    }

    /// Starts the command, if any. Also enables counting, unless the options leave that to
    /// [`enable`](Self::enable).
    ///
    /// # Errors
    /// Fails with [`CountError::Exec`] or [`CountError::Control`].
    pub fn start(&mut self) -> Result<(), CountError> {
        let on_exec = self.options.target == Target::Command;
        self.started = Some(Instant::now());
        if self.options.enabled_from_start && !on_exec {
            self.enable()?;
        }
        match &mut self.child {
            Some(child) => Ok(child.release()?),
            None => Ok(()),
        }
    }

    /// Returns the time of [`start`](Self::start).
    pub fn started(&self) -> Option<Instant> {
        self.started
    }

    /// Enables counting.
    ///
    /// # Errors
    /// Fails with [`CountError::Control`] for the first failing event. Enables all others.
    pub fn enable(&mut self) -> Result<(), CountError> {
        self.is_enabled = true;
        self.control(PerfFd::enable)
    }

    /// Disables counting until [`enable`](Self::enable).
    ///
    /// # Errors
    /// Fails with [`CountError::Control`] for the first failing event. Disables all others.
    pub fn disable(&mut self) -> Result<(), CountError> {
        self.is_enabled = false;
        self.control(PerfFd::disable)
    }

    fn control(&self, call: impl Fn(&PerfFd) -> Result<(), Errno>) -> Result<(), CountError> {
        let leaders = self.counters.iter().filter(|counter| counter.leads);
        let leaders = leaders.map(|counter| (&counter.fd, &self.events[counter.event].name[..]));
        let references = self.references.iter().map(|(_, fd)| (fd, "dummy"));
        let mut first = Ok(());
        for (fd, event) in leaders.chain(references) {
            let called = call(fd).map_err(|errno| CountError::Control {
                event: event.to_owned(),
                errno,
            });
            first = first.and(called);
        }
        first
    }

    /// Waits until the command (or else every attached target) ends, `other` becomes readable, or
    /// the optional timeout expires.
    ///
    /// # Errors
    /// Returns the errors of [`Child::wait`] and poll(2).
    pub fn wait_or(
        &mut self,
        other: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> io::Result<WaitOutcome> {
        let look = match (&self.follower, &self.child, &self.online) {
            (Some(_), Some(_), _) => LOOK,
            (.., Some(_)) => online::LOOK,
            _ => return self.wait_once(other, timeout),
        };
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            self.follow_cpus();
            let new = self
                .follower
                .as_mut()
                .map(Follower::look)
                .unwrap_or_default();
            new.into_iter().for_each(|thread| self.follow(thread));
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            let nap = left.map_or(look, |left| left.min(look));
            match self.wait_once(other, Some(nap))? {
                WaitOutcome::Timeout if left.is_none_or(|left| left > nap) => {}
                outcome => return Ok(outcome),
            }
        }
    }

    fn wait_once(
        &mut self,
        other: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> io::Result<WaitOutcome> {
        match &mut self.child {
            Some(child) => child.wait_or(other, timeout),
            None => wait_for_targets(self.exits.as_mut(), other, timeout),
        }
    }

    /// Sends a signal to the command, if it runs.
    ///
    /// # Errors
    /// Returns the errors of [`Child::signal`].
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        self.child
            .as_ref()
            .map_or(Ok(()), |child| child.signal(signal))
    }

    /// Returns the resource usage of the command; `None` while it runs, or without a command.
    pub fn usage(&self) -> Option<ResourceUsage> {
        self.child.as_ref()?.usage()
    }

    /// Reads all counters. Counts contain read errors.
    pub fn read(&self) -> Snapshot {
        let mut ran = vec![None; self.places.len()];
        for (place, fd) in &self.references {
            ran[*place] = fd.reading().ok().and_then(|reading| reading.running);
        }
        Snapshot {
            events: self.events.len(),
            places: Arc::clone(&self.places),
            topology: Arc::clone(&self.topology),
            levels: (self.events.iter())
                .map(|event| event.event.is_level())
                .collect(),
            readings: (self.counters.iter())
                .map(|counter| counter.read(ran[counter.place]))
                .collect(),
        }
    }
}

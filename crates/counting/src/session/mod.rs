//! [`CountingSession`]: from events and a target to counters that can be read.
//!
//! | module | holds |
//! |---|---|
//! | `options` | [`SessionOptions`]: events to count, and where |
//! | `opening` | places, groups, and steps down |

mod opening;
mod options;

pub use options::SessionOptions;

use crate::error::CountError;
use crate::follow::{Follower, LOOK};
use crate::notice::{EventState, Notice};
use crate::open::Settings;
use crate::place_counter::PlaceCounter;
use crate::places::Place;
use crate::plan;
use crate::snapshot::Snapshot;
use crate::topology::Topology;
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
    /// Name with the sides that are counted, such as `cycles:u`.
    pub name: String,
    /// Event as it was asked for.
    pub event: Event,
    /// State of it: counted, or why not.
    pub state: EventState,
}

/// Counters of a command, of what runs already, or of whole CPUs.
///
/// Dropping the session closes them, and ends a command that was never started.
#[derive(Debug)]
pub struct CountingSession {
    events: Vec<CountedEvent>,
    places: Arc<Vec<Place>>,
    topology: Arc<Topology>,
    counters: Vec<PlaceCounter>,
    /// Groups of the first place, by the numbers of their events.
    groups: Vec<Vec<usize>>,
    /// Counters of nothing where a thread is counted on one CPU, with the indices of their places: they run while it
    /// does.
    references: Vec<(usize, PerfFd)>,
    notices: Vec<Notice>,
    child: Option<Child>,
    exits: Option<TargetExitWatcher>,
    options: SessionOptions,
    started: Option<Instant>,
    follower: Option<Follower>,
    /// Counting has begun, and not ended.
    is_enabled: bool,
    settings: Option<Settings>,
}

impl CountingSession {
    /// Starts a command, held before its first instruction, and opens the events: for the command, or for another
    /// target that is counted while the command runs.
    ///
    /// # Errors
    /// [`CountError`]. That a command cannot be executed is found out by [`start`](Self::start).
    pub fn launch(
        options: &SessionOptions,
        launcher: &Launcher,
    ) -> Result<CountingSession, CountError> {
        let child = launcher.spawn()?;
        CountingSession::open(options, Some(child))
    }

    /// Opens the events for a target that runs already.
    ///
    /// # Errors
    /// [`CountError`].
    pub fn attach(options: &SessionOptions) -> Result<CountingSession, CountError> {
        CountingSession::open(options, None)
    }

    /// Opens the events beside another session that has started the command `held`, which has not begun yet; for
    /// another target, that one. Its end is the other session's to wait for.
    ///
    /// # Errors
    /// [`CountError`].
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

    /// Returns the events, in their order, with what became of them.
    pub fn events(&self) -> &[CountedEvent] {
        &self.events
    }

    /// Returns what differs from what was asked for.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// Returns the number of counters that are open.
    pub fn counters(&self) -> usize {
        self.counters.len()
    }

    /// Returns the events in passes: those of each can be on the counters all the time. Where there are several, the
    /// kernel lets groups of events take turns, and a command that is run once for each pass has all counts exactly.
    pub fn passes(&self) -> Vec<Vec<usize>> {
        plan::passes(&self.options.events, &self.groups)
    }

    /// Lets the command run, if there is one, and begins to count, unless that waits for [`enable`](Self::enable).
    ///
    /// # Errors
    /// [`CountError::Exec`] for a command that cannot be executed, [`CountError::Control`].
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

    /// Returns the moment of [`start`](Self::start).
    pub fn started(&self) -> Option<Instant> {
        self.started
    }

    /// Begins to count.
    ///
    /// # Errors
    /// [`CountError::Control`] for the first event that could not be started. All others are.
    pub fn enable(&mut self) -> Result<(), CountError> {
        self.is_enabled = true;
        self.control(PerfFd::enable)
    }

    /// Counts no more, until [`enable`](Self::enable).
    ///
    /// # Errors
    /// [`CountError::Control`] for the first event that could not be stopped. All others are.
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

    /// Waits until the command ends, or without one all that was attached to; `other` is readable; or the time is
    /// over (`None`: no bound).
    ///
    /// # Errors
    /// The errors of [`Child::wait`] and of poll(2).
    pub fn wait_or(
        &mut self,
        other: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> io::Result<WaitOutcome> {
        if self.follower.is_none() || self.child.is_none() {
            return self.wait_once(other, timeout);
        }
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            let new = self
                .follower
                .as_mut()
                .map(Follower::look)
                .unwrap_or_default();
            new.into_iter().for_each(|thread| self.follow(thread));
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            let nap = left.map_or(LOOK, |left| left.min(LOOK));
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

    /// Sends the command a signal, if there is one that runs.
    ///
    /// # Errors
    /// The errors of [`Child::signal`].
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        self.child
            .as_ref()
            .map_or(Ok(()), |child| child.signal(signal))
    }

    /// Returns what the command used; `None` while it runs, and without one.
    pub fn usage(&self) -> Option<ResourceUsage> {
        self.child.as_ref()?.usage()
    }

    /// Reads all counters. An event that cannot be read is told by its count.
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

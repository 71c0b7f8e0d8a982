//! [`CountingSession`]: from events and a target to counters that can be read.

use crate::error::CountError;
use crate::follow::{Follower, LOOK};
use crate::notice::{EventState, Notice};
use crate::open::{Settings, is_kernel_only};
use crate::per::Per;
use crate::places::{self, Place};
use crate::plan::{self, Group, Origin};
use crate::snapshot::{PlaceReading, Snapshot};
use crate::topology::Topology;
use rprof_events::Event;
use rprof_launch::{
    Child, Launcher, ResourceUsage, Selection, Target, TargetExitWatcher, TargetThread,
    WaitOutcome, wait_for_targets,
};
use rprof_perf_event::errno::is_refusal;
use rprof_perf_event::limits::raise_open_file_limit;
use rprof_perf_event::{Errno, Limits, OpenEventError, PerfFd, Reading};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of looks at the threads of a target until nobody new is there.
const MOST_LOOKS: usize = 12;

/// Time between the last opening and the last look: a thread that is still within clone(2) cannot be seen.
const SETTLE: Duration = Duration::from_millis(4);

/// File that says whether the NMI watchdog holds a hardware counter (`Documentation/admin-guide/sysctl/kernel.rst`).
const NMI_WATCHDOG: &str = "/proc/sys/kernel/nmi_watchdog";

/// Events to count, and where.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Events, in order; their numbers are their places in this list.
    pub events: Vec<Event>,
    /// The user named the events, so that one which may not be counted is an error. Otherwise it is left out.
    pub explicit: bool,
    /// Target; [`Target::Command`] by default.
    pub target: Target,
    /// CPUs to count on; empty for all.
    pub cpus: Vec<u32>,
    /// Way in which counts are to be kept apart, which decides how many counters there are.
    pub per: Per,
    /// Threads and processes that watched ones start are counted as well.
    pub inherit: bool,
    /// Counting begins with the command, or at [`CountingSession::start`]; otherwise at
    /// [`CountingSession::enable`].
    pub enabled_from_start: bool,
    /// Only user mode is counted.
    pub exclude_kernel: bool,
    /// Only the kernel is counted.
    pub exclude_user: bool,
}

impl SessionOptions {
    /// Counts these events, named by the user, in a command and in all that it starts.
    pub fn new(events: Vec<Event>) -> SessionOptions {
        SessionOptions {
            events,
            explicit: true,
            target: Target::Command,
            cpus: Vec::new(),
            per: Per::All,
            inherit: true,
            enabled_from_start: true,
            exclude_kernel: false,
            exclude_user: false,
        }
    }
}

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

/// Counter of one event in one place.
#[derive(Debug)]
struct PlaceCounter {
    place: usize,
    event: usize,
    leads: bool,
    fd: PerfFd,
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

    fn open_for(
        options: &SessionOptions,
        child: Option<Child>,
        command: Option<u32>,
    ) -> Result<CountingSession, CountError> {
        raise_open_file_limit();
        let mut session = CountingSession {
            events: Vec::new(),
            places: Arc::default(),
            topology: Arc::default(),
            counters: Vec::new(),
            references: Vec::new(),
            notices: Vec::new(),
            child,
            exits: None,
            options: options.clone(),
            started: None,
            follower: None,
            is_enabled: options.enabled_from_start,
            settings: None,
        };
        let cpus = places::cpus_of_threads(options.per, &options.cpus)?;
        if let Some(places) = places::of_cpus(&options.target, &options.cpus)? {
            session.open_places(places)?;
        } else if let Some(selection) = Selection::from_target(&options.target, false) {
            session.open_threads(&selection, cpus.as_deref())?;
        } else {
            let what = || "command".to_owned();
            let pid = command.ok_or_else(|| CountError::NoTarget { what: what() })?;
            let thread = TargetThread { pid, tid: pid };
            session.open_places(places::of_threads(&[thread], cpus.as_deref()))?;
            if options.per == Per::Thread && cpus.is_none() {
                session.follower = Some(Follower::new(pid));
                session.follow(thread);
            }
        }
        if options.per.is_by_cpu() {
            let mut cpus: Vec<u32> = session
                .places
                .iter()
                .filter_map(|place| place.cpu)
                .collect();
            cpus.sort_unstable();
            cpus.dedup();
            session.topology = Arc::new(Topology::read(&cpus));
        }
        Ok(session)
    }

    /// Opens the events for threads that run. Nothing counts yet, so that it can be done again from the beginning as
    /// long as new threads are seen: one that was born meanwhile may have inherited some events, and nothing tells
    /// which.
    fn open_threads(
        &mut self,
        selection: &Selection,
        cpus: Option<&[u32]>,
    ) -> Result<(), CountError> {
        let mut threads = selection.threads();
        for look in 1.. {
            if threads.is_empty() {
                return Err(CountError::NoTarget {
                    what: selection.describe(),
                });
            }
            self.close();
            self.open_places(places::of_threads(&threads, cpus))?;
            if !self.options.inherit {
                break;
            }
            std::thread::sleep(SETTLE);
            let now = selection.threads();
            if now.iter().all(|thread| threads.contains(thread)) {
                break;
            }
            if look == MOST_LOOKS {
                self.notices.push(Notice::ThreadsKeptComing);
                break;
            }
            threads = now;
        }
        self.exits = Some(TargetExitWatcher::new(selection.clone(), &threads));
        Ok(())
    }

    /// Opens the events in these places; in user mode only, if this user may have no more.
    fn open_places(&mut self, places: Vec<Place>) -> Result<(), CountError> {
        let paranoid = Limits::read().paranoid;
        let is_command = self.options.target == Target::Command;
        let by_thread = matches!(self.options.target, Target::Threads(_));
        let mut settings = Settings {
            exclude_kernel: self.options.exclude_kernel,
            exclude_user: self.options.exclude_user,
            inherit: self.options.inherit && !by_thread && !self.options.target.is_by_cpu(),
            enable_on_exec: is_command && self.options.enabled_from_start,
        };
        self.places = Arc::new(places);
        let asked = self.options.exclude_kernel;
        loop {
            // Left out where the user said so, nothing is hidden by it.
            let hidden = settings.exclude_kernel && !asked;
            self.events = (self.options.events.iter())
                .map(|event| CountedEvent {
                    name: settings.describe(event),
                    event: event.clone(),
                    state: match hidden && is_kernel_only(event) {
                        true => EventState::KernelOnly { paranoid },
                        false => EventState::NoPlace,
                    },
                })
                .collect();
            match self.try_open(&settings) {
                Err(Trouble::Kernel) => {
                    settings.exclude_kernel = true;
                    self.close();
                    self.notices
                        .retain(|notice| !matches!(notice, Notice::GroupSplit { .. }));
                    self.notices.push(Notice::UserModeOnly { paranoid });
                }
                Err(Trouble::Other(error)) => return Err(error),
                Ok(()) => break,
            }
        }
        if settings.inherit {
            for event in &self.events {
                let notice = Notice::NotInherited {
                    event: event.name.clone(),
                };
                if !event.event.is_inherited() && !self.notices.contains(&notice) {
                    self.notices.push(notice);
                }
            }
        }
        self.settings = Some(settings);
        // Where nothing could be counted, nothing was counted in user mode either.
        if !self.events.iter().any(|event| event.state.is_counted()) {
            self.notices
                .retain(|notice| !matches!(notice, Notice::UserModeOnly { .. }));
        }
        Ok(())
    }

    fn try_open(&mut self, settings: &Settings) -> Result<(), Trouble> {
        let spare = std::fs::read_to_string(NMI_WATCHDOG).is_ok_and(|text| text.trim() == "1");
        let places = Arc::clone(&self.places);
        let groups = plan::groups(&self.options.events);
        for (index, place) in places.iter().enumerate() {
            for group in &groups {
                self.open_group(settings, group, spare, (index, place))?;
            }
            if place.thread().is_some() && place.cpu.is_some() {
                let reference = settings.open(&Event::dummy(), place, None);
                let reference = reference.ok().flatten().map(|fd| (index, fd));
                self.references.extend(reference);
            }
        }
        Ok(())
    }

    fn open_group(
        &mut self,
        settings: &Settings,
        group: &Group,
        spare: bool,
        (index, place): (usize, &Place),
    ) -> Result<(), Trouble> {
        let events = &self.events;
        let opened = plan::open_group(group, spare, |event, leader| {
            let event = &events[event];
            match event.state {
                EventState::KernelOnly { .. } => Ok(None),
                // What the machine does not have is not there on the next CPU either.
                EventState::Refused(ref error) if place.thread().is_none() => {
                    Err((**error).clone())
                }
                _ => settings.open(&event.event, place, leader),
            }
        });
        let opened = opened.map_err(|failed| CountError::GroupTooLarge {
            event: self.events[failed.event].name.clone(),
            errno: failed.errno,
        })?;
        for (event, error) in opened.refused {
            self.refuse(event, error, settings)?;
        }
        if let (Origin::Weak, Some(event)) = (group.origin, opened.split_at.first()) {
            let event = self.events[*event].name.clone();
            let notice = Notice::GroupSplit { event };
            if !self.notices.contains(&notice) {
                self.notices.push(notice);
            }
        }
        for group in opened.groups {
            for (nth, (event, fd)) in group.counters.into_iter().enumerate() {
                self.events[event].state = EventState::Counted;
                self.counters.push(PlaceCounter {
                    place: index,
                    event,
                    leads: nth == 0,
                    fd,
                });
            }
        }
        Ok(())
    }

    /// Takes down that an event was refused in a place, or gives up.
    fn refuse(
        &mut self,
        event: usize,
        error: OpenEventError,
        settings: &Settings,
    ) -> Result<(), Trouble> {
        let counted = &mut self.events[event];
        match error.errno {
            // The thread has ended meanwhile.
            Errno::SRCH => return Ok(()),
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => {
                return Err(CountError::Open(Arc::new(error)).into());
            }
            errno if is_refusal(errno) => {
                let by_name = counted.event.modifiers().kernel || settings.exclude_user;
                if !settings.exclude_kernel && !by_name {
                    return Err(Trouble::Kernel);
                }
                if self.options.explicit {
                    return Err(CountError::Open(Arc::new(error)).into());
                }
            }
            _ => {}
        }
        if !counted.state.is_counted() {
            counted.state = EventState::Refused(Arc::new(error));
        }
        Ok(())
    }

    fn close(&mut self) {
        self.counters.clear();
        self.references.clear();
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

    /// Gives a thread of the command counters of its own; what it starts has others. A thread that has ended
    /// meanwhile stays in the rest.
    fn follow(&mut self, thread: TargetThread) {
        let Some(mut settings) = self.settings.clone() else {
            return;
        };
        settings.inherit = false;
        // The first thread has not begun yet; others run.
        let has_begun = self.started.is_some();
        settings.enable_on_exec &= !has_begun;
        let place = Place::followed(thread);
        let index = self.places.len();
        let first = self.counters.len();
        for group in plan::groups(&self.options.events) {
            let events = &self.events;
            let opened = plan::open_group(&group, false, |event, leader| {
                let event = &events[event];
                match event.state.is_counted() {
                    true => settings.open(&event.event, &place, leader),
                    false => Ok(None),
                }
            });
            for group in opened.map(|opened| opened.groups).unwrap_or_default() {
                for (nth, (event, fd)) in group.counters.into_iter().enumerate() {
                    let leads = nth == 0;
                    self.counters.push(PlaceCounter {
                        place: index,
                        event,
                        leads,
                        fd,
                    });
                }
            }
        }
        if self.counters.len() == first {
            return;
        }
        Arc::make_mut(&mut self.places).push(place);
        if has_begun && self.is_enabled {
            for counter in self.counters[first..]
                .iter()
                .filter(|counter| counter.leads)
            {
                counter.fd.enable().ok();
            }
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
            readings: (self.counters.iter())
                .map(|counter| PlaceReading {
                    place: counter.place,
                    event: counter.event,
                    reading: (counter.fd.reading())
                        .map(|reading| on_its_cpu(reading, ran[counter.place])),
                })
                .collect(),
        }
    }
}

/// Largest share by which the times of two counters of one place differ because they are not started at one moment.
const START_SLACK: f64 = 0.005;

/// Corrects the times of a counter of a thread on one CPU: the kernel counts it as enabled while the thread runs on
/// others, too. `ran`: nanoseconds for which the thread ran on this CPU; `None` for other counters.
fn on_its_cpu(reading: Reading, ran: Option<u64>) -> Reading {
    let (Some(ran), Some(running)) = (ran, reading.running) else {
        return reading;
    };
    let enabled = match (ran as f64) * (1.0 - START_SLACK) <= running as f64 {
        true => running,
        false => ran,
    };
    Reading {
        enabled: Some(enabled),
        ..reading
    }
}

/// Reason for which an attempt at opening ended.
enum Trouble {
    /// This user may not watch the kernel.
    Kernel,
    Other(CountError),
}

impl From<CountError> for Trouble {
    fn from(error: CountError) -> Trouble {
        Trouble::Other(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_not_there_while_it_runs_on_another_cpu() {
        let reading = |enabled, running| Reading {
            value: 6,
            enabled: Some(enabled),
            running: Some(running),
            ..Reading::default()
        };
        // It ran here for 400 of 1000, and was counted for all of that, or for half of it.
        assert_eq!(on_its_cpu(reading(1000, 400), Some(400)), reading(400, 400));
        assert_eq!(on_its_cpu(reading(1000, 399), Some(400)), reading(399, 399));
        assert_eq!(on_its_cpu(reading(1000, 200), Some(400)), reading(400, 200));
        assert_eq!(on_its_cpu(reading(1000, 0), Some(0)), reading(0, 0));
        assert_eq!(on_its_cpu(reading(1000, 400), None), reading(1000, 400));
    }
}

//! Opening of a session: places, groups, and fallbacks.

use super::online::OnlineCpus;
use super::{CountedEvent, CountingSession, SessionOptions};
use crate::error::CountError;
use crate::follow::Follower;
use crate::notice::{EventState, SessionNotice};
use crate::open::{Settings, is_kernel_only};
use crate::place_counter::PlaceCounter;
use crate::places::{self, Place};
use crate::plan::{self, Group, Origin};
use crate::topology::Topology;
use rprof_events::Event;
use rprof_launch::{Child, Target, TargetExitWatcher, TargetThread, ThreadSelection};
use rprof_perf_event::errno::is_refusal;
use rprof_perf_event::limits::raise_open_file_limit;
use rprof_perf_event::{Errno, Limits, OpenEventError};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of scans for new threads of a target.
const MAX_LOOKS: usize = 12;

/// Delay before the last scan: threads within clone(2) are not visible.
const SETTLE: Duration = Duration::from_millis(4);

/// Tells whether the NMI watchdog occupies a hardware counter
/// (`Documentation/admin-guide/sysctl/kernel.rst`).
const NMI_WATCHDOG: &str = "/proc/sys/kernel/nmi_watchdog";

impl CountingSession {
    pub(super) fn open_for(
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
            groups: Vec::new(),
            references: Vec::new(),
            notices: Vec::new(),
            child,
            exits: None,
            options: options.clone(),
            started: None,
            follower: None,
            is_enabled: options.enabled_from_start,
            settings: None,
            online: None,
        };
        let cpus = places::cpus_of_threads(options.per, &options.cpus)?;
        if let Some(places) = places::of_cpus(&options.target, &options.cpus)? {
            let counted: BTreeSet<u32> = places.iter().filter_map(|place| place.cpu).collect();
            session.open_places(places)?;
            let counted: Vec<u32> = counted.into_iter().collect();
            session.online = Some(OnlineCpus::new(&counted));
        } else if let Some(selection) = ThreadSelection::from_target(&options.target, false) {
            session.open_threads(&selection, cpus.as_deref())?;
        } else {
            let what = || "command".to_owned();
            let pid = command.ok_or_else(|| CountError::NoTarget { what: what() })?;
            let thread = TargetThread { pid, tid: pid };
            session.open_places(places::of_threads(&[thread], cpus.as_deref()))?;
            if options.per.is_by_thread() && cpus.is_none() {
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

    /// Opens the events for running threads. Restarts while new threads appear, because these may
    /// have inherited some events. Nothing counts yet.
    fn open_threads(
        &mut self,
        selection: &ThreadSelection,
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
            if look == MAX_LOOKS {
                self.notices.push(SessionNotice::ThreadsKeptComing);
                break;
            }
            threads = now;
        }
        self.exits = Some(TargetExitWatcher::new(selection.clone(), &threads));
        Ok(())
    }

    /// Opens the events in these places, without the kernel if this user may not monitor it.
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
            // If the user excluded the kernel, nothing is hidden.
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
                        .retain(|notice| !matches!(notice, SessionNotice::GroupSplit { .. }));
                    self.notices.push(SessionNotice::UserModeOnly { paranoid });
                }
                Err(Trouble::Other(error)) => return Err(error),
                Ok(()) => break,
            }
        }
        if settings.inherit {
            for event in &self.events {
                let notice = SessionNotice::NotInherited {
                    event: event.name.clone(),
                };
                if !event.event.is_inherited() && !self.notices.contains(&notice) {
                    self.notices.push(notice);
                }
            }
        }
        self.settings = Some(settings);
        // Without counts, the notice about user mode would be wrong.
        if !self.events.iter().any(|event| event.state.is_counted()) {
            self.notices
                .retain(|notice| !matches!(notice, SessionNotice::UserModeOnly { .. }));
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
                // Hardware missing on one CPU is missing on all.
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
            let notice = SessionNotice::GroupSplit { event };
            if !self.notices.contains(&notice) {
                self.notices.push(notice);
            }
        }
        for group in opened.groups {
            if index == 0 {
                let events = group.counters.iter().map(|(event, _)| *event);
                self.groups.push(events.collect());
            }
            for (nth, (event, fd)) in group.counters.into_iter().enumerate() {
                self.events[event].state = EventState::Counted;
                self.counters.push(PlaceCounter {
                    place: index,
                    event,
                    leads: nth == 0,
                    fd,
                    before: None,
                });
            }
        }
        Ok(())
    }

    /// Records that an event was refused in a place, or fails.
    fn refuse(
        &mut self,
        event: usize,
        error: OpenEventError,
        settings: &Settings,
    ) -> Result<(), Trouble> {
        let counted = &mut self.events[event];
        match error.errno {
            // The thread has ended.
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

    /// Opens counters for a thread of the command, but not its children. If it has already ended,
    /// its counts remain in the rest.
    pub(super) fn follow(&mut self, thread: TargetThread) {
        let Some(mut settings) = self.settings.clone() else {
            return;
        };
        settings.inherit = false;
        // Only the first thread has not started yet.
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
                        before: None,
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
}

enum Trouble {
    Kernel,
    Other(CountError),
}

impl From<CountError> for Trouble {
    fn from(error: CountError) -> Trouble {
        Trouble::Other(error)
    }
}

//! Attaches to running threads without stopping them.
//!
//! # None missing, none twice
//!
//! With inherit, an event extends to every thread and process that its thread starts from then on.
//! The events of a thread T depend on the moment when the kernel copies its creator C's events,
//! early in clone(2). /proc shows T only later.
//!
//! | C at that moment | T |
//! |---|---|
//! | had no event yet | has none; the next look at /proc finds it |
//! | had all its events | has all: nothing to do |
//! | was just being opened | has some of them |
//!
//! No call tells which events a thread has inherited. Therefore:
//!
//! 1. The threads are listed before the first event is opened. These have inherited nothing.
//! 2. Each gets its events, disabled. The threads are listed again, and every new one gets events
//!    too, even if it inherited some. This repeats until a look finds no new thread. The last look
//!    is some milliseconds after the last opening, since /proc does not show a thread within
//!    clone(2).
//! 3. A thread of step 2 may have duplicate events. Its own count: the
//!    [`InheritedEventFilter`](crate::InheritedEventFilter) drops its samples with other ids. Its
//!    children inherit both, as FORK records show. No FORK is missing: a creator's sideband is
//!    opened on all CPUs before its first sample event.
//!
//! A program may start threads endlessly, so the looks end after [`MAX_LOOKS`]. A thread is then
//! missed only if it and all its creators came between a look and an opening.

use super::attempt::{Opened, Scope, open, react};
use super::attrs;
use super::degradation::Degradation;
use super::error::OpenEventsError;
use super::event_set::EventSet;
use super::plan::{Plan, Refusal};
use rprof_launch::{TargetThread, ThreadSelection};
use rprof_perf_event::limits::{open_file_limit, raise_open_file_limit};
use rprof_perf_event::{Errno, Limits, OpenOptions, Remedy, Subject, errno};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

const MAX_LOOKS: usize = 12;

/// Minimum time between the last opening and the last look.
const SETTLE: Duration = Duration::from_millis(4);

/// Descriptors for the rest of this process.
const SPARE_FILES: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Threads {
    pub(crate) attached: Vec<TargetThread>,
    /// Threads that may also have inherited events, with their own ids.
    pub(crate) suspects: BTreeMap<u32, Vec<u64>>,
    /// Ids of events closed again because their thread ended meanwhile. Rings may contain records
    /// with them, but no attr has them.
    pub(crate) abandoned: Vec<u64>,
    refused: BTreeMap<u32, Errno>,
    admitted: HashSet<u32>,
    /// Threads found so far, with ended ones.
    known: HashSet<u32>,
}

impl Threads {
    pub(super) fn found(attached: Vec<TargetThread>) -> Threads {
        Threads {
            attached,
            ..Threads::default()
        }
    }

    /// Lists the threads before the first event is opened.
    ///
    /// # Errors
    /// If there is none, or a named one is not permitted.
    pub(crate) fn first_look(
        selection: &ThreadSelection,
    ) -> Result<(Threads, Vec<TargetThread>), OpenEventsError> {
        raise_open_file_limit();
        let limits = Limits::read();
        let mut threads = Threads::default();
        // Refused even for this process.
        if let Err(errno) = can_attach(0) {
            let attr = attrs::minimal();
            let refused = OpenOptions::new(&attr).explain("dummy", errno, &limits);
            return Err(refused.into());
        }
        let mut found = selection.threads();
        threads.admit(selection, &mut found, &limits)?;
        match threads.refused.iter().next() {
            Some((pid, errno)) if found.is_empty() => Err(OpenEventsError::Process {
                pid: *pid,
                errno: *errno,
                remedy: Remedy::for_process(&limits),
            }),
            None if found.is_empty() => Err(OpenEventsError::TargetsGone {
                what: selection.describe(),
                had: 0,
            }),
            _ => Ok((threads, found)),
        }
    }

    fn admit(
        &mut self,
        selection: &ThreadSelection,
        found: &mut Vec<TargetThread>,
        limits: &Limits,
    ) -> Result<(), OpenEventsError> {
        for thread in found.iter() {
            if self.admitted.contains(&thread.pid) || self.refused.contains_key(&thread.pid) {
                continue;
            }
            match can_attach(thread.tid as i32) {
                Err(errno) if errno::is_refusal(errno) && selection.is_by_id() => {
                    return Err(OpenEventsError::Process {
                        pid: thread.pid,
                        errno,
                        remedy: Remedy::for_process(limits),
                    });
                }
                Err(errno) if errno::is_refusal(errno) => {
                    self.refused.insert(thread.pid, errno);
                }
                // Other refusals are reported when the events are opened.
                _ => {
                    self.admitted.insert(thread.pid);
                }
            }
        }
        found.retain(|thread| !self.refused.contains_key(&thread.pid));
        Ok(())
    }

    fn open_all(
        &mut self,
        plan: &Plan,
        selection: &ThreadSelection,
        mut found: Vec<TargetThread>,
        opened: &mut Opened,
    ) -> Result<(), Stop> {
        for look in 0..MAX_LOOKS {
            found.retain(|thread| self.known.insert(thread.tid));
            let news = found.len();
            check_files(plan, news, opened)?;
            for thread in found {
                // Threads of the first look have inherited nothing.
                self.open_one(plan, thread, look > 0 && plan.inherits(), opened)?;
            }
            let is_last = news == 0 && look > 0;
            if is_last || matches!(selection, ThreadSelection::Threads(_)) {
                break;
            }
            std::thread::sleep(SETTLE);
            found = selection.threads();
            self.admit(selection, &mut found, &plan.limits)?;
        }
        match self.attached.is_empty() {
            true => Err(Stop::Failed(OpenEventsError::TargetsGone {
                what: selection.describe(),
                had: self.known.len(),
            })),
            false => Ok(()),
        }
    }

    fn open_one(
        &mut self,
        plan: &Plan,
        thread: TargetThread,
        is_suspect: bool,
        opened: &mut Opened,
    ) -> Result<(), Stop> {
        let before: Vec<usize> = opened.events.iter().map(|event| event.ids.len()).collect();
        match open_thread(plan, opened, thread.tid as i32, &mut self.abandoned) {
            Ok(sets) => {
                if is_suspect {
                    let new = opened.events.iter().zip(before);
                    let ids = new.flat_map(|(event, before)| &event.ids[before..]);
                    self.suspects.insert(thread.tid, ids.copied().collect());
                }
                opened.sets.extend(sets);
                self.attached.push(thread);
                Ok(())
            }
            Err(refusal) => match refusal.errno {
                Errno::SRCH => Ok(()),
                Errno::MFILE | Errno::NFILE => Err(too_many(plan, self.known.len(), opened)),
                // It may have raised its privileges.
                Errno::ACCESS | Errno::PERM if !self.attached.is_empty() => {
                    self.refused.insert(thread.pid, refusal.errno);
                    Ok(())
                }
                _ => Err(Stop::Refused(refusal)),
            },
        }
    }

    pub(super) fn tell(&self, plan: &mut Plan, selection: &ThreadSelection) {
        let named: (&[u32], bool) = match selection {
            ThreadSelection::Processes(pids) => (pids, false),
            ThreadSelection::Threads(tids) => (tids, true),
            ThreadSelection::User { .. } => (&[], false),
        };
        for id in named.0 {
            let is_it = |thread: &TargetThread| match named.1 {
                true => thread.tid == *id,
                false => thread.pid == *id,
            };
            if !self.attached.iter().any(is_it) && !self.refused.contains_key(id) {
                plan.degradations.push(Degradation::TargetGone {
                    id: *id,
                    is_thread: named.1,
                });
            }
        }
        if let Some((example, errno)) = self.refused.iter().next() {
            plan.degradations.push(Degradation::ProcessesRefused {
                count: self.refused.len(),
                example: *example,
                errno: *errno,
            });
        }
    }
}

enum Stop {
    /// Refusal of an event. After a step down all begins anew.
    Refused(Refusal),
    Failed(OpenEventsError),
}

impl From<OpenEventsError> for Stop {
    fn from(error: OpenEventsError) -> Stop {
        Stop::Failed(error)
    }
}

/// Opens the events of all selected threads on each of `cpus`, stepping down as needed.
///
/// # Errors
/// If no further step exists, no target exists, or a named target is not permitted.
pub(crate) fn open_threads(
    plan: &mut Plan,
    selection: &ThreadSelection,
    cpus: &mut Vec<u32>,
) -> Result<(Opened, Threads), OpenEventsError> {
    loop {
        let (mut threads, found) = Threads::first_look(selection)?;
        let mut opened = open(plan, &Scope::Threads, cpus)?;
        match threads.open_all(plan, selection, found, &mut opened) {
            Ok(()) => {
                threads.tell(plan, selection);
                return Ok((opened, threads));
            }
            Err(Stop::Failed(error)) => return Err(error),
            Err(Stop::Refused(refusal)) => react(plan, cpus, refusal)?,
        }
    }
}

/// Opens the events of one thread on all CPUs, into existing rings.
///
/// Sideband comes first and on all CPUs, so that FORK records report every thread that inherits a
/// sample event.
fn open_thread(
    plan: &Plan,
    opened: &mut Opened,
    tid: i32,
    abandoned: &mut Vec<u64>,
) -> Result<Vec<EventSet>, Refusal> {
    let before: Vec<usize> = opened.events.iter().map(|event| event.ids.len()).collect();
    let sets = open_thread_events(plan, opened, Subject::Thread(tid));
    if sets.is_err() {
        // A thread that ended halfway leaves no ids.
        for (event, before) in opened.events.iter_mut().zip(before) {
            abandoned.extend(event.ids.drain(before..));
        }
    }
    sets
}

fn open_thread_events(
    plan: &Plan,
    opened: &mut Opened,
    subject: Subject<'_>,
) -> Result<Vec<EventSet>, Refusal> {
    let Opened { events, cpus, .. } = opened;
    let mut sets = Vec::with_capacity(cpus.len());
    for (cpu_index, rings) in cpus.iter().enumerate() {
        let mut set = EventSet::new(cpu_index, rings.cpu);
        set.open_sideband(events, subject)?;
        set.redirect_sideband(rings)?;
        set.enable_sideband()?;
        sets.push(set);
    }
    for (set, rings) in sets.iter_mut().zip(cpus.iter()) {
        set.open_samples(plan, events, subject)?;
        set.redirect_samples(rings)?;
    }
    Ok(sets)
}

/// Checks for permission with the least demanding event.
fn can_attach(tid: i32) -> Result<(), Errno> {
    let attr = attrs::minimal();
    (OpenOptions::new(&attr).subject(Subject::Thread(tid)))
        .open()
        .map(drop)
}

fn check_files(plan: &Plan, more: usize, opened: &Opened) -> Result<(), Stop> {
    let threads = opened.sets.len() / opened.cpus.len().max(1) + more;
    match open_file_limit().is_some_and(|limit| files(plan, threads, opened) as u64 > limit) {
        true => Err(too_many(plan, threads, opened)),
        false => Ok(()),
    }
}

fn files(plan: &Plan, threads: usize, opened: &Opened) -> usize {
    let each = plan.events.len() + 1;
    opened.cpus.len() * (threads * each + 2) + SPARE_FILES
}

fn too_many(plan: &Plan, threads: usize, opened: &Opened) -> Stop {
    Stop::Failed(OpenEventsError::TooManyFiles {
        threads,
        cpus: opened.cpus.len(),
        needed: files(plan, threads, opened),
        limit: open_file_limit().unwrap_or(u64::MAX),
    })
}

//! One attempt at opening everything, and what it gives.

use super::attrs;
use super::degradation::Degradation;
use super::error::OpenError;
use super::plan::{Plan, Refusal, Stage};
use super::watch::Watch;
use crate::errno::Errno;
use crate::limits::Limits;
use crate::ring::Ring;
use crate::sys;
use rprof_events::cpus;
use rprof_launch::Cgroup;
use rprof_perf_event::{PerfFd, Subject};
use rprof_records::Attr;
use std::os::fd::AsFd;
use std::sync::Arc;

/// What the records of an event are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Samples.
    Samples,
    /// Who runs, and what is mapped.
    Sideband,
}

/// An event as it was opened: what a file needs to tell its records apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventIds {
    /// What its records are for.
    pub role: Role,
    /// The attr as the kernel took it.
    pub attr: Attr,
    /// The name for the file's event description, as `cpu-clock:u`.
    pub name: String,
    /// Every id its records can have: those for the first thing watched (the command, a thread, a
    /// control group) on each CPU, in the order of [`Session::cpus`](crate::Session::cpus), then
    /// those for the next. An event that is not for all CPUs has fewer.
    pub ids: Vec<u64>,
}

/// The descriptors whose rings a CPU's drain thread reads.
#[derive(Debug)]
pub(crate) struct CpuEvents {
    pub(crate) cpu: u32,
    pub(crate) samples: Arc<PerfFd>,
    pub(crate) sideband: Arc<PerfFd>,
    /// Whether the kernel hangs up on the descriptors only when the CPU goes away.
    pub(crate) watches_cpu: bool,
}

/// The rings of one CPU.
#[derive(Debug)]
pub(crate) struct CpuRings {
    pub(crate) samples: Ring,
    pub(crate) sideband: Ring,
}

/// What to open the events for.
#[derive(Debug)]
pub(crate) enum Scope {
    /// A process that waits for its exec.
    Command(libc::pid_t),
    /// Threads that run: to begin with, only the rings.
    Threads,
    /// Everything.
    All,
    /// Control groups.
    Cgroups(Vec<Cgroup>),
}

/// Everything, open.
#[derive(Debug)]
pub(crate) struct Opened {
    /// Sample events first, in the order they were asked for; the sideband event last.
    pub(crate) events: Vec<EventIds>,
    pub(crate) cpus: Vec<Arc<CpuEvents>>,
    /// The rings of the same CPUs.
    pub(crate) rings: Vec<CpuRings>,
    pub(crate) watches: Vec<Watch>,
}

/// Opens the plan on each of `cpus`, stepping down as needed.
///
/// # Errors
/// When no step is left.
pub(crate) fn open(
    plan: &mut Plan,
    scope: &Scope,
    cpus: &mut Vec<u32>,
) -> Result<Opened, OpenError> {
    let mut files_raised = false;
    loop {
        let refusal = match attempt(plan, scope, cpus) {
            Ok(opened) => return Ok(opened),
            Err(refusal) => refusal,
        };
        if refusal.errno.0 == libc::EMFILE && !files_raised {
            files_raised = true;
            if sys::raise_open_file_limit() {
                continue;
            }
        }
        react(plan, cpus, refusal)?;
    }
}

/// Changes what is asked for so that the next attempt may do better.
///
/// # Errors
/// When nothing is left to change.
pub(super) fn react(
    plan: &mut Plan,
    cpus: &mut Vec<u32>,
    refusal: Refusal,
) -> Result<(), OpenError> {
    if refusal.errno.0 == libc::ENODEV && cpus.len() > 1 && went_offline(refusal.cpu) {
        cpus.retain(|cpu| *cpu != refusal.cpu);
        plan.degradations
            .push(Degradation::CpuSkipped { cpu: refusal.cpu });
        return Ok(());
    }
    plan.limits = Limits::read();
    plan.step_down(refusal)
}

fn went_offline(cpu: u32) -> bool {
    cpus::online().is_ok_and(|online| !online.contains(&cpu))
}

/// The events of a plan, without ids.
fn events(plan: &Plan) -> Vec<EventIds> {
    let mut events: Vec<EventIds> = (plan.events.iter())
        .map(|event| EventIds {
            role: Role::Samples,
            attr: attrs::sampling(plan, event),
            name: plan.describe(event),
            ids: Vec::new(),
        })
        .collect();
    events.push(EventIds {
        role: Role::Sideband,
        attr: attrs::sideband(plan),
        // The name that perf gives its own, by which its report leaves the event out.
        name: "dummy:u".to_owned(),
        ids: Vec::new(),
    });
    events
}

fn attempt(plan: &Plan, scope: &Scope, cpus: &[u32]) -> Result<Opened, Refusal> {
    let mut opened = Opened {
        events: events(plan),
        cpus: Vec::new(),
        rings: Vec::new(),
        watches: Vec::new(),
    };
    let subject = match scope {
        Scope::Command(pid) => Some(Subject::Thread(*pid)),
        Scope::All | Scope::Cgroups(_) => Some(Subject::All),
        Scope::Threads => None,
    };
    // Of control groups only samples are taken: a process may come into one later.
    let samples_of_subject = !matches!(scope, Scope::Cgroups(_));
    for (place, cpu) in cpus.iter().enumerate() {
        let mut watch = Watch::new(place);
        if let Some(subject) = subject {
            watch.open_sideband(&mut opened.events, subject, *cpu)?;
        }
        if let Some(subject) = subject.filter(|_| samples_of_subject) {
            watch.open_samples(plan, &mut opened.events, subject, *cpu)?;
        }
        let (events, rings) = map_rings(plan, scope, &watch, *cpu)?;
        watch.redirect_samples(&events)?;
        opened.cpus.push(events);
        opened.rings.push(rings);
        if subject.is_some() {
            opened.watches.push(watch);
        }
    }
    if let Scope::Cgroups(groups) = scope {
        for group in groups {
            for (place, rings) in opened.cpus.iter().enumerate() {
                let mut watch = Watch::new(place);
                let subject = Subject::Cgroup(group.as_fd());
                watch.open_samples(plan, &mut opened.events, subject, rings.cpu)?;
                watch.redirect_samples(rings)?;
                opened.watches.push(watch);
            }
        }
    }
    if plan.sideband_from_start() {
        for watch in &opened.watches {
            watch.enable_sideband()?;
        }
    }
    Ok(opened)
}

/// Maps the rings of a CPU: of the first events there, or of anchors.
///
/// An event hangs up when what it watches is gone, and with it the ring could not be waited for
/// any more. The anchors of threads are therefore this process's own.
fn map_rings(
    plan: &Plan,
    scope: &Scope,
    first: &Watch,
    cpu: u32,
) -> Result<(Arc<CpuEvents>, CpuRings), Refusal> {
    let at = |stage| move |errno: Errno| Refusal { stage, cpu, errno };
    let anchor = |bytes, stage| {
        let subject = match scope {
            Scope::Command(pid) => Subject::Thread(*pid),
            // The first thread lives as long as the process.
            Scope::Threads => Subject::Thread(std::process::id() as libc::pid_t),
            Scope::All | Scope::Cgroups(_) => Subject::All,
        };
        let attr = attrs::anchor(plan, bytes);
        (PerfFd::open_for(&attr, subject, Some(cpu), None, None))
            .map(Arc::new)
            .map_err(at(stage))
    };
    let samples = match first.samples.first() {
        Some(Some(fd)) => Arc::clone(fd),
        _ => anchor(plan.rings.samples, Stage::Sideband)?,
    };
    let sideband = match &first.sideband {
        Some(fd) => Arc::clone(fd),
        None => anchor(plan.rings.sideband, Stage::Sideband)?,
    };
    let map = |fd: &PerfFd, bytes| Ring::map(fd.as_fd(), bytes).map_err(at(Stage::Ring(bytes)));
    let rings = CpuRings {
        samples: map(&samples, plan.rings.samples)?,
        sideband: map(&sideband, plan.rings.sideband)?,
    };
    let events = CpuEvents {
        cpu,
        samples,
        sideband,
        watches_cpu: matches!(scope, Scope::All | Scope::Cgroups(_)),
    };
    Ok((Arc::new(events), rings))
}

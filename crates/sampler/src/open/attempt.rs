//! Attempts to open everything, with steps down in between.

use super::attrs;
use super::degradation::Degradation;
use super::error::OpenEventsError;
use super::event_set::{EventSet, SetSubject};
use super::opened::{CpuEvents, CpuRings, EventIds, OverwrittenRing, Role};
use super::plan::{Plan, Refusal, Stage};
use crate::trace_area::TraceArea;
use rprof_events::cpus;
use rprof_launch::Cgroup;
use rprof_perf_event::limits::raise_open_file_limit;
use rprof_perf_event::{AuxRing, BackwardRing, Errno, Limits, OpenOptions, PerfFd, Ring, Subject};
use rprof_records::AttrFlags;
use rustix::param::page_size;
use std::os::fd::AsFd;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) enum Scope {
    Command(i32),
    Threads,
    All,
    Cgroups(Vec<Cgroup>),
}

#[derive(Debug)]
pub(crate) struct Opened {
    /// Sample events in the requested order, then the sideband event.
    pub(crate) events: Vec<EventIds>,
    pub(crate) cpus: Vec<Arc<CpuEvents>>,
    pub(crate) rings: Vec<CpuRings>,
    pub(crate) overwritten: Vec<OverwrittenRing>,
    pub(crate) sets: Vec<EventSet>,
}

/// Opens the plan on each of `cpus`, stepping down as needed.
///
/// # Errors If no further step exists.
pub(crate) fn open(
    plan: &mut Plan,
    scope: &Scope,
    cpus: &mut Vec<u32>,
) -> Result<Opened, OpenEventsError> {
    let mut files_raised = false;
    loop {
        let refusal = match attempt(plan, scope, cpus) {
            Ok(opened) => return Ok(opened),
            Err(refusal) => refusal,
        };
        if refusal.errno == Errno::MFILE && !files_raised {
            files_raised = true;
            if raise_open_file_limit() {
                continue;
            }
        }
        if let Some(error) = refused_cgroup(plan, scope, refusal) {
            return Err(error);
        }
        react(plan, cpus, refusal)?;
    }
}

/// Returns the error if a control group supports no event at all.
fn refused_cgroup(plan: &Plan, scope: &Scope, refusal: Refusal) -> Option<OpenEventsError> {
    let Refusal { stage, cpu, errno } = refusal;
    let (Scope::Cgroups(groups), Stage::Sampling(index), Errno::NOENT) = (scope, stage, errno)
    else {
        return None;
    };
    let attr = attrs::of_event(plan, index);
    let name = plan.describe(&plan.events[index]);
    let explain = |group: &Cgroup| {
        let subject = Subject::Cgroup(group.as_fd());
        let options = OpenOptions::new(&attr).subject(subject).cpu(cpu);
        (subject.is_cgroup_without_events(Some(cpu)))
            .then(|| options.explain(&name, errno, &plan.limits).into())
    };
    groups.iter().find_map(explain)
}

/// Changes the plan or the CPUs for the next attempt.
///
/// # Errors If no change can help.
pub(super) fn react(
    plan: &mut Plan,
    cpus: &mut Vec<u32>,
    refusal: Refusal,
) -> Result<(), OpenEventsError> {
    if refusal.errno == Errno::NODEV && cpus.len() > 1 && went_offline(refusal.cpu) {
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

/// Returns all events, without ids: those with samples, then the sideband.
pub(super) fn described(plan: &Plan) -> Vec<EventIds> {
    let mut events: Vec<EventIds> = (plan.events.iter().enumerate())
        .map(|(index, event)| EventIds {
            role: plan.role(index),
            attr: attrs::of_event(plan, index),
            name: plan.describe(event),
            ids: Vec::new(),
        })
        .collect();
    events.push(EventIds {
        role: Role::Sideband,
        attr: attrs::sideband(plan),
        // By this name perf report ignores the event.
        name: "dummy:u".to_owned(),
        ids: Vec::new(),
    });
    events
}

pub(super) fn attempt(plan: &Plan, scope: &Scope, cpus: &[u32]) -> Result<Opened, Refusal> {
    let mut opened = Opened {
        events: described(plan),
        cpus: Vec::new(),
        rings: Vec::new(),
        overwritten: Vec::new(),
        sets: Vec::new(),
    };
    let subject = match scope {
        Scope::Command(pid) => Some(Subject::Thread(*pid)),
        Scope::All | Scope::Cgroups(_) => Some(Subject::All),
        Scope::Threads => None,
    };
    // A process may enter a control group later.
    let samples_of_subject = !matches!(scope, Scope::Cgroups(_));
    for (cpu_index, cpu) in cpus.iter().enumerate() {
        let mut set = EventSet::new(cpu_index, *cpu);
        if let Some(subject) = subject {
            set.open_sideband(&mut opened.events, subject)?;
        }
        if let Some(subject) = subject.filter(|_| samples_of_subject) {
            set.open_samples(plan, &mut opened.events, subject)?;
        }
        let (events, rings, overwritten) = map_rings(plan, scope, &set)?;
        set.redirect_samples(&events)?;
        opened.overwritten.extend(overwritten);
        opened.cpus.push(events);
        opened.rings.push(rings);
        if subject.is_some() {
            opened.sets.push(set);
        }
    }
    if plan.records_wakeups {
        for (cpu_index, rings) in opened.cpus.iter().enumerate() {
            let mut set = EventSet::new(cpu_index, rings.cpu).of(SetSubject::Wakeups);
            set.open_wakeups(plan, &mut opened.events)?;
            set.redirect_samples(rings)?;
            opened.sets.push(set);
        }
    }
    if let Scope::Cgroups(groups) = scope {
        for (number, group) in groups.iter().enumerate() {
            for (cpu_index, rings) in opened.cpus.iter().enumerate() {
                let set = EventSet::new(cpu_index, rings.cpu);
                let mut set = set.of(SetSubject::Cgroup(number));
                let subject = Subject::Cgroup(group.as_fd());
                set.open_samples(plan, &mut opened.events, subject)?;
                set.redirect_samples(rings)?;
                opened.sets.push(set);
            }
        }
    }
    if plan.sideband_from_start() {
        for set in &opened.sets {
            set.enable_sideband()?;
        }
    }
    Ok(opened)
}

/// Maps the rings of a CPU: of its first event set, or of anchors.
///
/// An event hangs up when its thread ends, and its ring could not be polled any more. Anchors are
/// therefore events of this process.
fn map_rings(
    plan: &Plan,
    scope: &Scope,
    first: &EventSet,
) -> Result<(Arc<CpuEvents>, CpuRings, Option<OverwrittenRing>), Refusal> {
    let cpu = first.cpu;
    let at = |stage| move |errno: Errno| Refusal { stage, cpu, errno };
    let anchor = |bytes, stage, backward| {
        let subject = match scope {
            Scope::Command(pid) => Subject::Thread(*pid),
            // The first thread lives as long as the process.
            Scope::Threads => Subject::Thread(std::process::id() as i32),
            Scope::All | Scope::Cgroups(_) => Subject::All,
        };
        let mut attr = attrs::anchor(plan, bytes);
        attr.flags.set(AttrFlags::WRITE_BACKWARD, backward);
        (OpenOptions::new(&attr).subject(subject).cpu(cpu).open()).map_err(at(stage))
    };
    let overwrite = plan.options.overwrite;
    let samples = match first.samples.first() {
        Some(Some(fd)) => Arc::clone(fd),
        _ => Arc::new(anchor(plan.rings.samples, Stage::Sideband, overwrite)?),
    };
    let sideband = match &first.sideband {
        Some(fd) => Arc::clone(fd),
        None => Arc::new(anchor(plan.rings.sideband, Stage::Sideband, false)?),
    };
    let map = |fd: &PerfFd, bytes| Ring::map(fd.as_fd(), bytes).map_err(at(Stage::Ring(bytes)));
    let bytes = plan.rings.samples;
    // No thread drains an overwritten ring, so an empty ring takes its place. The mapping keeps its
    // event alive.
    let stand_in = match overwrite {
        true => Some(anchor(page_size(), Stage::Sideband, false)?),
        false => None,
    };
    let rings = CpuRings {
        samples: match &stand_in {
            Some(stand_in) => map(stand_in, page_size())?,
            None => map(&samples, bytes)?,
        },
        sideband: map(&sideband, plan.rings.sideband)?,
        trace: None,
    };
    let rings = CpuRings {
        trace: map_trace(plan, first, &rings.samples)?,
        ..rings
    };
    let overwritten = match overwrite {
        true => Some(OverwrittenRing {
            ring: BackwardRing::map(samples.as_fd(), bytes).map_err(at(Stage::Ring(bytes)))?,
            event: Arc::clone(&samples),
        }),
        false => None,
    };
    let events = CpuEvents {
        cpu,
        samples,
        sideband,
    };
    Ok((Arc::new(events), rings, overwritten))
}

/// Maps the AUX area of the first sample event, if it is an open trace event.
fn map_trace(
    plan: &Plan,
    first: &EventSet,
    ring: &Ring,
) -> Result<Option<Box<dyn TraceArea>>, Refusal> {
    let (Some(_), Some(Some(event))) = (plan.trace_unit(), first.samples.first()) else {
        return Ok(None);
    };
    let bytes = plan.trace_bytes;
    match AuxRing::map(event, ring, bytes) {
        Ok(area) => Ok(Some(Box::new(area))),
        Err(errno) => Err(Refusal {
            stage: Stage::Trace(bytes),
            cpu: first.cpu,
            errno,
        }),
    }
}

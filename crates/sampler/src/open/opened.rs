//! One attempt at opening everything, and what it gives.

use super::attrs;
use super::degradation::Degradation;
use super::error::OpenError;
use super::fd::{Count, PerfFd};
use super::plan::{Plan, Refusal, Stage};
use crate::cpus;
use crate::errno::Errno;
use crate::limits::Limits;
use crate::ring::Ring;
use crate::sys;
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
    /// The id of the event on each CPU, in the order of [`Session::cpus`](crate::Session::cpus).
    pub ids: Vec<u64>,
}

/// The descriptors of one CPU.
#[derive(Debug)]
pub(crate) struct CpuEvents {
    pub(crate) cpu: u32,
    /// Sample events; the first has the ring.
    pub(crate) samples: Vec<PerfFd>,
    pub(crate) sideband: PerfFd,
}

impl CpuEvents {
    /// Stops all events. An event that cannot be stopped goes with its descriptor.
    pub(crate) fn disable(&self) {
        for fd in self.samples.iter().chain([&self.sideband]) {
            let _ = fd.disable();
        }
    }

    /// Readings of the sample events in order, and of the sideband event.
    pub(crate) fn counts(&self) -> (Vec<Count>, Count) {
        let read = |fd: &PerfFd| fd.read().unwrap_or_default();
        (
            self.samples.iter().map(read).collect(),
            read(&self.sideband),
        )
    }
}

/// The rings of one CPU.
#[derive(Debug)]
pub(crate) struct CpuRings {
    pub(crate) samples: Ring,
    pub(crate) sideband: Ring,
}

/// Everything, open.
#[derive(Debug)]
pub(crate) struct Opened {
    /// Sample events first, in the order they were asked for; the sideband event last.
    pub(crate) events: Vec<EventIds>,
    pub(crate) cpus: Vec<(Arc<CpuEvents>, CpuRings)>,
    pub(crate) degradations: Vec<Degradation>,
}

/// Opens the plan for process `pid` on each of `cpus`, stepping down as needed.
///
/// # Errors
/// When no step is left.
pub(crate) fn open(
    mut plan: Plan,
    pid: libc::pid_t,
    mut cpus: Vec<u32>,
) -> Result<Opened, OpenError> {
    let mut files_raised = false;
    loop {
        let refusal = match attempt(&plan, pid, &cpus) {
            Ok(opened) => return Ok(opened),
            Err(refusal) => refusal,
        };
        if refusal.errno.0 == libc::EMFILE && !files_raised {
            files_raised = true;
            if sys::raise_open_file_limit() {
                continue;
            }
        }
        if refusal.errno.0 == libc::ENODEV && cpus.len() > 1 && went_offline(refusal.cpu) {
            cpus.retain(|cpu| *cpu != refusal.cpu);
            plan.degradations
                .push(Degradation::CpuSkipped { cpu: refusal.cpu });
            continue;
        }
        plan.limits = Limits::read();
        plan.step_down(refusal)?;
    }
}

fn went_offline(cpu: u32) -> bool {
    cpus::online().is_ok_and(|online| !online.contains(&cpu))
}

fn attempt(plan: &Plan, pid: libc::pid_t, cpus: &[u32]) -> Result<Opened, Refusal> {
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
    let mut opened = Vec::new();
    for cpu in cpus {
        opened.push(attempt_cpu(plan, pid, *cpu, &mut events)?);
    }
    Ok(Opened {
        events,
        cpus: opened,
        degradations: plan.degradations.clone(),
    })
}

fn attempt_cpu(
    plan: &Plan,
    pid: libc::pid_t,
    cpu: u32,
    events: &mut [EventIds],
) -> Result<(Arc<CpuEvents>, CpuRings), Refusal> {
    let at = |stage| move |errno: Errno| Refusal { stage, cpu, errno };
    let mut fds: Vec<PerfFd> = Vec::with_capacity(events.len());
    for (index, event) in events.iter_mut().enumerate() {
        let stage = match event.role {
            Role::Samples => Stage::Sampling(index),
            Role::Sideband => Stage::Sideband,
        };
        let fd = PerfFd::open(&event.attr, pid, Some(cpu)).map_err(at(stage))?;
        event.ids.push(fd.id().map_err(at(stage))?);
        fds.push(fd);
    }
    let map = |fd: &PerfFd, bytes| Ring::map(fd.as_fd(), bytes).map_err(at(Stage::Ring(bytes)));
    // The list ends with the sideband event and has at least one before it.
    let (samples, sideband) = match (fds.pop(), fds) {
        (Some(sideband), samples) if !samples.is_empty() => (samples, sideband),
        _ => return Err(at(Stage::Sideband)(Errno(libc::EINVAL))),
    };
    let rings = CpuRings {
        samples: map(&samples[0], plan.rings.samples)?,
        sideband: map(&sideband, plan.rings.sideband)?,
    };
    for (index, further) in samples.iter().enumerate().skip(1) {
        // Only into a ring that is mapped already.
        further
            .redirect_to(&samples[0])
            .map_err(at(Stage::Sampling(index)))?;
    }
    let events = CpuEvents {
        cpu,
        samples,
        sideband,
    };
    Ok((Arc::new(events), rings))
}

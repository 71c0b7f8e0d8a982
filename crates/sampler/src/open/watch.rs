//! The events that watch one thing: a thread, a control group, or all.

use super::opened::{CpuEvents, EventIds, Opened};
use super::plan::{Plan, Refusal, Stage};
use crate::errno::Errno;
use rprof_perf_event::{Count, PerfFd, Subject};
use std::sync::Arc;

/// The events that watch one thing on one CPU.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Which of the watched CPUs.
    pub(crate) place: usize,
    /// By number of the event; `None` for one that is not for this CPU.
    pub(crate) samples: Vec<Option<Arc<PerfFd>>>,
    pub(crate) sideband: Option<Arc<PerfFd>>,
}

impl Watch {
    /// Lets samples come. An event that cannot be started stays still.
    pub(crate) fn enable(&self) {
        for fd in self.samples.iter().flatten() {
            let _ = fd.enable();
        }
    }

    /// Stops samples.
    pub(crate) fn disable(&self) {
        for fd in self.samples.iter().flatten() {
            let _ = fd.disable();
        }
    }

    /// Stops everything. An event that cannot be stopped goes with its descriptor.
    pub(crate) fn disable_all(&self) {
        self.disable();
        if let Some(fd) = &self.sideband {
            let _ = fd.disable();
        }
    }

    /// Adds readings of the sample events in order, and of the sideband event.
    pub(crate) fn add_counts(&self, samples: &mut [Count], sideband: &mut Count) {
        for (sum, fd) in samples.iter_mut().zip(&self.samples) {
            sum.add(fd.as_ref().map_or_else(Count::default, |fd| read(fd)));
        }
        if let Some(fd) = &self.sideband {
            sideband.add(read(fd));
        }
    }
}

fn read(fd: &PerfFd) -> Count {
    fd.read().unwrap_or_default()
}

/// Opens the events of one thread on all CPUs, into rings that are there.
///
/// Sideband comes first, and on all CPUs: whoever inherits a sample event from
/// this thread is told of by a FORK record.
pub(super) fn open_thread(
    plan: &Plan,
    opened: &mut Opened,
    tid: libc::pid_t,
) -> Result<Vec<Watch>, Refusal> {
    let before: Vec<usize> = opened.events.iter().map(|event| event.ids.len()).collect();
    let watches = open_thread_events(plan, opened, Subject::Thread(tid));
    if watches.is_err() {
        // A thread that ended halfway leaves no ids.
        for (event, before) in opened.events.iter_mut().zip(before) {
            event.ids.truncate(before);
        }
    }
    watches
}

fn open_thread_events(
    plan: &Plan,
    opened: &mut Opened,
    subject: Subject<'_>,
) -> Result<Vec<Watch>, Refusal> {
    let Opened { events, cpus, .. } = opened;
    let mut watches = Vec::with_capacity(cpus.len());
    for (place, rings) in cpus.iter().enumerate() {
        let mut watch = Watch::new(place);
        watch.open_sideband(events, subject, rings.cpu)?;
        watch.redirect_sideband(rings)?;
        watch.enable_sideband()?;
        watches.push(watch);
    }
    for (watch, rings) in watches.iter_mut().zip(cpus.iter()) {
        watch.open_samples(plan, events, subject, rings.cpu)?;
        watch.redirect_samples(rings)?;
    }
    Ok(watches)
}

impl Watch {
    /// On one of the watched CPUs; nothing is open yet.
    pub(super) fn new(place: usize) -> Watch {
        Watch {
            place,
            samples: Vec::new(),
            sideband: None,
        }
    }

    pub(super) fn open_sideband(
        &mut self,
        events: &mut [EventIds],
        subject: Subject<'_>,
        cpu: u32,
    ) -> Result<(), Refusal> {
        let at = |errno| Refusal {
            stage: Stage::Sideband,
            cpu,
            errno,
        };
        let Some(event) = events.last_mut() else {
            return Err(at(Errno(libc::EINVAL)));
        };
        let fd = PerfFd::open_for(&event.attr, subject, Some(cpu), None, None).map_err(at)?;
        event.ids.push(fd.id().map_err(at)?);
        self.sideband = Some(Arc::new(fd));
        Ok(())
    }

    pub(super) fn open_samples(
        &mut self,
        plan: &Plan,
        events: &mut [EventIds],
        subject: Subject<'_>,
        cpu: u32,
    ) -> Result<(), Refusal> {
        let mut leader: Option<Arc<PerfFd>> = None;
        for (index, (event, ids)) in plan.events.iter().zip(events).enumerate() {
            let at = |errno| Refusal {
                stage: Stage::Sampling(index),
                cpu,
                errno,
            };
            if event.is_leader() {
                leader = None;
            }
            if event.cpus().is_some_and(|cpus| !cpus.contains(&cpu)) {
                self.samples.push(None);
                continue;
            }
            let within = leader.as_deref();
            let fd = PerfFd::open_for(&ids.attr, subject, Some(cpu), within, event.probe_path());
            let fd = fd.map_err(at)?;
            ids.ids.push(fd.id().map_err(at)?);
            let fd = Arc::new(fd);
            if event.is_leader() && event.group().is_some() {
                leader = Some(Arc::clone(&fd));
            }
            self.samples.push(Some(fd));
        }
        Ok(())
    }

    /// Sends the sideband event's records into a ring that is mapped already.
    pub(super) fn redirect_sideband(&self, rings: &CpuEvents) -> Result<(), Refusal> {
        let fd = self.sideband.as_ref();
        fd.map_or(Ok(()), |fd| {
            redirect(fd, &rings.sideband, rings.cpu, Stage::Sideband)
        })
    }

    /// The same for the samples.
    pub(super) fn redirect_samples(&self, rings: &CpuEvents) -> Result<(), Refusal> {
        for (index, fd) in self.samples.iter().enumerate() {
            if let Some(fd) = fd {
                redirect(fd, &rings.samples, rings.cpu, Stage::Sampling(index))?;
            }
        }
        Ok(())
    }

    pub(super) fn enable_sideband(&self) -> Result<(), Refusal> {
        let enabled = self.sideband.as_ref().map_or(Ok(()), |fd| fd.enable());
        enabled.map_err(|errno| Refusal {
            stage: Stage::Sideband,
            cpu: self.place as u32,
            errno,
        })
    }
}

/// Once for each event: a second time, even to the same ring, the kernel waits until nobody can
/// see the first any more (`synchronize_rcu`), which takes some 10 ms.
fn redirect(fd: &Arc<PerfFd>, ring: &Arc<PerfFd>, cpu: u32, stage: Stage) -> Result<(), Refusal> {
    match Arc::ptr_eq(fd, ring) {
        true => Ok(()),
        false => (fd.redirect_to(ring)).map_err(|errno| Refusal { stage, cpu, errno }),
    }
}

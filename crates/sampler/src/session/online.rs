//! [`OnlineCpus`]: CPUs that go offline while they are recorded.
//!
//! The kernel drops the events of a CPU that goes offline for good. So the session reads the list
//! of online CPUs now and then, and opens them again. A new event takes over its predecessor's
//! descriptor, ring and id: see [`PerfFd::replace_by`](rprof_perf_event::PerfFd::replace_by).

use super::Session;
use crate::open::{self, Degradation, EventSet, Plan, Role, Scope};
use rprof_events::cpu_watch::CpuWatch;
use rprof_events::cpus;
use rprof_perf_event::{Errno, PerfFd, Reading};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Interval between two looks at the list.
pub(super) const LOOK: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct OnlineCpus {
    plan: Plan,
    scope: Scope,
    watch: CpuWatch,
    started: Instant,
    last_look: Instant,
    /// CPUs whose events could not be opened again.
    refused: BTreeMap<u32, Errno>,
    /// Final readings of replaced events: CPU index, event index (`None` for sideband), reading.
    pub(super) replaced: Vec<(usize, Option<usize>, Reading)>,
}

impl OnlineCpus {
    /// Returns `None` if no event belongs to a whole CPU.
    pub(super) fn new(plan: Plan, scope: Scope, cpus: &[u32]) -> Option<OnlineCpus> {
        let is_by_cpu = matches!(scope, Scope::All | Scope::Cgroups(_)) || plan.records_wakeups();
        let now = Instant::now();
        is_by_cpu.then(|| OnlineCpus {
            watch: CpuWatch::new(cpus),
            plan,
            scope,
            started: now,
            last_look: now,
            refused: BTreeMap::new(),
            replaced: Vec::new(),
        })
    }

    pub(super) fn begin(&mut self) {
        self.started = Instant::now();
    }

    fn keeps_events(&self) -> bool {
        !matches!(self.scope, Scope::All | Scope::Cgroups(_))
    }
}

impl Session {
    /// Compares the online CPUs with the recorded ones, at most four times a second. Stops the
    /// events of a lost CPU, and opens them again once it is back.
    ///
    /// [`wait_or`](Self::wait_or) calls it. Callers that wait otherwise must call it themselves.
    pub fn follow_cpus(&mut self) {
        let Some(online) = &mut self.online else {
            return;
        };
        if online.last_look.elapsed() < LOOK || self.counts.is_some() {
            return;
        }
        online.last_look = Instant::now();
        let Ok(now) = cpus::online() else {
            return;
        };
        let changes = online.watch.look(&now, online.started.elapsed());
        for cpu in changes.gone {
            self.close_down(cpu);
        }
        for cpu in changes.back {
            let reopened = self.reopen(cpu);
            if let (Err(errno), Some(online)) = (reopened, &mut self.online) {
                online.refused.insert(cpu, errno);
            }
        }
    }

    /// Stops events that the kernel has removed, so that all are in one state.
    fn close_down(&self, cpu: u32) {
        let is_here = |set: &&EventSet| set.cpu == cpu && !self.survives(set);
        for set in self.sets.iter().filter(is_here) {
            set.disable_all();
        }
    }

    fn survives(&self, set: &EventSet) -> bool {
        let keeps = self.online.as_ref().is_none_or(OnlineCpus::keeps_events);
        keeps && !set.is_of_wakeups()
    }

    fn reopen(&mut self, cpu: u32) -> Result<(), Errno> {
        let Some(index) = self.numbers.iter().position(|number| *number == cpu) else {
            return Ok(());
        };
        let (Some(online), Some(rings)) = (&mut self.online, self.cpus.get(index)) else {
            return Ok(());
        };
        if !open::can_reopen(&online.plan) {
            return Err(Errno::NOTSUP);
        }
        for set in self.sets.iter().filter(|set| set.cpu_index == index) {
            let Some(new) = open::reopen(&online.plan, &online.scope, set, rings)? else {
                continue;
            };
            let pairs = pairs(set, new);
            let mut ids = Vec::with_capacity(pairs.len());
            for (_, old, new) in &pairs {
                ids.push((new.id()?, old.id()?));
            }
            // Before the first record with a new id.
            self.threads.rings().add_aliases(index, &ids);
            for (event, old, new) in pairs {
                let reading = old.reading().ok();
                online
                    .replaced
                    .extend(reading.map(|reading| (index, event, reading)));
                old.replace_by(&new)?;
                let is_on = match event.and_then(|event| self.events.get(event)) {
                    None => true,
                    Some(event) => {
                        let is_paused = event.role != Role::Samples
                            && self.switches_paused.load(Ordering::Relaxed);
                        self.is_enabled.load(Ordering::Relaxed) && !is_paused
                    }
                };
                if is_on {
                    old.enable()?;
                }
            }
        }
        Ok(())
    }

    /// Returns a step for each CPU that was offline, or came and is not recorded.
    pub(super) fn cpu_steps(&self) -> Vec<Degradation> {
        let online = cpus::online().unwrap_or_default();
        let Some(known) = &self.online else {
            let came = super::not_among(online, &self.numbers);
            let came = came.map(|cpu| Degradation::CpuCame { cpu, after: None });
            return came.filter(|_| self.watched.is_none()).collect();
        };
        let lost = known.watch.absences().filter(|_| !known.keeps_events());
        let lost = lost.map(|(cpu, absences)| Degradation::CpuLost {
            cpu,
            absences: absences.to_vec(),
            refused: known.refused.get(&cpu).copied(),
        });
        let came = known.watch.came().filter(|_| self.watched.is_none());
        let came = came.map(|(cpu, at)| Degradation::CpuCame {
            cpu,
            after: Some(at),
        });
        lost.chain(came).collect()
    }
}

/// Joins events with their successors; the sideband event has no index.
fn pairs(old: &EventSet, new: EventSet) -> Vec<(Option<usize>, Arc<PerfFd>, Arc<PerfFd>)> {
    let sideband = old.sideband.iter().cloned().zip(new.sideband);
    let samples = old.samples.iter().zip(new.samples).enumerate();
    let samples = samples.filter_map(|(index, (old, new))| {
        let (old, new) = (old.clone()?, new?);
        Some((Some(index), old, new))
    });
    sideband
        .map(|(old, new)| (None, old, new))
        .chain(samples)
        .collect()
}

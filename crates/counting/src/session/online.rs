//! CPUs that go offline while they are counted.
//!
//! The kernel drops the counters of a CPU that goes offline, and keeps them dropped when it comes
//! back. So the session reads the list of online CPUs now and then, and opens the counters again.

use super::CountingSession;
use crate::notice::SessionNotice;
use rprof_events::cpu_watch::CpuWatch;
use rprof_events::cpus;
use rprof_perf_event::PerfFd;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Interval between two looks at the list.
pub(super) const LOOK: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct OnlineCpus {
    watch: CpuWatch,
    last_look: Instant,
    /// CPUs that came back, and lack a counter.
    refused: BTreeSet<u32>,
}

impl OnlineCpus {
    pub(super) fn new(cpus: &[u32]) -> OnlineCpus {
        OnlineCpus {
            watch: CpuWatch::new(cpus),
            last_look: Instant::now(),
            refused: BTreeSet::new(),
        }
    }
}

impl CountingSession {
    /// Compares the online CPUs with the counted ones, and opens the counters of CPUs that came
    /// back.
    pub(super) fn follow_cpus(&mut self) {
        let (Some(online), Some(started)) = (&mut self.online, self.started) else {
            return;
        };
        if online.last_look.elapsed() < LOOK {
            return;
        }
        online.last_look = Instant::now();
        let Ok(now) = cpus::online() else {
            return;
        };
        let changes = online.watch.look(&now, started.elapsed());
        for cpu in changes.gone {
            self.on_cpu(cpu, PerfFd::disable);
        }
        for cpu in changes.back {
            self.reopen(cpu);
        }
    }

    /// Returns the notices about CPUs that went and came so far.
    pub fn late_notices(&self) -> Vec<SessionNotice> {
        let Some(online) = &self.online else {
            return Vec::new();
        };
        let lost = online.watch.absences();
        let lost = lost.map(|(cpu, absences)| SessionNotice::CpuLost {
            cpu,
            absences: absences.to_vec(),
            is_missing: online.refused.contains(&cpu),
        });
        let came = online.watch.came();
        let came = came.filter(|_| self.options.cpus.is_empty());
        let came = came.map(|(cpu, after)| SessionNotice::CpuCame { cpu, after });
        lost.chain(came).collect()
    }

    /// Calls a function for each leader on a CPU. Ignores failures: the kernel has removed some.
    fn on_cpu<E>(&self, cpu: u32, call: impl Fn(&PerfFd) -> Result<(), E>) {
        let is_here = |place: usize| self.places.get(place).is_some_and(|p| p.cpu == Some(cpu));
        let counters = self.counters.iter();
        for counter in counters.filter(|counter| counter.leads && is_here(counter.place)) {
            let _ = call(&counter.fd);
        }
    }

    fn reopen(&mut self, cpu: u32) {
        let Some(settings) = self.settings.clone() else {
            return;
        };
        let mut leader = None;
        let mut is_missing = false;
        for index in 0..self.counters.len() {
            let counter = &self.counters[index];
            let place = &self.places[counter.place];
            if place.cpu != Some(cpu) {
                continue;
            }
            let event = &self.events[counter.event].event;
            let of_group: Option<&PerfFd> = match counter.leads {
                true => None,
                false => leader.map(|leader: usize| &self.counters[leader].fd),
            };
            let is_alone = !counter.leads && of_group.is_none();
            let opened = match is_alone {
                true => None,
                false => settings.open(event, place, of_group).ok().flatten(),
            };
            let leads = counter.leads;
            let is_open = opened.is_some();
            is_missing |= !is_open;
            if let Some(fd) = opened {
                self.counters[index].replace(fd);
            }
            if leads {
                leader = is_open.then_some(index);
            }
        }
        if self.is_enabled {
            self.on_cpu(cpu, PerfFd::enable);
        }
        if let (true, Some(online)) = (is_missing, &mut self.online) {
            online.refused.insert(cpu);
        }
    }
}

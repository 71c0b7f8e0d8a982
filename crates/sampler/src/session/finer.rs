//! [`FinerSampling`]: a second event with a shorter period, for threads that end within a period.

use super::Session;
use crate::drain::RemoteDrain;
use crate::open::Role;
use rprof_perf_event::{Errno, OpenOptions, PerfFd, Subject};
use rprof_records::{Attr, AttrFlags};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of first events, on all CPUs: each [`counted`](FinerSampling::counted) reads all.
const MAX_EVENTS: usize = 1024;

/// Opens the sampled event of a recording a second time for a thread, with a shorter period.
///
/// The kernel begins a period anew for each thread (`perf_swevent_init_hrtimer` in
/// kernel/events/core.c), so threads that end before have no sample. Threads and processes that the
/// thread starts from then on inherit the second event. Its records have the id of the first event
/// and come from the same rings; their periods (`PERF_SAMPLE_PERIOD`) differ.
#[derive(Clone, Debug)]
pub struct FinerSampling {
    attr: Attr,
    cpus: Vec<FinerCpu>,
    rings: RemoteDrain,
}

#[derive(Clone, Debug)]
struct FinerCpu {
    index: usize,
    cpu: u32,
    ring: Arc<PerfFd>,
    id: u64,
    /// The first event in each attached thread, or in the command.
    events: Vec<Arc<PerfFd>>,
}

/// Second events of a thread and of all that it starts. They end when this is dropped.
#[derive(Debug)]
pub struct FinerEvents {
    _events: Vec<PerfFd>,
}

impl Session {
    /// Returns the means to sample a thread with a shorter period. `None` unless threads are recorded
    /// with their children, with one sampled event that has a frequency, and not very many.
    pub fn finer_sampling(&self) -> Option<FinerSampling> {
        let mut sampled = (self.events.iter().enumerate()).filter(|(_, e)| e.role == Role::Samples);
        let (event, opened) = sampled.next()?;
        let flags = AttrFlags::FREQ | AttrFlags::INHERIT;
        if sampled.next().is_some()
            || !opened.attr.flags.contains(flags)
            || self.target.is_by_cpu()
            || self.overwrites()
            || self.counts_others()
        {
            return None;
        }
        let cpus = self.cpus.iter().enumerate().filter_map(|(index, cpu)| {
            let sets = self.sets.iter().filter(|set| set.cpu_index == index);
            let events = sets.filter_map(|set| set.samples.get(event)?.clone());
            let events: Vec<_> = events.collect();
            Some(FinerCpu {
                index,
                cpu: cpu.cpu,
                ring: Arc::clone(&cpu.samples),
                id: events.first()?.id().ok()?,
                events,
            })
        });
        let cpus: Vec<FinerCpu> = cpus.collect();
        let events: usize = cpus.iter().map(|cpu| cpu.events.len()).sum();
        (events <= MAX_EVENTS).then(|| FinerSampling {
            attr: opened.attr.clone(),
            cpus,
            rings: self.threads.rings().clone(),
        })
    }
}

impl FinerSampling {
    /// Returns the count of the first event in all threads, also in ended ones: CPU time for a clock
    /// event.
    pub fn counted(&self) -> Duration {
        let events = self.cpus.iter().flat_map(|cpu| &cpu.events);
        let readings = events.filter_map(|event| event.reading().ok());
        Duration::from_nanos(readings.map(|reading| reading.value).sum())
    }

    /// Samples a thread, and all that it starts from now on, with this period.
    ///
    /// # Errors
    /// The kernel's error, such as `ESRCH` for a thread that has ended.
    pub fn begin(&self, thread: u32, period: Duration) -> Result<FinerEvents, Errno> {
        let thread = i32::try_from(thread).map_err(|_| Errno::SRCH)?;
        let mut attr = self.attr.clone();
        attr.flags
            .remove(AttrFlags::FREQ | AttrFlags::ENABLE_ON_EXEC | AttrFlags::CONTEXT_SWITCH);
        attr.flags |= AttrFlags::DISABLED;
        attr.period_or_freq = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        let mut events = Vec::with_capacity(self.cpus.len());
        for cpu in &self.cpus {
            let options = OpenOptions::new(&attr).subject(Subject::Thread(thread));
            let event = options.cpu(cpu.cpu).open()?;
            event.redirect_to(&cpu.ring)?;
            // Before the first record with the new id.
            self.rings.add_aliases(cpu.index, &[(event.id()?, cpu.id)]);
            events.push(event);
        }
        for event in &events {
            event.enable()?;
        }
        Ok(FinerEvents { _events: events })
    }
}

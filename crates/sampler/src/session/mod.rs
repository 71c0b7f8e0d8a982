//! Recordings.

mod builder;
mod counts;
mod error;
mod finer;
mod online;
mod switches;

pub use builder::SessionBuilder;
pub use counts::{CpuCounts, EventCount, FinalCounts};
pub use error::{ControlAction, ControlError, SessionError};
pub use finer::{FinerEvents, FinerSampling};
pub use switches::SwitchEvents;

use online::{LOOK, OnlineCpus};

use rprof_perf_event::{Clock, ContextPlaces, PerfFd};

use crate::drain::{
    Batch, DrainThreads, FastDrain, OverwrittenRings, Recycler, RemoteDrain, Snapshot, StackBases,
    Traces,
};
use crate::inherited_filter::InheritedEventFilter;
use crate::open::{Contexts, ControlFailure, CpuEvents, Degradation, EventIds, EventSet, Role};
use crate::options::Extras;
use crossbeam_channel::Receiver;
use rprof_events::TraceUnit;
use rprof_launch::{Child, Target, TargetExitWatcher, TargetThread, WaitOutcome, wait_for_targets};
use rprof_records::AttrFlags;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Recording of a program or of running threads.
///
/// The drain threads run from the beginning. Dropping the session stops them, and ends a program
/// that never started.
#[derive(Debug)]
pub struct Session {
    // Dropped first.
    threads: DrainThreads,
    cpus: Vec<Arc<CpuEvents>>,
    numbers: Vec<u32>,
    sets: Vec<EventSet>,
    child: Option<Child>,
    exits: Option<TargetExitWatcher>,
    target: Target,
    extras: Extras,
    clock: Option<Clock>,
    enabled_from_start: bool,
    watched: Option<Vec<u32>>,
    inherited_filter: InheritedEventFilter,
    is_filtered: bool,
    follows_children: bool,
    opened_at: Duration,
    attached: Vec<TargetThread>,
    events: Vec<EventIds>,
    degradations: Vec<Degradation>,
    batches: Receiver<Batch>,
    recycler: Recycler,
    stack_bases: StackBases,
    overwritten: OverwrittenRings,
    contexts: Option<Contexts>,
    ring_bytes: (usize, usize),
    realtime: Option<u8>,
    trace: Option<TraceUnit>,
    /// Bytes of snapshots dropped because the channel was full.
    unsent: u64,
    /// Watch of CPUs; `None` if only threads are recorded.
    online: Option<OnlineCpus>,
    is_enabled: AtomicBool,
    switches_paused: Arc<AtomicBool>,
    counts: Option<FinalCounts>,
}

impl Session {
    /// Creates a builder.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// Returns the steps down, in order.
    pub fn degradations(&self) -> &[Degradation] {
        &self.degradations
    }

    /// Returns the opened events: sample events in the requested order, then the others, and last the
    /// sideband event.
    pub fn events(&self) -> &[EventIds] {
        &self.events
    }

    /// Returns the CPUs with open events, ascending.
    pub fn cpus(&self) -> &[u32] {
        &self.numbers
    }

    /// Returns the requested CPUs, ascending; `None` for all. [`SessionBuilder::off_cpu`] also
    /// opens events on [others](Self::cpus).
    pub fn watched_cpus(&self) -> Option<&[u32]> {
        self.watched.as_deref()
    }

    /// Returns the sizes in bytes of each CPU's sample ring and sideband ring.
    pub fn ring_bytes(&self) -> (usize, usize) {
        self.ring_bytes
    }

    /// Returns the limit of queued [`batches`](Self::batches) for a receiver in time.
    pub fn many_batches(&self) -> usize {
        self.threads.many_batches
    }

    /// Returns the requested real-time priority of the drain threads.
    pub fn realtime(&self) -> Option<u8> {
        self.realtime
    }

    /// Returns the unit of the recorded trace, if any. Its event is the first of
    /// [`events`](Self::events).
    pub fn trace_unit(&self) -> Option<TraceUnit> {
        self.trace
    }

    /// Returns the receiver of the trace. A piece arrives before the batch with its AUX record.
    pub fn traces(&self) -> Traces {
        self.threads.traces.clone()
    }

    /// Returns true if all watermarks are exact, since each thread is pinned to its CPU.
    pub fn has_exact_watermarks(&self) -> bool {
        self.threads.pinned
    }

    /// Returns the launched program.
    pub fn child(&self) -> Option<&Child> {
        self.child.as_ref()
    }

    /// Returns the launched program.
    pub fn child_mut(&mut self) -> Option<&mut Child> {
        self.child.as_mut()
    }

    /// Returns the sampled threads that already ran. Empty for a command and for whole CPUs.
    pub fn attached(&self) -> &[TargetThread] {
        &self.attached
    }

    /// Returns the time since boot at which the first event was opened (CLOCK_BOOTTIME), less a
    /// tick of 10 ms.
    pub fn opened_at(&self) -> Duration {
        self.opened_at
    }

    /// Adds a step down taken by the caller.
    pub fn add_degradation(&mut self, step: Degradation) {
        self.degradations.push(step);
    }

    /// Returns true if sampling begins with [`start`](Self::start), false for
    /// [`enable`](Self::enable).
    pub fn is_enabled_from_start(&self) -> bool {
        self.enabled_from_start
    }

    /// Returns true if children are sampled as well.
    pub fn inherits(&self) -> bool {
        let flags = |event: &EventIds| event.attr.flags.contains(AttrFlags::INHERIT);
        self.follows_children || self.events.iter().any(flags)
    }

    /// Returns true if the events are of whole CPUs, although the target is a few processes. Their
    /// counts include others; the [filter](Self::inherited_event_filter) drops others' records.
    pub fn counts_others(&self) -> bool {
        self.is_filtered
    }

    /// Returns the target of the recording.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Returns the clock of records and watermarks.
    pub fn clock(&self) -> Clock {
        self.clock.unwrap_or_default()
    }

    /// Returns true if all records use [`clock`](Self::clock). Before Linux 4.1 the kernel uses its
    /// own.
    pub fn is_stamped_by_clock(&self) -> bool {
        let is_stamped = |event: &EventIds| event.attr.flags.contains(AttrFlags::USE_CLOCKID);
        self.events.iter().all(is_stamped)
    }

    /// Returns the requested additional fields and records.
    pub fn extras(&self) -> Extras {
        self.extras
    }

    /// Returns a filter that drops duplicate samples. All records must pass through one in time
    /// order.
    pub fn inherited_event_filter(&self) -> InheritedEventFilter {
        self.inherited_filter.clone()
    }

    /// Begins sampling and releases the program.
    ///
    /// Read earlier mappings of [`attached`](Self::attached) processes before this call, so that no
    /// sample precedes its mapping.
    ///
    /// # Errors
    /// [`SessionError::Exec`] if the program cannot be executed, [`SessionError::Control`] if an
    /// event cannot be started. The recording is then stopped.
    pub fn start(&mut self) -> Result<(), SessionError> {
        let mut started = Ok(());
        if let Some(online) = &mut self.online {
            online.begin();
        }
        self.is_enabled
            .store(self.enabled_from_start, Ordering::Relaxed);
        if self.enabled_from_start && self.target != Target::Command {
            started = self.enable().map_err(SessionError::from);
        }
        if let (Ok(()), Some(child)) = (&started, &mut self.child) {
            started = child.release().map_err(SessionError::from);
        }
        if started.is_err() {
            self.stop();
        }
        started
    }

    /// Begins or resumes sampling. The last event starts first, in all threads and on all CPUs.
    ///
    /// # Errors
    /// The first event that could not be started. All others are started.
    pub fn enable(&self) -> Result<(), ControlError> {
        self.is_enabled.store(true, Ordering::Relaxed);
        // An event of releases follows its event of allocations. If it started later, blocks
        // released in between would stay in use.
        let events = (0..self.events_of_sets()).rev();
        self.control(ControlAction::Start, events, EventSet::enable_event)
    }

    /// Stops sampling until [`enable`](Self::enable). Sideband continues.
    ///
    /// # Errors
    /// The first event that could not be stopped. All others are stopped.
    pub fn disable(&self) -> Result<(), ControlError> {
        self.is_enabled.store(false, Ordering::Relaxed);
        let events = 0..self.events_of_sets();
        self.control(ControlAction::Stop, events, EventSet::disable_event)
    }

    fn events_of_sets(&self) -> usize {
        self.sets.iter().map(EventSet::len).max().unwrap_or(0)
    }

    /// Controls the events in this order, each in all sets.
    fn control(
        &self,
        action: ControlAction,
        events: impl Iterator<Item = usize>,
        call: impl Fn(&EventSet, usize) -> Result<(), ControlFailure>,
    ) -> Result<(), ControlError> {
        // A failure does not skip the other sets.
        let mut first = Ok(());
        for index in events {
            for set in &self.sets {
                first = first.and(call(set, index));
            }
        }
        first.map_err(|ControlFailure { index, cpu, errno }| ControlError {
            action,
            event: (self.events.get(index)).map_or_else(String::new, |event| event.name.clone()),
            cpu,
            errno,
        })
    }

    /// Waits until the program ends, all attached threads have ended, `other` is readable, or the
    /// timeout expires. Of several, returns the first in this order. With a program, only its end
    /// counts. [CPUs that come back](Self::follow_cpus) are recorded again.
    ///
    /// # Errors
    /// The errors of [`Child::wait`] and of poll(2).
    pub fn wait_or(
        &mut self,
        other: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> io::Result<WaitOutcome> {
        if self.online.is_none() {
            return self.wait_once(other, timeout);
        }
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            self.follow_cpus();
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
        if let Some(child) = &mut self.child {
            return child.wait_or(other, timeout);
        }
        wait_for_targets(self.exits.as_mut(), other, timeout)
    }

    /// Returns the switch events, if recorded.
    pub fn switch_events(&self) -> Option<SwitchEvents> {
        let mut events = self.of_role(Role::OffCpu)?;
        // Wakeups are useless while switches are not recorded.
        events.extend(self.of_role(Role::Wakeups).unwrap_or_default());
        Some(SwitchEvents {
            events,
            paused: Arc::clone(&self.switches_paused),
        })
    }

    /// Returns the places of thread contexts, for the receiver to fill. `None` if requests are not
    /// recorded.
    pub fn context_places(&self) -> Option<&Arc<ContextPlaces>> {
        self.contexts.as_ref().map(Contexts::places)
    }

    /// Returns the wakeup events, if recorded.
    pub fn wakeups(&self) -> Option<SwitchEvents> {
        let events = self.of_role(Role::Wakeups)?;
        Some(SwitchEvents {
            events,
            paused: Arc::default(),
        })
    }

    fn of_role(&self, role: Role) -> Option<Vec<Arc<PerfFd>>> {
        let index = (self.events.iter()).position(|event| event.role == role)?;
        let of_set = |set: &EventSet| set.samples.get(index).cloned().flatten();
        Some(self.sets.iter().filter_map(of_set).collect())
    }

    /// Returns the channel of all batches. [`stop`](Self::stop) disconnects it after the last one.
    pub fn batches(&self) -> &Receiver<Batch> {
        &self.batches
    }

    /// Returns a batch's buffer to its pool.
    pub fn recycle(&self, batch: Batch) {
        self.recycler.recycle(batch);
    }

    /// Returns a handle that recycles buffers.
    pub fn recycler(&self) -> Recycler {
        self.recycler.clone()
    }

    /// Returns the table of stack bases, for the receiver to fill.
    pub fn stack_bases(&self) -> &StackBases {
        &self.stack_bases
    }

    /// Returns the handle that requests fast draining.
    pub fn fast_drain(&self) -> &FastDrain {
        &self.threads.fast_drain
    }

    /// Hands fast draining to the receiver, which must then [drain](RemoteDrain::drain) the rings
    /// every [`poll_interval`](FastDrain::poll_interval). `None` if there are too many CPUs for one
    /// thread.
    pub fn remote_drain(&self) -> Option<RemoteDrain> {
        self.threads.remote()
    }

    /// Returns true if sample rings are overwritten.
    pub fn overwrites(&self) -> bool {
        !self.overwritten.is_empty()
    }

    /// Sends the new samples of overwritten rings to [`batches`](Self::batches), in time order.
    ///
    /// The batches have the CPU [`NO_CPU`](crate::drain::NO_CPU), and come after later sideband, so
    /// a file with them must not contain FINISHED_ROUND records. The kernel drops and counts
    /// samples meanwhile.
    pub fn snapshot(&mut self) {
        let Some(sender) = &self.threads.snapshots else {
            return;
        };
        let mut snapshot = Snapshot::default();
        (self.overwritten).take(|record| sender.add(record, &mut snapshot));
        self.unsent += sender.send(snapshot);
    }

    /// Ends the recording. All records are then in [`batches`](Self::batches). The program may
    /// continue. A second call returns the same counts.
    pub fn stop(&mut self) -> FinalCounts {
        if let Some(counts) = &self.counts {
            return counts.clone();
        }
        for set in &self.sets {
            set.disable_all();
        }
        self.snapshot();
        let mut drained = self.threads.stop();
        if let Some(first) = drained.first_mut() {
            first.unsent_bytes += self.unsent;
        }
        let sampled = self.events.len().saturating_sub(1);
        let mut cpus: Vec<CpuCounts> = (self.cpus.iter().zip(drained))
            .map(|(cpu, drain)| CpuCounts {
                cpu: cpu.cpu,
                events: vec![EventCount::default(); sampled],
                sideband: EventCount::default(),
                drain,
            })
            .collect();
        for set in &self.sets {
            let Some(cpu) = cpus.get_mut(set.cpu_index) else {
                continue;
            };
            for (index, reading) in set.readings() {
                if let Some(count) = cpu.events.get_mut(index) {
                    count.add(reading);
                }
            }
            if let Some(reading) = set.sideband_reading() {
                cpu.sideband.add(reading);
            }
        }
        for (cpu, event, reading) in self.online.iter().flat_map(|online| &online.replaced) {
            let Some(counts) = cpus.get_mut(*cpu) else {
                continue;
            };
            let count = match event {
                None => Some(&mut counts.sideband),
                Some(index) => counts.events.get_mut(*index),
            };
            if let Some(count) = count {
                count.add(Ok(*reading));
            }
        }
        let counts = FinalCounts { cpus };
        self.degradations.extend(self.cpu_steps());
        for (index, event) in self.events.iter().take(sampled).enumerate() {
            self.degradations
                .extend(counts.failure_of(index, &event.name));
        }
        self.counts = Some(counts.clone());
        counts
    }
}

fn not_among(online: Vec<u32>, watched: &[u32]) -> impl Iterator<Item = u32> {
    (online.into_iter()).filter(|cpu| !watched.contains(cpu))
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_that_came_are_those_that_are_not_watched() {
        let came =
            |online: &[u32], watched| not_among(online.to_vec(), watched).collect::<Vec<_>>();
        assert_eq!(came(&[0, 1, 4], &[0, 4]), [1]);
        assert_eq!(came(&[0], &[0, 1]), []);
        assert_eq!(came(&[], &[0]), []);
    }
}

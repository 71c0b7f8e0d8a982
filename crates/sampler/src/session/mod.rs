//! Recordings, from the first event to the last count.
//!
//! | module | holds |
//! |---|---|
//! | `builder` | [`SessionBuilder`]: from options to a session |
//! | `counts` | [`FinalCounts`]: readings and counts at the end |
//! | `overwritten` | rings that keep the last samples |
//! | `switches` | [`SwitchEvents`]: events of switches, stopped and started by themselves |
//! | `error` | [`SessionError`], [`ControlError`] |

mod builder;
mod counts;
mod error;
mod overwritten;
mod switches;

pub use builder::SessionBuilder;
pub use counts::{CpuCounts, EventCount, FinalCounts};
pub use error::{ControlAction, ControlError, SessionError};
pub use switches::SwitchEvents;

use overwritten::OverwrittenRings;
use rprof_perf_event::{Clock, PerfFd};

use crate::drain::{
    Batch, DrainThreads, FastDrain, Recycler, RemoteDrain, Snapshot, StackBases, Traces,
};
use crate::inherited_filter::InheritedEventFilter;
use crate::open::{ControlFailure, CpuEvents, Degradation, EventIds, EventSet, Role};
use crate::options::Extras;
use crossbeam_channel::Receiver;
use rprof_events::{TraceUnit, cpus};
use rprof_launch::{Child, Target, TargetExitWatcher, TargetThread, WaitOutcome, wait_for_targets};
use rprof_records::AttrFlags;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// Recording of a program and of what it starts, or of what runs already.
///
/// The threads run from the beginning; records come once the program does. Dropping the session
/// stops them, and ends a program that was never started.
#[derive(Debug)]
pub struct Session {
    // First, so that it is dropped first.
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
    /// True if all CPUs were to be watched.
    /// CPUs that were asked for; `None` for all that there are.
    watched: Option<Vec<u32>>,
    inherited_filter: InheritedEventFilter,
    opened_at: Duration,
    attached: Vec<TargetThread>,
    events: Vec<EventIds>,
    degradations: Vec<Degradation>,
    batches: Receiver<Batch>,
    recycler: Recycler,
    stack_bases: StackBases,
    overwritten: OverwrittenRings,
    ring_bytes: (usize, usize),
    realtime: Option<u8>,
    /// Unit whose trace is recorded.
    trace: Option<TraceUnit>,
    /// Bytes of snapshots for which the receiver had no place.
    unsent: u64,
    counts: Option<FinalCounts>,
}

impl Session {
    /// Begins a description of what to record.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// Steps down that were taken, in order.
    pub fn degradations(&self) -> &[Degradation] {
        &self.degradations
    }

    /// Events as they were opened, with their ids: sample events in the order they were asked for,
    /// and the sideband event last.
    pub fn events(&self) -> &[EventIds] {
        &self.events
    }

    /// CPUs on which events are open, in ascending order.
    pub fn cpus(&self) -> &[u32] {
        &self.numbers
    }

    /// Returns the CPUs that were asked for, in ascending order; `None` for all that there are. Where switches of threads are told of
    /// ([`SessionBuilder::off_cpu`]), they are on the [others](Self::cpus) as well, without samples.
    pub fn watched_cpus(&self) -> Option<&[u32]> {
        self.watched.as_deref()
    }

    /// Sizes in bytes of the sample ring and of the sideband ring of each CPU.
    pub fn ring_bytes(&self) -> (usize, usize) {
        self.ring_bytes
    }

    /// Number of batches in [`batches`](Self::batches) from which on the receiver had better hurry: as many as the buffers of
    /// all CPUs, and a quarter of their [reserve](crate::DrainOptions::reserve_bytes).
    pub fn many_batches(&self) -> usize {
        self.threads.many_batches
    }

    /// Real-time priority that the drain threads were asked to have, if any.
    pub fn realtime(&self) -> Option<u8> {
        self.realtime
    }

    /// Returns the unit whose trace is recorded, if an event is one's. Its event is the first of
    /// [`events`](Self::events).
    pub fn trace_unit(&self) -> Option<TraceUnit> {
        self.trace
    }

    /// Returns the receiver of the trace. A piece is there before the batch with its AUX record is.
    pub fn traces(&self) -> Traces {
        self.threads.traces.clone()
    }

    /// Returns whether the watermarks of all CPUs are exact, as each thread is bound to its CPU.
    pub fn has_exact_watermarks(&self) -> bool {
        self.threads.pinned
    }

    /// The program, if one was launched.
    pub fn child(&self) -> Option<&Child> {
        self.child.as_ref()
    }

    /// The program, to wait for it or to signal it.
    pub fn child_mut(&mut self) -> Option<&mut Child> {
        self.child.as_mut()
    }

    /// The threads that are watched and were there before. Empty when only a command is
    /// watched, and when whole CPUs are: then it is everything that there is.
    pub fn attached(&self) -> &[TargetThread] {
        &self.attached
    }

    /// Time at which the first event was opened: since the machine was started, as /proc has it for
    /// processes (CLOCK_BOOTTIME), less one of its ticks.
    pub fn opened_at(&self) -> Duration {
        self.opened_at
    }

    /// Adds a step down that the caller had to take.
    pub fn add_degradation(&mut self, step: Degradation) {
        self.degradations.push(step);
    }

    /// Returns true if sampling begins with [`start`](Self::start), and not at [`enable`](Self::enable).
    pub fn is_enabled_from_start(&self) -> bool {
        self.enabled_from_start
    }

    /// Returns true if threads and processes that watched ones start are sampled as well.
    pub fn inherits(&self) -> bool {
        let flags = |event: &EventIds| event.attr.flags.contains(AttrFlags::INHERIT);
        self.events.iter().any(flags)
    }

    /// Target of the recording.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Clock of the times of records and of watermarks.
    pub fn clock(&self) -> Clock {
        self.clock.unwrap_or_default()
    }

    /// Returns true if the kernel stamps all records with the time of [`clock`](Self::clock), and not with a clock of its own, as
    /// it does before Linux 4.1.
    pub fn is_stamped_by_clock(&self) -> bool {
        let is_stamped = |event: &EventIds| event.attr.flags.contains(AttrFlags::USE_CLOCKID);
        self.events.iter().all(is_stamped)
    }

    /// What samples hold beyond the usual, as it was asked for.
    pub fn extras(&self) -> Extras {
        self.extras
    }

    /// Returns a filter for samples that do not count: where threads were attached to, some may be
    /// taken twice. All records must pass through one filter, in the order of time.
    pub fn inherited_event_filter(&self) -> InheritedEventFilter {
        self.inherited_filter.clone()
    }

    /// Begins sampling, and lets the program begin.
    ///
    /// If threads were attached to, their processes have been followed since the session
    /// was made; what they had mapped before is to be read before this is called
    /// ([`attached`](Self::attached)), so that no sample comes before its mapping.
    ///
    /// # Errors
    /// [`SessionError::Exec`] when the program cannot be executed, [`SessionError::Control`] when
    /// an event cannot be started. The recording is then stopped.
    pub fn start(&mut self) -> Result<(), SessionError> {
        let mut started = Ok(());
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

    /// Begins sampling, or goes on after [`disable`](Self::disable).
    ///
    /// # Errors
    /// The first event that could not be started. All others are.
    pub fn enable(&self) -> Result<(), ControlError> {
        self.control(ControlAction::Start, EventSet::enable)
    }

    /// Stops sampling until [`enable`](Self::enable). Processes are followed all the same.
    ///
    /// # Errors
    /// The first event that could not be stopped. All others are.
    pub fn disable(&self) -> Result<(), ControlError> {
        self.control(ControlAction::Stop, EventSet::disable)
    }

    fn control(
        &self,
        action: ControlAction,
        call: impl Fn(&EventSet) -> Result<(), ControlFailure>,
    ) -> Result<(), ControlError> {
        // Every set is called, also after a failure.
        let mut first = Ok(());
        for set in &self.sets {
            let called = call(set);
            first = first.and(called);
        }
        first.map_err(|ControlFailure { index, cpu, errno }| ControlError {
            action,
            event: (self.events.get(index)).map_or_else(String::new, |event| event.name.clone()),
            cpu,
            errno,
        })
    }

    /// Waits until the program ends, all that was attached to is gone, `other` is readable, or the
    /// time is over (`None`: no bound). Of several, returns the first in this order.
    ///
    /// With a program, its end alone counts. Whole CPUs are never gone.
    ///
    /// # Errors
    /// The errors of [`Child::wait`] and of poll(2).
    pub fn wait_or(
        &mut self,
        other: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> io::Result<WaitOutcome> {
        if let Some(child) = &mut self.child {
            return child.wait_or(other, timeout);
        }
        wait_for_targets(self.exits.as_mut(), other, timeout)
    }

    /// Returns the events that tell of switches, where these are recorded.
    pub fn switch_events(&self) -> Option<SwitchEvents> {
        let mut events = self.of_role(Role::OffCpu)?;
        // Wakeups say nothing where switches are not recorded.
        events.extend(self.of_role(Role::Wakeups).unwrap_or_default());
        Some(SwitchEvents { events })
    }

    /// Returns the events of wakeups, where these are recorded.
    pub fn wakeups(&self) -> Option<SwitchEvents> {
        let events = self.of_role(Role::Wakeups)?;
        Some(SwitchEvents { events })
    }

    /// Returns what is open of the event of a role, if there is one.
    fn of_role(&self, role: Role) -> Option<Vec<Arc<PerfFd>>> {
        let index = (self.events.iter()).position(|event| event.role == role)?;
        let of_set = |set: &EventSet| set.samples.get(index).cloned().flatten();
        Some(self.sets.iter().filter_map(of_set).collect())
    }

    /// Channel on which batches of all CPUs arrive. After [`stop`](Self::stop) it is disconnected
    /// once the last batch was taken. Clone it to receive on another thread.
    pub fn batches(&self) -> &Receiver<Batch> {
        &self.batches
    }

    /// Returns a batch's buffer to its pool, once its records are taken out of it.
    pub fn recycle(&self, batch: Batch) {
        self.recycler.recycle(batch);
    }

    /// Handle that returns buffers from another thread.
    pub fn recycler(&self) -> Recycler {
        self.recycler.clone()
    }

    /// Table of stack bases, for the receiver to fill: bytes above them are not forwarded.
    pub fn stack_bases(&self) -> &StackBases {
        &self.stack_bases
    }

    /// Switch by which the receiver asks for samples soon after they are taken.
    pub fn fast_drain(&self) -> &FastDrain {
        &self.threads.fast_drain
    }

    /// Leaves fast draining to the receiver, which has to [drain](RemoteDrain::drain) the rings every
    /// [`poll_interval`](FastDrain::poll_interval) from now on. `None` where there are more CPUs than one thread can drain: then
    /// the drain threads hurry by themselves, as they do if this is never called.
    pub fn remote_drain(&self) -> Option<RemoteDrain> {
        self.threads.remote()
    }

    /// True if later samples overwrite earlier ones, so that only the last of them are sent.
    pub fn overwrites(&self) -> bool {
        !self.overwritten.is_empty()
    }

    /// Sends the samples that are in overwritten rings, and that were not sent before, in the order of time, to
    /// [`batches`](Self::batches). Does nothing where no ring is overwritten.
    ///
    /// They come as if from a CPU of their own, [`NO_CPU`](crate::drain::NO_CPU), and after sideband that is
    /// later than they are: whoever writes a file says nothing of rounds in it. While a ring is read, a moment, its
    /// samples are lost, and counted.
    pub fn snapshot(&mut self) {
        let Some(sender) = &self.threads.snapshots else {
            return;
        };
        let mut snapshot = Snapshot::default();
        (self.overwritten).take(|record| sender.add(record, &mut snapshot));
        self.unsent += sender.send(snapshot);
    }

    /// Ends the recording: no event counts any more, and all records are in
    /// [`batches`](Self::batches). The program, if it still runs, goes on unwatched.
    ///
    /// Nothing needs to receive meanwhile. A second call gives the same counts.
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
        let counts = FinalCounts { cpus };
        let lost = counts.cpus.iter().filter(|cpu| cpu.drain.cpu_went_offline);
        let lost = lost.map(|cpu| Degradation::CpuLost { cpu: cpu.cpu });
        self.degradations.extend(lost);
        if self.watched.is_none() {
            let online = cpus::online().unwrap_or_default();
            let came = not_among(online, &self.numbers);
            let came = came.map(|cpu| Degradation::CpuCame { cpu });
            self.degradations.extend(came);
        }
        for (index, event) in self.events.iter().take(sampled).enumerate() {
            self.degradations
                .extend(counts.failure_of(index, &event.name));
        }
        self.counts = Some(counts.clone());
        counts
    }
}

/// Returns the CPUs that are not watched.
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

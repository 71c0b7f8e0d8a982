//! The loop of a drain thread.

use super::aliases::Aliases;
use super::batch::{Batch, Stream};
use super::buffers::BufferPool;
use super::fast_drain::FastDrain;
use super::stack_bases::StackBases;
use super::trace::TraceDrain;
use super::trim::{self, Dumps};
use crate::open::{CpuEvents, CpuRings};
use crate::options::{DrainOptions, SIDEBAND_BATCH};
use crate::scheduling;
use crate::wakeup::{WakeupFlag, readable, wait};
use crossbeam_channel::{Sender, TrySendError};
use rprof_perf_event::Clock;
use rprof_perf_event::Ring;
use rprof_records::{RawBytes, RawRecord, SampleLayout};
use rustix::event::PollFlags;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const STARVED: Duration = Duration::from_millis(5);

/// Fast draining checks hang-ups only every so many rounds.
const ALL_POLLED: u32 = 64;

/// Maximum batches from one ring in one remote drain: the receiver has other rings.
const MAX_REMOTE_ROUNDS: u32 = 8;

/// Counts of a drain thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DrainCounts {
    /// True if the thread was pinned to its CPU, so that its watermarks are exact.
    pub pinned: bool,
    /// Bytes of sample records sent.
    pub sample_bytes: u64,
    /// Bytes of sideband records sent.
    pub sideband_bytes: u64,
    /// Rounds that left samples in the ring because the receiver held all buffers.
    pub starved: u64,
    /// Rounds that left sideband in its ring for the same reason.
    pub sideband_starved: u64,
    /// Bytes of traces sent.
    pub trace_bytes: u64,
    /// Bytes dropped because of impossible record sizes. Never observed.
    pub damaged_bytes: u64,
    /// Bytes dropped because the receiver was gone.
    pub unsent_bytes: u64,
}

/// Maximum ns between a record's timestamp and its publication: meanwhile the kernel copies up to
/// 64 KiB of stack.
pub(super) const REMOTE_SLACK: u64 = 1_000_000;

/// Nanoseconds of a late thread's real-time scheduling.
const HURRY: u64 = 2_000_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DrainedFrom {
    /// Pinned to the ring's CPU, it never sees a partial record.
    OwnThread,
    /// Another thread: see [`REMOTE_SLACK`].
    Elsewhere,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    WhenLate,
    /// The thread was last late at this time.
    Late(u64),
    Settled,
}

impl Urgency {
    pub(super) fn new(options: &DrainOptions) -> Urgency {
        match options.realtime {
            None => Urgency::WhenLate,
            Some(_) => Urgency::Settled,
        }
    }
}

/// Drainer of a CPU, for its thread and remote drains. `None` once its thread has ended.
pub(super) type SharedDrainer = Arc<Mutex<Option<Drainer>>>;

/// Locks a drainer. A thread that panicked has at worst drained too little.
pub(super) fn locked(shared: &Mutex<Option<Drainer>>) -> MutexGuard<'_, Option<Drainer>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) struct Drainer {
    pub(super) events: Arc<CpuEvents>,
    pub(super) rings: CpuRings,
    pub(super) trace: Option<TraceDrain>,
    pub(super) pools: (BufferPool, BufferPool),
    pub(super) layouts: Layouts,
    pub(super) sender: Sender<Batch>,
    pub(super) stop: Arc<WakeupFlag>,
    pub(super) clock: Clock,
    pub(super) batch_bytes: usize,
    pub(super) idle: Duration,
    pub(super) fast_drain: FastDrain,
    pub(super) number: usize,
    /// Number of queued messages from which no bare watermarks are added.
    pub(super) crowded: usize,
    pub(super) urgency: Urgency,
    pub(super) watermark: u64,
    pub(super) aliases: Aliases,
    /// True until the thread has noticed its new events.
    pub(super) is_renewed: bool,
    pub(super) counts: DrainCounts,
}

#[derive(Clone, Debug)]
pub(super) struct Layouts {
    pub(super) samples: SampleLayout,
    pub(super) sideband: SampleLayout,
    pub(super) dumps: Arc<Dumps>,
    pub(super) bases: StackBases,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Nearly empty: wait for the kernel.
    Nothing,
    /// More than a batch: continue at once.
    More,
    /// No buffer: wait for the receiver.
    Starved,
}

/// Drains until stopped. Afterwards both rings are empty and everything has been sent.
pub(super) fn run(shared: &Mutex<Option<Drainer>>) -> DrainCounts {
    drain_until_stopped(shared);
    let Some(mut drainer) = locked(shared).take() else {
        return DrainCounts::default();
    };
    drainer.finish();
    drainer.counts
}

fn drain_until_stopped(shared: &Mutex<Option<Drainer>>) {
    let parts = locked(shared).as_ref().map(|drainer| {
        let (events, stop) = (Arc::clone(&drainer.events), Arc::clone(&drainer.stop));
        let (fast_drain, idle) = (drainer.fast_drain.clone(), drainer.idle);
        (events, stop, fast_drain, idle, drainer.number)
    });
    let Some((events, stop, fast_drain, idle, number)) = parts else {
        return;
    };
    let wakeup = fast_drain.wakeup(number);
    let mut fds = vec![readable(stop.as_fd())];
    fds.extend(wakeup.iter().map(|flag| readable(flag.as_fd())));
    // The rings' descriptors leave the list when they hang up.
    let first_ring = fds.len();
    fds.push(readable(events.samples.as_fd()));
    fds.push(readable(events.sideband.as_fd()));
    let mut left = Left::Nothing;
    let mut rounds = 0u32;
    loop {
        let timeout = match left {
            Left::Nothing => fast_drain.timeout(idle),
            Left::More => Duration::ZERO,
            Left::Starved => STARVED.min(idle),
        };
        // Nothing must wake the thread earlier. Polling every event costs more than reading the
        // rings.
        rounds = rounds.wrapping_add(1);
        let polled = match fast_drain.hurries() && !rounds.is_multiple_of(ALL_POLLED) {
            true => first_ring,
            false => fds.len(),
        };
        if wait(&mut fds[..polled], Some(timeout)).is_err() {
            // Out of memory (poll(2)).
            std::thread::sleep(STARVED);
        }
        if !fds[0].revents().is_empty() {
            return;
        }
        if let Some(wakeup) = wakeup
            && !fds[1].revents().is_empty()
        {
            wakeup.lower();
        }
        let rings = || {
            fds[first_ring..polled]
                .iter()
                .map(rustix::event::PollFd::revents)
        };
        // POLLHUP stays once all sampled tasks have ended or the CPU is offline, POLLERR without a
        // counter. In the list they would cause a busy loop.
        if rings().any(|events| has_hung_up(events) || events.contains(PollFlags::ERR)) {
            let mut at = 0;
            fds.retain(|fd| {
                at += 1;
                let events = fd.revents();
                at <= first_ring || !(has_hung_up(events) || events.contains(PollFlags::ERR))
            });
        }
        left = match locked(shared).as_mut() {
            Some(drainer) => {
                if drainer.take_renewed() {
                    fds.truncate(first_ring);
                    fds.push(readable(events.samples.as_fd()));
                    fds.push(readable(events.sideband.as_fd()));
                }
                drainer.round(DrainedFrom::OwnThread)
            }
            None => return,
        };
    }
}

impl Drainer {
    /// Takes pairs of ids, the new one first.
    pub(super) fn add_aliases(&mut self, ids: &[(u64, u64)]) {
        let mut dumps = (*self.layouts.dumps).clone();
        for (new, old) in ids {
            let first = self.aliases.add(*new, *old);
            if let Some(layout) = dumps.get(&first).cloned() {
                dumps.insert(*new, layout);
            }
        }
        self.layouts.dumps = Arc::new(dumps);
        self.is_renewed = true;
    }

    /// Returns true once after the events were replaced. Pins the thread again: the kernel moved it
    /// when its CPU went offline.
    fn take_renewed(&mut self) -> bool {
        let is_renewed = std::mem::take(&mut self.is_renewed);
        if is_renewed && self.counts.pinned {
            scheduling::pin_to(self.events.cpu);
        }
        is_renewed
    }

    pub(super) fn drain_remotely(&mut self) {
        for _ in 0..MAX_REMOTE_ROUNDS {
            if self.round(DrainedFrom::Elsewhere) != Left::More {
                break;
            }
        }
    }

    /// Makes the drain thread real-time if it finds half of its ring full, until it has been in
    /// time for a while: see [`LateBoost`](crate::LateBoost).
    fn hurry_if_late(&mut self) {
        let samples = &self.rings.samples;
        let is_late = samples.unread() >= samples.size() / 2;
        self.urgency = match self.urgency {
            Urgency::WhenLate if is_late => {
                match scheduling::make_realtime(scheduling::LATE_DRAIN) {
                    Ok(()) => Urgency::Late(self.clock.now_ns()),
                    // Without permission, only a larger ring helps.
                    Err(_) => Urgency::Settled,
                }
            }
            Urgency::Late(_) if is_late => Urgency::Late(self.clock.now_ns()),
            Urgency::Late(at) if self.clock.now_ns().saturating_sub(at) > HURRY => {
                match scheduling::make_ordinary() {
                    Ok(()) => Urgency::WhenLate,
                    Err(_) => Urgency::Settled,
                }
            }
            same => same,
        };
    }

    fn round(&mut self, from: DrainedFrom) -> Left {
        if from == DrainedFrom::OwnThread {
            self.hurry_if_late();
        }
        // The kernel moves a pinned thread when its CPU goes offline, and leaves it there when the
        // CPU is back.
        let is_there = from == DrainedFrom::OwnThread && scheduling::is_on(self.events.cpu);
        let now = match self.counts.pinned && !is_there {
            true => self.clock.now_ns().saturating_sub(REMOTE_SLACK),
            // Without exact watermarks the receiver allows for the slack.
            false => self.clock.now_ns(),
        };
        let sideband = self.next_batch(Stream::Sideband);
        let samples = self.next_batch(Stream::Samples);
        self.drain_trace(TraceDrain::drain);
        let watermark = self.reached(now);
        let left = match (self.rings.sideband.unread(), self.rings.samples.unread()) {
            _ if sideband.is_none() || samples.is_none() => Left::Starved,
            _ if self.trace.as_ref().is_some_and(TraceDrain::is_filling) => Left::More,
            (_, samples)
                if samples > 0 && (from == DrainedFrom::Elsewhere || self.fast_drain.hurries()) =>
            {
                Left::More
            }
            (a, b) if a < self.rings.sideband.size() / 4 && b < self.rings.samples.size() / 4 => {
                Left::Nothing
            }
            _ => Left::More,
        };
        let batches = [(Stream::Sideband, sideband), (Stream::Samples, samples)];
        let mut batches = batches
            .into_iter()
            .filter_map(|(stream, bytes)| match bytes {
                Some(bytes) if !bytes.is_empty() => Some((stream, bytes)),
                _ => None,
            });
        let (first, second) = (batches.next(), batches.next());
        match (first, second) {
            (Some((stream, bytes)), None) => self.send(stream, bytes, watermark),
            (Some((early, early_bytes)), Some((stream, bytes))) => {
                // Later records may be as old as this batch's.
                self.send(early, early_bytes, self.watermark);
                self.send(stream, bytes, watermark);
            }
            _ => self.send_watermark(watermark),
        }
        left
    }

    /// Sends the trace before the records that refer to it.
    fn drain_trace(&mut self, drain: impl FnOnce(&mut TraceDrain) -> usize) {
        let sent = self.trace.as_mut().map_or(0, drain);
        self.counts.trace_bytes += sent as u64;
    }

    /// Drains the rest once all events are disabled. Sends at most the rings' initial contents, so
    /// it ends even if an event stays enabled.
    fn finish(&mut self) {
        self.drain_trace(TraceDrain::finish);
        for stream in [Stream::Sideband, Stream::Samples] {
            let mut left = self.ring(stream).unread();
            while left > 0 {
                let mut bytes = self.pool(stream).pop().unwrap_or_default();
                let drained = self.drain(stream, &mut bytes);
                if bytes.is_empty() {
                    break;
                }
                left = left.saturating_sub(drained);
                self.send(stream, bytes, self.watermark);
            }
        }
        self.send(Stream::Samples, Vec::new(), u64::MAX);
    }

    /// Returns the watermark of a round: `now`, or the time of an older record in a ring.
    fn reached(&self, now: u64) -> u64 {
        let waiting = [Stream::Sideband, Stream::Samples];
        let oldest = waiting.into_iter().filter_map(|stream| self.oldest(stream));
        // Watermarks never decrease.
        oldest.fold(now, u64::min).max(self.watermark)
    }

    /// Returns the time of the oldest record; 0 for one without a time, which stops the watermark.
    fn oldest(&self, stream: Stream) -> Option<u64> {
        let (ring, layout) = match stream {
            Stream::Samples => (&self.rings.samples, &self.layouts.samples),
            Stream::Sideband => (&self.rings.sideband, &self.layouts.sideband),
        };
        // The next drain drops damaged data.
        let record = ring.peek()?;
        Some(time_of(&record, layout).unwrap_or(0))
    }

    /// Takes a batch; empty if there is nothing, `None` without a buffer.
    fn next_batch(&mut self, stream: Stream) -> Option<Vec<u8>> {
        let ring = self.ring(stream);
        if ring.unread() == 0 {
            return Some(Vec::new());
        }
        // If buffers run low, only full ones are sent. Stack copies shrink to about a tenth of
        // their size.
        let full = match stream {
            Stream::Sideband => SIDEBAND_BATCH,
            Stream::Samples => usize::MAX,
        };
        let few = ring.unread() < (ring.size() / 4).min(full);
        if few && self.pool(stream).is_low() {
            return None;
        }
        let Some(mut bytes) = self.pool(stream).pop() else {
            match stream {
                Stream::Samples => self.counts.starved += 1,
                Stream::Sideband => self.counts.sideband_starved += 1,
            }
            return None;
        };
        self.drain(stream, &mut bytes);
        Some(bytes)
    }

    /// Returns the number of bytes removed from the ring.
    fn drain(&mut self, stream: Stream, bytes: &mut Vec<u8>) -> usize {
        let limit = match stream {
            Stream::Samples => self.batch_bytes,
            Stream::Sideband => SIDEBAND_BATCH,
        };
        let drained = match stream {
            Stream::Samples if !self.layouts.dumps.is_empty() => {
                // Doubling would take twice the memory.
                bytes.reserve_exact(limit);
                let Layouts { dumps, bases, .. } = &self.layouts;
                self.rings.samples.drain_with(|record| {
                    let room = limit - bytes.len().min(limit);
                    let room = if bytes.is_empty() { usize::MAX } else { room };
                    trim::put(record, dumps, bases, bytes, room)
                })
            }
            _ => self.ring(stream).drain_into(bytes, limit),
        };
        if !self.aliases.is_empty() {
            self.aliases.apply(bytes);
        }
        let copied = drained.copied;
        self.counts.damaged_bytes += drained.damaged as u64;
        match stream {
            Stream::Samples => self.counts.sample_bytes += copied as u64,
            Stream::Sideband => self.counts.sideband_bytes += copied as u64,
        }
        copied
    }

    fn ring(&mut self, stream: Stream) -> &mut Ring {
        match stream {
            Stream::Samples => &mut self.rings.samples,
            Stream::Sideband => &mut self.rings.sideband,
        }
    }

    fn pool(&self, stream: Stream) -> &BufferPool {
        match stream {
            Stream::Samples => &self.pools.0,
            Stream::Sideband => &self.pools.1,
        }
    }

    fn send(&mut self, stream: Stream, bytes: Vec<u8>, watermark: u64) {
        self.watermark = watermark;
        let batch = Batch {
            cpu: self.events.cpu,
            stream,
            bytes,
            watermark,
        };
        // The channel has a place for every buffer.
        if let Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) =
            self.sender.try_send(batch)
        {
            self.counts.unsent_bytes += batch.bytes.len() as u64;
        }
    }

    /// Sends a bare watermark. Skipped if the receiver is late, since later ones replace it. But
    /// one of each CPU may always wait: the receiver holds other CPUs' records until then.
    fn send_watermark(&mut self, watermark: u64) {
        if watermark <= self.watermark {
            return;
        }
        let waits = Arc::clone(&self.pools.0.watermarks);
        if waits.load(Ordering::Relaxed) == 0 || self.sender.len() < self.crowded {
            waits.fetch_add(1, Ordering::Relaxed);
            self.send(Stream::Samples, Vec::new(), watermark);
        }
    }
}

/// Returns true if an event has hung up because its target is gone.
///
/// `POLLERR` alone means something else: since Linux 6.15, that a pinned event lost its counter
/// (`perf_poll` in kernel/events/core.c).
fn has_hung_up(events: PollFlags) -> bool {
    events.intersects(PollFlags::HUP | PollFlags::NVAL)
}

pub(super) fn time_of(record: &RawBytes<'_>, layout: &SampleLayout) -> Option<u64> {
    layout.time_of(&RawRecord::parse(*record, layout.endian())?)
}

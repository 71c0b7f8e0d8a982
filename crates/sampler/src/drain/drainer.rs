//! The loop of a drain thread.

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

/// Time between two looks for a free buffer when there is none.
const STARVED: Duration = Duration::from_millis(5);

/// Rounds of fast draining from one look at whether the rings' events have hung up to the next.
const ALL_POLLED: u32 = 64;

/// Batches that one look from elsewhere takes out of each ring, at most. The receiver looks itself, and has others to see to.
const MOST_REMOTE_ROUNDS: u32 = 8;

/// Counts of a drain thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DrainCounts {
    /// True if the thread was bound to its CPU, so that its watermarks are exact.
    pub pinned: bool,
    /// Bytes of sample records sent.
    pub sample_bytes: u64,
    /// Bytes of sideband records sent.
    pub sideband_bytes: u64,
    /// Number of rounds in which samples stayed in the ring because the receiver held every buffer.
    pub starved: u64,
    /// Number of rounds in which sideband stayed in its ring for the same reason.
    pub sideband_starved: u64,
    /// Bytes of traces sent.
    pub trace_bytes: u64,
    /// Bytes dropped because their record sizes were impossible. Not known to happen.
    pub damaged_bytes: u64,
    /// Bytes dropped because the receiver was gone.
    pub unsent_bytes: u64,
    /// True if the CPU went offline, so that there was nothing more to drain.
    pub cpu_went_offline: bool,
}

/// Nanoseconds between the time of a record and its being in the ring, at most, as other CPUs see it. The kernel stamps a
/// record, then copies up to 64 KiB of stack into it, then publishes it.
pub(super) const REMOTE_SLACK: u64 = 1_000_000;

/// Nanoseconds for which a drain thread stays a real-time thread after it was late.
const HURRY: u64 = 2_000_000_000;

/// The thread that drains a ring.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DrainedFrom {
    /// One that is bound to the ring's CPU, if that is allowed: it cannot look while the kernel is in the middle of a record.
    OwnThread,
    /// Any other: see [`REMOTE_SLACK`].
    Elsewhere,
}

/// Whether a drain thread may keep others waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// It becomes a real-time thread once it is late.
    WhenLate,
    /// It is a real-time thread since it was late, last at this time of the records' clock.
    Late(u64),
    /// Its scheduling stays as it is.
    Settled,
}

impl Urgency {
    /// Returns the urgency at the beginning.
    pub(super) fn new(options: &DrainOptions) -> Urgency {
        match options.realtime {
            None => Urgency::WhenLate,
            Some(_) => Urgency::Settled,
        }
    }
}

/// Drainer of a CPU, shared by its own thread and by who drains from elsewhere. `None` once its thread has ended.
pub(super) type SharedDrainer = Arc<Mutex<Option<Drainer>>>;

/// Locks a drainer. A thread that panicked while it held the lock has drained too little, at worst.
pub(super) fn locked(shared: &Mutex<Option<Drainer>>) -> MutexGuard<'_, Option<Drainer>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// State of a drain thread.
pub(super) struct Drainer {
    pub(super) events: Arc<CpuEvents>,
    pub(super) rings: CpuRings,
    /// Trace of the CPU, where it is traced.
    pub(super) trace: Option<TraceDrain>,
    /// Buffers for samples and for sideband.
    pub(super) pools: (BufferPool, BufferPool),
    pub(super) layouts: Layouts,
    pub(super) sender: Sender<Batch>,
    pub(super) stop: Arc<WakeupFlag>,
    /// Clock of the records.
    pub(super) clock: Clock,
    pub(super) batch_bytes: usize,
    pub(super) idle: Duration,
    pub(super) fast_drain: FastDrain,
    /// Index of this thread's wake-up flag in `fast_drain`.
    pub(super) number: usize,
    /// Number of messages in the channel from which on no bare watermarks are added.
    pub(super) crowded: usize,
    pub(super) urgency: Urgency,
    /// The last watermark sent.
    pub(super) watermark: u64,
    pub(super) counts: DrainCounts,
}

/// Layouts by which the records of each ring are read.
#[derive(Clone, Debug)]
pub(super) struct Layouts {
    pub(super) samples: SampleLayout,
    pub(super) sideband: SampleLayout,
    pub(super) dumps: Arc<Dumps>,
    pub(super) bases: StackBases,
}

/// State of the rings after a round, which decides how long to wait for the next one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    /// (Nearly) empty: wait for the kernel.
    Nothing,
    /// More than a batch is left: go on at once.
    More,
    /// Records are left for want of a buffer: wait for the receiver.
    Starved,
}

/// Drains until stopped; afterwards both rings are empty and everything is sent.
pub(super) fn run(shared: &Mutex<Option<Drainer>>) -> DrainCounts {
    let cpu_went_offline = drain_until_stopped(shared);
    // Who looks from elsewhere finds nothing from now on.
    let Some(mut drainer) = locked(shared).take() else {
        return DrainCounts::default();
    };
    drainer.counts.cpu_went_offline = cpu_went_offline;
    drainer.finish();
    drainer.counts
}

/// Drains until stopped, or until the CPU is offline, which it returns.
fn drain_until_stopped(shared: &Mutex<Option<Drainer>>) -> bool {
    let parts = locked(shared).as_ref().map(|drainer| {
        let (events, stop) = (Arc::clone(&drainer.events), Arc::clone(&drainer.stop));
        let (fast_drain, idle) = (drainer.fast_drain.clone(), drainer.idle);
        (events, stop, fast_drain, idle, drainer.number)
    });
    let Some((events, stop, fast_drain, idle, number)) = parts else {
        return false;
    };
    let wakeup = fast_drain.wakeup(number);
    let mut fds = vec![readable(stop.as_fd())];
    fds.extend(wakeup.iter().map(|flag| readable(flag.as_fd())));
    // The descriptors of the rings follow. They leave the list when nothing more can come.
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
        // While it looks every few milliseconds, nothing is to wake it before; asking every event whether it has
        // anything costs more than the look.
        rounds = rounds.wrapping_add(1);
        let polled = match fast_drain.hurries() && !rounds.is_multiple_of(ALL_POLLED) {
            true => first_ring,
            false => fds.len(),
        };
        if wait(&mut fds[..polled], Some(timeout)).is_err() {
            // Out of memory is all that can be (poll(2)); waiting stays right.
            std::thread::sleep(STARVED);
        }
        if !fds[0].revents().is_empty() {
            return false;
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
        if events.watches_cpu && rings().any(has_hung_up) {
            return true;
        }
        // Once every watched task has ended, POLLHUP is there for good, as is POLLERR of a
        // pinned event without a counter: left in the list, it would turn this into a busy
        // loop. What is in the ring is read below.
        if rings().any(|events| has_hung_up(events) || events.contains(PollFlags::ERR)) {
            let mut at = 0;
            fds.retain(|fd| {
                at += 1;
                let events = fd.revents();
                at <= first_ring || !(has_hung_up(events) || events.contains(PollFlags::ERR))
            });
        }
        left = match locked(shared).as_mut() {
            Some(drainer) => drainer.round(DrainedFrom::OwnThread),
            None => return false,
        };
    }
}

impl Drainer {
    /// Drains both rings from another thread, as far as there are buffers, and sends what is in them.
    pub(super) fn drain_remotely(&mut self) {
        for _ in 0..MOST_REMOTE_ROUNDS {
            if self.round(DrainedFrom::Elsewhere) != Left::More {
                break;
            }
        }
    }

    /// Makes the calling thread, which drains this ring, a real-time thread if it comes so late that half of the ring is
    /// full, until it has been in time for a while. Its nice value is no help against threads of other scheduling groups
    /// (`sched_autogroup`, control groups).
    fn hurry_if_late(&mut self) {
        let samples = &self.rings.samples;
        let is_late = samples.unread() >= samples.size() / 2;
        self.urgency = match self.urgency {
            Urgency::WhenLate if is_late => {
                match scheduling::make_realtime(scheduling::LATE_DRAIN) {
                    Ok(()) => Urgency::Late(self.clock.now_ns()),
                    // Where it is not allowed, a larger ring is all that helps.
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

    /// Drains both rings once.
    fn round(&mut self, from: DrainedFrom) -> Left {
        if from == DrainedFrom::OwnThread {
            self.hurry_if_late();
        }
        let now = match from {
            // Without exact watermarks the receiver leaves the slack.
            DrainedFrom::Elsewhere if self.counts.pinned => {
                self.clock.now_ns().saturating_sub(REMOTE_SLACK)
            }
            _ => self.clock.now_ns(),
        };
        let sideband = self.next_batch(Stream::Sideband);
        let samples = self.next_batch(Stream::Samples);
        self.drain_trace(TraceDrain::drain);
        let watermark = self.reached(now);
        let left = match (self.rings.sideband.unread(), self.rings.samples.unread()) {
            _ if sideband.is_none() || samples.is_none() => Left::Starved,
            _ if self.trace.as_ref().is_some_and(TraceDrain::is_filling) => Left::More,
            // Large records fill a batch soon.
            (_, samples)
                if samples > 0 && (from == DrainedFrom::Elsewhere || self.fast_drain.hurries()) =>
            {
                Left::More
            }
            // Little has come meanwhile; it can wait for its wake-up.
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
                // What comes after this batch is as old as what is in it.
                self.send(early, early_bytes, self.watermark);
                self.send(stream, bytes, watermark);
            }
            _ => self.send_watermark(watermark),
        }
        left
    }

    /// Sends the trace of the CPU, before the records that speak of it.
    fn drain_trace(&mut self, drain: impl FnOnce(&mut TraceDrain) -> usize) {
        let sent = self.trace.as_mut().map_or(0, drain);
        self.counts.trace_bytes += sent as u64;
    }

    /// Drains everything that is left once no event is enabled any more.
    ///
    /// It sends no more than the rings held at its start, so that it ends, and finds places in the
    /// channel, even if an event could not be disabled.
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

    /// Returns the watermark after a round that began at `now`: `now`, unless records older than
    /// that stayed in a ring.
    fn reached(&self, now: u64) -> u64 {
        let waiting = [Stream::Sideband, Stream::Samples];
        let oldest = waiting.into_iter().filter_map(|stream| self.oldest(stream));
        // Watermarks never fall, whatever a record says.
        oldest.fold(now, u64::min).max(self.watermark)
    }

    /// Returns the time of the oldest record that is still in a ring; 0 for a record without a
    /// time, which keeps the watermark where it is.
    fn oldest(&self, stream: Stream) -> Option<u64> {
        let (ring, layout) = match stream {
            Stream::Samples => (&self.rings.samples, &self.layouts.samples),
            Stream::Sideband => (&self.rings.sideband, &self.layouts.sideband),
        };
        // Without one there may be damage: the next drain throws it away.
        let record = ring.peek()?;
        Some(time_of(&record, layout).unwrap_or(0))
    }

    /// Takes a batch from a ring; empty if there is nothing, `None` if there is no buffer for it.
    fn next_batch(&mut self, stream: Stream) -> Option<Vec<u8>> {
        let ring = self.ring(stream);
        if ring.unread() == 0 {
            return Some(Vec::new());
        }
        // Once buffers run low, only full ones are sent: the allowance is one of bytes, not
        // of looks at the ring. Copies of stacks are cut to some tenth of the room that they have in the ring.
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

    /// Fills a buffer from a ring; returns how many bytes left the ring.
    fn drain(&mut self, stream: Stream, bytes: &mut Vec<u8>) -> usize {
        let limit = match stream {
            Stream::Samples => self.batch_bytes,
            Stream::Sideband => SIDEBAND_BATCH,
        };
        let drained = match stream {
            Stream::Samples if !self.layouts.dumps.is_empty() => {
                // A buffer that grew by doubling would keep twice the room.
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
        // There is a place for every buffer, so a full channel cannot be; should it,
        // it is counted, and no thread stands still.
        if let Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) =
            self.sender.try_send(batch)
        {
            self.counts.unsent_bytes += batch.bytes.len() as u64;
        }
    }

    /// Sends a watermark without records. A receiver that is behind does without: any later one
    /// says more. But one of each CPU may always wait: what others send is held until this CPU's watermark comes.
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

/// Returns whether an event has hung up: what it watches is gone.
///
/// `POLLERR` alone is another matter: since Linux 6.15 it tells that a pinned event could not be
/// kept on a counter (`perf_poll` in kernel/events/core.c).
fn has_hung_up(events: PollFlags) -> bool {
    events.intersects(PollFlags::HUP | PollFlags::NVAL)
}

/// Returns the time of a record.
pub(super) fn time_of(record: &RawBytes<'_>, layout: &SampleLayout) -> Option<u64> {
    layout.time_of(&RawRecord::parse(*record, layout.endian())?)
}

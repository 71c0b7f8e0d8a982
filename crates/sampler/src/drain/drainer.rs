//! The loop of a drain thread.

use super::batch::{Batch, Stream};
use super::buffers::Stock;
use super::haste::Haste;
use super::tops::StackTops;
use super::trim::{self, Dumps};
use crate::open::{CpuEvents, CpuRings};
use crate::ring::Ring;
use crate::sys::{self, Flag};
use crossbeam_channel::{Sender, TrySendError};
use rprof_records::{Header, RawBytes, RecordType, SampleLayout};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Duration;

/// How soon to look for a free buffer again when there was none.
const STARVED: Duration = Duration::from_millis(5);

/// Most bytes in a sideband batch.
pub(super) const SIDEBAND_BATCH: usize = 64 << 10;

/// What a drain thread did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DrainCounts {
    /// Whether the thread was bound to its CPU, so that its watermarks are exact.
    pub pinned: bool,
    /// Bytes of sample records sent.
    pub sample_bytes: u64,
    /// Bytes of sideband records sent.
    pub sideband_bytes: u64,
    /// How often samples had to stay in the ring because the receiver had every buffer.
    pub starved: u64,
    /// How often sideband had to.
    pub sideband_starved: u64,
    /// Bytes thrown away because their record sizes were impossible. Not known to happen.
    pub damaged_bytes: u64,
    /// Bytes thrown away because the receiver was gone.
    pub unsent_bytes: u64,
    /// Whether the CPU went offline, so that there is nothing more to drain.
    pub cpu_went_offline: bool,
}

/// The state of a drain thread.
pub(super) struct Drainer {
    pub(super) events: Arc<CpuEvents>,
    pub(super) rings: CpuRings,
    pub(super) stocks: (Stock, Stock),
    pub(super) layouts: Layouts,
    pub(super) sender: Sender<Batch>,
    pub(super) stop: Arc<Flag>,
    pub(super) batch_bytes: usize,
    pub(super) idle: Duration,
    /// Its number there is `number`.
    pub(super) haste: Haste,
    pub(super) number: usize,
    /// Messages in the channel from which on no bare watermarks are added.
    pub(super) crowded: usize,
    /// The last watermark sent.
    pub(super) watermark: u64,
    pub(super) counts: DrainCounts,
}

/// Where the time stands in the records of each ring.
#[derive(Clone)]
pub(super) struct Layouts {
    pub(super) samples: SampleLayout,
    pub(super) sideband: SampleLayout,
    pub(super) dumps: Arc<Dumps>,
    pub(super) tops: StackTops,
}

/// What a round left behind, and so how long to wait for the next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Nothing: wait for the kernel.
    Nothing,
    /// More than a batch: go on at once.
    More,
    /// Records without a buffer: wait for the receiver.
    Starved,
}

impl Drainer {
    /// Drains until stopped; afterwards both rings are empty and everything is sent.
    pub(super) fn run(mut self) -> DrainCounts {
        let ring_fds = [self.events.samples.as_fd(), self.events.sideband.as_fd()];
        let [samples, sideband] = ring_fds.map(|fd| sys::readable(fd.as_raw_fd()));
        // A negative descriptor is passed over.
        let bell = self.haste.bell(self.number).map_or(-1, Flag::fd);
        let flags = [self.stop.fd(), bell].map(sys::readable);
        let mut fds = [flags[0], flags[1], samples, sideband];
        let mut left = Left::Nothing;
        loop {
            let timeout = match left {
                Left::Nothing => self.haste.wait(self.idle),
                Left::More => Duration::ZERO,
                Left::Starved => STARVED.min(self.idle),
            };
            if sys::poll(&mut fds, Some(timeout)).is_err() {
                // Out of memory is all that can be (poll(2)); waiting stays right.
                std::thread::sleep(STARVED);
            }
            if fds[0].revents != 0 {
                break;
            }
            if fds[1].revents != 0
                && let Some(bell) = self.haste.bell(self.number)
            {
                bell.lower();
            }
            if self.events.watches_cpu && fds[2..].iter().any(has_hung_up) {
                self.counts.cpu_went_offline = true;
                break;
            }
            for fd in &mut fds[2..] {
                // Once every watched task has ended, POLLHUP is there for good: left in the
                // list, it would turn this into a busy loop. What is in the ring is read below.
                if has_hung_up(fd) {
                    fd.fd = -1;
                }
            }
            left = self.round();
        }
        self.finish();
        self.counts
    }

    /// One look at both rings.
    fn round(&mut self) -> Left {
        let now = sys::monotonic_ns();
        let sideband = self.take(Stream::Sideband);
        let samples = self.take(Stream::Samples);
        let watermark = self.reached(now);
        let left = match (self.rings.sideband.unread(), self.rings.samples.unread()) {
            _ if sideband.is_none() || samples.is_none() => Left::Starved,
            // Large records fill a batch soon.
            (_, samples) if samples > 0 && self.haste.is_on() => Left::More,
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

    /// Everything that is left once no event is enabled any more.
    ///
    /// It sends no more than the rings held at its start, so that it ends, and finds
    /// places in the channel, even if an event could not be disabled.
    fn finish(&mut self) {
        for stream in [Stream::Sideband, Stream::Samples] {
            let mut left = self.ring(stream).unread();
            while left > 0 {
                let mut bytes = self.stock(stream).take().unwrap_or_default();
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

    /// The watermark after a look that began at `now`: `now`, unless records older
    /// than that had to stay in a ring.
    fn reached(&self, now: u64) -> u64 {
        let waiting = [Stream::Sideband, Stream::Samples];
        let oldest = waiting.into_iter().filter_map(|stream| self.oldest(stream));
        // Watermarks never fall, whatever a record says.
        oldest.fold(now, u64::min).max(self.watermark)
    }

    /// The time of the oldest record that is still in a ring.
    ///
    /// 0 for a record without a time, which keeps the watermark where it is.
    fn oldest(&self, stream: Stream) -> Option<u64> {
        let (ring, layout) = match stream {
            Stream::Samples => (&self.rings.samples, &self.layouts.samples),
            Stream::Sideband => (&self.rings.sideband, &self.layouts.sideband),
        };
        // Without one there may be damage: the next drain throws it away.
        let record = ring.peek()?;
        Some(time_of(&record, layout).unwrap_or(0))
    }

    /// A batch from a ring; empty if there is nothing, `None` if there is no buffer for it.
    fn take(&mut self, stream: Stream) -> Option<Vec<u8>> {
        let ring = self.ring(stream);
        if ring.unread() == 0 {
            return Some(Vec::new());
        }
        // Once buffers run low, only full ones are sent: the allowance is one of bytes, not
        // of looks at the ring.
        let few = ring.unread() < (ring.size() / 4).min(SIDEBAND_BATCH);
        if stream == Stream::Sideband && few && self.stock(stream).is_low() {
            return None;
        }
        let Some(mut bytes) = self.stock(stream).take() else {
            match stream {
                Stream::Samples => self.counts.starved += 1,
                Stream::Sideband => self.counts.sideband_starved += 1,
            }
            return None;
        };
        self.drain(stream, &mut bytes);
        Some(bytes)
    }

    /// Fills a buffer from a ring; answers how many bytes left the ring.
    fn drain(&mut self, stream: Stream, bytes: &mut Vec<u8>) -> usize {
        let limit = match stream {
            Stream::Samples => self.batch_bytes,
            Stream::Sideband => SIDEBAND_BATCH,
        };
        let drained = match stream {
            Stream::Samples if !self.layouts.dumps.is_empty() => {
                // A buffer that grew by doubling would keep twice the room.
                bytes.reserve_exact(limit);
                let Layouts { dumps, tops, .. } = &self.layouts;
                self.rings.samples.drain_with(|record| {
                    let room = limit - bytes.len().min(limit);
                    let room = if bytes.is_empty() { usize::MAX } else { room };
                    trim::put(record, dumps, tops, bytes, room)
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

    fn stock(&self, stream: Stream) -> &Stock {
        match stream {
            Stream::Samples => &self.stocks.0,
            Stream::Sideband => &self.stocks.1,
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

    /// Tells a watermark without records. A receiver that is behind does without: any
    /// later one says more.
    fn send_watermark(&mut self, watermark: u64) {
        if watermark > self.watermark && self.sender.len() < self.crowded {
            self.send(Stream::Samples, Vec::new(), watermark);
        }
    }
}

/// Whether nothing more will come of an event: what it watches is gone.
fn has_hung_up(fd: &libc::pollfd) -> bool {
    fd.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
}

/// The time of a record.
fn time_of(record: &RawBytes<'_>, layout: &SampleLayout) -> Option<u64> {
    let header = Header::parse(record, layout.endian())?;
    let body = record.get_from(Header::SIZE)?;
    match header.kind {
        RecordType::SAMPLE => layout.sample_time(&body),
        _ => layout.trailer_time(&body),
    }
}

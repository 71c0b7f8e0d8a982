//! [`Sampler`]: returns the records of one ring buffer, one by one.

use crate::builder::Builder;
use crate::decoder::{RecordDecoder, RingRecord};
use crate::errno::{Errno, ErrnoText};
use crate::error::{MapRingError, OpenEventError};
use crate::fd::PerfFd;
use crate::limits::Limits;
use crate::ring::Ring;
use crate::wait::{Woken, wait};
use rprof_records::{DecodeError, Endian, RawBytes, RawRecord, SampleType};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Reader of the records of one ring buffer, in the order of writing.
///
/// ```no_run
/// use rprof_perf_event::{Builder, Next, Sampler, Software};
/// use rprof_records::{Record, SampleType};
/// use std::time::Duration;
///
/// let clock = Builder::software(Software::CPU_CLOCK)
///     .thread(4711)
///     .period(1_000_000)
///     .sample(SampleType::IP)
///     .wake_after_samples(1);
/// let mut sampler = Sampler::open(&clock, 64 << 10)?;
/// sampler.fd().enable()?;
/// while let Next::Record(next) = sampler.next(Some(Duration::from_secs(1)))? {
///     if let Record::Sample(sample) = next.record {
///         println!("{:#x}", sample.ip().unwrap_or(0));
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Sampler {
    ring: Ring,
    /// The first one owns the ring buffer.
    events: Vec<PerfFd>,
    decoder: RecordDecoder,
    taken: Vec<u8>,
    identified: bool,
}

/// Result of [`Sampler::next`].
#[derive(Clone, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "it is the usual one, and lives for a moment"
)]
pub enum Next<'a> {
    /// The oldest unread record.
    Record(RingRecord<'a>),
    /// The timeout expired.
    TimedOut,
    /// The target has exited, so no more records will come.
    Ended,
}

/// Failure of a sampler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// The kernel refused the event.
    #[error(transparent)]
    Open(#[from] OpenEventError),
    /// The kernel refused the ring buffer.
    #[error(transparent)]
    Map(#[from] MapRingError),
    /// An ioctl or a wait failed.
    #[error("cannot {what}: {}", ErrnoText(*errno))]
    Control {
        /// Attempted action, as in "cannot …".
        what: &'static str,
        /// Error of the kernel.
        errno: Errno,
    },
    /// Several events share the ring buffer, but this one's records have no id.
    #[error(
        "event `{event}` lacks IDENTIFIER in its samples; events that share a ring buffer need it"
    )]
    NotIdentified {
        /// Name of the event in messages.
        event: String,
    },
    /// The event is pinned but has no counter until it is enabled again. Linux reports this since
    /// 6.15.
    #[error("the event is pinned, and the kernel could not keep it on a counter")]
    PinnedWithoutCounter,
    /// The ring buffer contained invalid data, which was dropped.
    #[error("the ring buffer held {bytes} bytes that are not records")]
    Damaged {
        /// Dropped bytes.
        bytes: usize,
    },
    /// A record contradicts its event's layout.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl Sampler {
    /// Opens an event, and maps a ring buffer of `ring_bytes` for it, a power of two of pages.
    ///
    /// # Errors
    /// Returns [`SampleError`].
    pub fn open(event: &Builder, ring_bytes: usize) -> Result<Sampler, SampleError> {
        let fd = event.open_fd(None)?;
        Sampler::of_fd(fd, event, ring_bytes)
    }

    /// Maps a ring buffer for an open event, which `event` must describe.
    ///
    /// # Errors
    /// Returns [`SampleError`].
    pub fn of_fd(fd: PerfFd, event: &Builder, ring_bytes: usize) -> Result<Sampler, SampleError> {
        let ring = map_ring(&fd, ring_bytes)?;
        Ok(Sampler {
            ring,
            events: vec![fd],
            decoder: RecordDecoder::new(event.attr()),
            taken: Vec::new(),
            identified: is_identified(event),
        })
    }

    /// Opens another event with output to the same ring buffer, for the same thread or CPU. Returns
    /// its number, which is in its records.
    ///
    /// # Errors
    /// Returns [`SampleError`].
    pub fn add(&mut self, event: &Builder) -> Result<usize, SampleError> {
        if !self.identified || !is_identified(event) {
            let event = event.event_name().to_owned();
            return Err(SampleError::NotIdentified { event });
        }
        let fd = event.open_fd(None)?;
        let control = |what| move |errno| SampleError::Control { what, errno };
        fd.redirect_to(&self.events[0])
            .map_err(control("redirect the event's records"))?;
        let id = fd.id().map_err(control("ask for the event's id"))?;
        self.decoder.add(id, event.attr());
        self.events.push(fd);
        Ok(self.events.len() - 1)
    }

    /// Returns the descriptor of the first event.
    pub fn fd(&self) -> &PerfFd {
        &self.events[0]
    }

    /// Returns the descriptors of all events, by number.
    pub fn fds(&self) -> &[PerfFd] {
        &self.events
    }

    /// Returns the ring.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Returns the next record. Blocks until there is one, at most for `timeout`; without a
    /// timeout, forever.
    ///
    /// The kernel wakes a reader after a number of [samples](Builder::wake_after_samples) or
    /// [bytes](Builder::wake_after_bytes). Other records are found when the timeout expires.
    ///
    /// # Errors
    /// Returns [`SampleError`]. After [`SampleError::Damaged`] and [`SampleError::Decode`], the
    /// next call continues after the invalid data.
    // A record borrows from the sampler, so this is no iterator.
    #[allow(
        clippy::should_implement_trait,
        reason = "it lends, which no iterator can"
    )]
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Next<'_>, SampleError> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if self.take()? {
                break;
            }
            let woken = wait([self.events[0].as_fd()], deadline);
            let woken = woken.map_err(|errno| SampleError::Control {
                what: "wait for records",
                errno,
            })?;
            match woken {
                Woken::Readable => {}
                // Records may arrive without a wake-up.
                _ if self.take()? => break,
                Woken::TimedOut => return Ok(Next::TimedOut),
                Woken::HungUp => return Ok(Next::Ended),
                Woken::InError => return Err(SampleError::PinnedWithoutCounter),
            }
        }
        let raw = RawRecord::parse(RawBytes::from(&self.taken[..]), Endian::NATIVE);
        let raw = raw.ok_or(SampleError::Damaged {
            bytes: self.taken.len(),
        })?;
        Ok(Next::Record(self.decoder.decode(&raw)?))
    }

    /// Reads the oldest record. Returns false if there is none.
    fn take(&mut self) -> Result<bool, SampleError> {
        take_record(&mut self.ring, &mut self.taken)
    }
}

/// Reads the oldest record of a ring buffer into `taken`. Returns false if there is none.
pub(crate) fn take_record(ring: &mut Ring, taken: &mut Vec<u8>) -> Result<bool, SampleError> {
    taken.clear();
    let drained = ring.drain_with(|record| {
        let first = taken.is_empty();
        if first {
            record.append_to(taken);
        }
        first
    });
    match (taken.is_empty(), drained.damaged) {
        (true, bytes @ 1..) => Err(SampleError::Damaged { bytes }),
        (empty, _) => Ok(!empty),
    }
}

pub(crate) fn map_ring(fd: &PerfFd, bytes: usize) -> Result<Ring, MapRingError> {
    Ring::map(fd.as_fd(), bytes)
        .map_err(|errno| MapRingError::new(None, bytes, errno, &Limits::read()))
}

fn is_identified(event: &Builder) -> bool {
    event.attr().sample_type.contains(SampleType::IDENTIFIER)
}

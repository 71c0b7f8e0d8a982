//! [`Sampler`]: one ring, whose records come one by one.

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

/// Reader of the records of one ring, in the order in which the kernel wrote them.
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
    /// Events of the ring; the first is that which it was mapped for.
    events: Vec<PerfFd>,
    decoder: RecordDecoder,
    /// Record that was taken last.
    taken: Vec<u8>,
    identified: bool,
}

/// Answer of [`Sampler::next`].
#[derive(Clone, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "it is the usual one, and lives for a moment"
)]
pub enum Next<'a> {
    /// The oldest record that was not read yet.
    Record(RingRecord<'a>),
    /// None came in time.
    TimedOut,
    /// None will come any more: what was watched has ended.
    Ended,
}

/// Failure of a sampler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// The event was refused.
    #[error(transparent)]
    Open(#[from] OpenEventError),
    /// The ring was refused.
    #[error(transparent)]
    Map(#[from] MapRingError),
    /// An ioctl or a wait was refused.
    #[error("cannot {what}: {}", ErrnoText(*errno))]
    Control {
        /// Attempt, as in "cannot …".
        what: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
    /// Several events share the ring, and this one's records cannot be told from others.
    #[error(
        "event `{event}` lacks IDENTIFIER in its samples; events that share a ring buffer need it"
    )]
    NotIdentified {
        /// The event, as the caller calls it.
        event: String,
    },
    /// The event is pinned and could not be kept on a counter: it takes no samples until it is enabled
    /// again. Linux tells since 6.15.
    #[error("the event is pinned, and the kernel could not keep it on a counter")]
    PinnedWithoutCounter,
    /// The ring held what is no record; so many bytes were thrown away.
    #[error("the ring buffer held {bytes} bytes that are not records")]
    Damaged {
        /// Bytes that were thrown away.
        bytes: usize,
    },
    /// A record does not fit its event's layout.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl Sampler {
    /// Opens an event, and maps a ring of `ring_bytes` for it: a power of two of pages.
    ///
    /// # Errors
    /// [`SampleError`].
    pub fn open(event: &Builder, ring_bytes: usize) -> Result<Sampler, SampleError> {
        let fd = event.open_fd(None)?;
        Sampler::of_fd(fd, event, ring_bytes)
    }

    /// Maps a ring for an event that is open, as `event` says.
    ///
    /// # Errors
    /// [`SampleError`].
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

    /// Opens another event whose records go to the same ring: of the same thread, or of the same CPU. Returns
    /// its number, which its records bear.
    ///
    /// # Errors
    /// [`SampleError`].
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

    /// Returns the descriptors of all events, in the order of their numbers.
    pub fn fds(&self) -> &[PerfFd] {
        &self.events
    }

    /// Returns the ring.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Returns the next record. Blocks until there is one, for `timeout` at most; without a
    /// timeout for ever.
    ///
    /// The kernel wakes a reader after [as many samples](Builder::wake_after_samples) or
    /// [bytes](Builder::wake_after_bytes) as the event says; what came without a wake-up is found at the
    /// latest when the time is over.
    ///
    /// # Errors
    /// [`SampleError`]; after [`SampleError::Damaged`] and [`SampleError::Decode`] the next call goes on
    /// behind what was wrong.
    // No iterator: a record borrows from the sampler.
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
                // Records may have come without a wake-up.
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

    /// Takes the oldest record out of the ring. Returns false if there is none.
    fn take(&mut self) -> Result<bool, SampleError> {
        take_record(&mut self.ring, &mut self.taken)
    }
}

/// Takes the oldest record out of a ring, into `taken`. Returns false if there is none.
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

/// Maps a ring, with errors that explain themselves.
pub(crate) fn map_ring(fd: &PerfFd, bytes: usize) -> Result<Ring, MapRingError> {
    Ring::map(fd.as_fd(), bytes)
        .map_err(|errno| MapRingError::new(None, bytes, errno, &Limits::read()))
}

fn is_identified(event: &Builder) -> bool {
    event.attr().sample_type.contains(SampleType::IDENTIFIER)
}

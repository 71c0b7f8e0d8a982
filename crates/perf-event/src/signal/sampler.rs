//! [`SignalSampler`]: collects samples on a thread that overflow signals wake.

use super::info::OverflowCode;
use super::overflow::OverflowSignals;
use crate::builder::Builder;
use crate::decoder::{RecordDecoder, RingRecord};
use crate::errno::Errno;
use crate::fd::PerfFd;
use crate::ring::Ring;
use crate::sampler::{SampleError, map_ring};
use rprof_records::DecodeError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum time between checks of the stop flag.
const LOOK: Duration = Duration::from_millis(20);

/// Sampler of one event, notified of each overflow by SIGIO.
///
/// No code runs in a signal handler: a separate thread receives the signal and reads the ring
/// buffer.
#[derive(Debug)]
pub struct SignalSampler {
    fd: Arc<PerfFd>,
    decoder: RecordDecoder,
    stop: Arc<AtomicBool>,
    listener: Option<JoinHandle<Result<Heard, Errno>>>,
}

#[derive(Debug, Default)]
struct Heard {
    bytes: Vec<u8>,
    overflows: u64,
    hang_ups: u64,
    dropped: u64,
}

/// Samples and other records of a [`SignalSampler`], with counts of signals.
#[derive(Debug)]
pub struct SignalSamples {
    decoder: RecordDecoder,
    heard: Heard,
}

impl SignalSampler {
    /// Opens an event, by default for the calling thread, with a ring buffer of `ring_bytes`, a
    /// power of two of pages. Keeps at most `most_bytes` of records.
    ///
    /// # Errors
    /// Returns [`SampleError`].
    pub fn open(
        event: &Builder,
        ring_bytes: usize,
        most_bytes: usize,
    ) -> Result<SignalSampler, SampleError> {
        // Counts the calling thread, not the listening one.
        let fd = Arc::new(event.open_fd(None)?);
        let ring = map_ring(&fd, ring_bytes)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = mpsc::channel();
        let listener = {
            let (fd, stop) = (fd.clone(), stop.clone());
            move || {
                let signals = OverflowSignals::io().and_then(|mut signals| {
                    signals.watch(&fd)?;
                    Ok(signals)
                });
                let signals = match signals {
                    Ok(signals) => signals,
                    Err(errno) => {
                        let _ = ready.send(Err(errno));
                        return Err(errno);
                    }
                };
                let _ = ready.send(Ok(()));
                listen(&signals, ring, most_bytes, &stop)
            }
        };
        let control = |errno| SampleError::Control {
            what: "listen for signals",
            errno,
        };
        let listener = std::thread::Builder::new()
            .name("overflow signals".to_owned())
            .spawn(listener)
            .map_err(|_| control(Errno::AGAIN))?;
        is_ready.recv().unwrap_or(Err(Errno::IO)).map_err(control)?;
        Ok(SignalSampler {
            fd,
            decoder: RecordDecoder::new(event.attr()),
            stop,
            listener: Some(listener),
        })
    }

    /// Returns the event's descriptor.
    pub fn fd(&self) -> &PerfFd {
        &self.fd
    }

    /// Disables the event, and returns the samples.
    ///
    /// # Errors
    /// Returns [`SampleError::Control`].
    pub fn finish(mut self) -> Result<SignalSamples, SampleError> {
        let control = |errno| SampleError::Control {
            what: "listen for signals",
            errno,
        };
        self.fd.disable().map_err(control)?;
        let heard = self.end().unwrap_or(Err(Errno::IO)).map_err(control)?;
        Ok(SignalSamples {
            decoder: self.decoder.clone(),
            heard,
        })
    }

    fn end(&mut self) -> Option<Result<Heard, Errno>> {
        self.stop.store(true, Ordering::Release);
        self.listener.take()?.join().ok()
    }
}

impl Drop for SignalSampler {
    fn drop(&mut self) {
        // After `finish`, no error is left.
        let _ = self.end();
    }
}

/// Reads the ring buffer at each signal.
fn listen(
    signals: &OverflowSignals,
    mut ring: Ring,
    most_bytes: usize,
    stop: &AtomicBool,
) -> Result<Heard, Errno> {
    let mut heard = Heard::default();
    loop {
        // Before the last read of the ring buffer.
        let last = stop.load(Ordering::Acquire);
        match signals.wait(Some(if last { Duration::ZERO } else { LOOK }))? {
            Some(overflow) if overflow.code == OverflowCode::HUP => heard.hang_ups += 1,
            Some(_) => heard.overflows += 1,
            None if last => {
                take(&mut ring, &mut heard, most_bytes);
                return Ok(heard);
            }
            None => {}
        }
        take(&mut ring, &mut heard, most_bytes);
    }
}

fn take(ring: &mut Ring, heard: &mut Heard, most_bytes: usize) {
    ring.drain_with(|record| {
        match heard.bytes.len() + record.len() <= most_bytes {
            true => record.append_to(&mut heard.bytes),
            false => heard.dropped += 1,
        }
        true
    });
}

impl SignalSamples {
    /// Returns all records, oldest first.
    pub fn records(&self) -> impl Iterator<Item = Result<RingRecord<'_>, DecodeError>> {
        self.decoder.records(&self.heard.bytes)
    }

    /// Returns the number of overflow signals, lower than the number of samples: at most one SIGIO
    /// is pending.
    pub fn overflows(&self) -> u64 {
        self.heard.overflows
    }

    /// Returns the number of signals for an event's last overflow.
    pub fn hang_ups(&self) -> u64 {
        self.heard.hang_ups
    }

    /// Returns the number of records dropped for lack of room.
    pub fn dropped(&self) -> u64 {
        self.heard.dropped
    }
}

//! [`ProcessSampler`]: samples of all threads of a process.

use crate::builder::Builder;
use crate::decoder::RecordDecoder;
use crate::errno::Errno;
use crate::error::OpenEventError;
use crate::fd::PerfFd;
use crate::process::{ProcessError, open_threads};
use crate::ring::Ring;
use crate::sampler::{Next, SampleError, map_ring, take_record};
use crate::wait::{Woken, wait};
use rprof_events::cpus;
use rprof_records::{Endian, RawBytes, RawRecord, SampleType};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Maximum attempts if threads start during opening.
const ROUNDS: usize = 20;

/// Maximum time of one wait: the threads' end causes no wake-up.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// Samples all threads of a process, and all threads and child processes that they start.
///
/// Each CPU has its own ring buffer, as the kernel requires for inherited events. Records are in
/// order only within a CPU.
#[derive(Debug)]
pub struct ProcessSampler {
    rings: Vec<Ring>,
    /// Events by thread and CPU.
    threads: Vec<Vec<PerfFd>>,
    decoder: RecordDecoder,
    taken: Vec<u8>,
    turn: usize,
}

impl ProcessSampler {
    /// Opens `event` for each thread of a process on each CPU, with [`inherit`](Builder::inherit).
    /// Maps a ring buffer of `ring_bytes` for each CPU, a power of two of pages.
    ///
    /// # Errors
    /// Returns [`SampleError`]; [`ProcessError::NoSuchProcess`] becomes `ESRCH` in
    /// [`SampleError::Control`].
    pub fn open(pid: u32, event: &Builder, ring_bytes: usize) -> Result<Self, SampleError> {
        let control = |what, errno| SampleError::Control { what, errno };
        let no_list = |_| control("list the CPUs", Errno::NOENT);
        let cpus = cpus::online().map_err(no_list)?;
        let mut event = event.clone().inherit(true);
        event.attr_mut().sample_type |= SampleType::IDENTIFIER;
        let on_all_cpus = |tid| -> Result<Vec<PerfFd>, OpenEventError> {
            let on = |cpu: &u32| event.clone().thread(tid).cpu(*cpu).open_fd(None);
            cpus.iter().map(on).collect()
        };
        let mut round = 0;
        let threads = loop {
            round += 1;
            match open_threads(pid, on_all_cpus) {
                Ok((_, false)) if round < ROUNDS => {}
                Ok((threads, _)) => break threads,
                Err(ProcessError::Open(error)) => return Err(error.into()),
                Err(ProcessError::NoSuchProcess { .. }) => {
                    return Err(control("find the process", Errno::SRCH));
                }
            }
        };
        let mut rings = Vec::new();
        let mut decoder = RecordDecoder::new(event.attr());
        for (cpu, first) in threads[0].iter().enumerate() {
            rings.push(map_ring(first, ring_bytes)?);
            for thread in &threads[1..] {
                let redirected = thread[cpu].redirect_to(first);
                redirected.map_err(|errno| control("redirect the event's records", errno))?;
            }
            let id = first.id();
            decoder.add(
                id.map_err(|errno| control("ask for the event's id", errno))?,
                event.attr(),
            );
        }
        Ok(ProcessSampler {
            rings,
            threads,
            decoder,
            taken: Vec::new(),
            turn: 0,
        })
    }

    /// Returns the number of opened threads.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Starts sampling.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn enable(&self) -> Result<(), Errno> {
        self.threads.iter().flatten().try_for_each(PerfFd::enable)
    }

    /// Stops sampling. Earlier samples can still be read.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn disable(&self) -> Result<(), Errno> {
        self.threads.iter().flatten().try_for_each(PerfFd::disable)
    }

    /// Returns the next record; its [`RingRecord::event`](crate::RingRecord::event) is meaningless.
    /// Blocks until there is one, at most for `timeout`. Without a timeout, blocks until the
    /// process has exited.
    ///
    /// # Errors
    /// Returns [`SampleError`], like [`Sampler::next`](crate::Sampler::next).
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
            let soon = Instant::now() + LONGEST_WAIT;
            let until = deadline.map_or(soon, |deadline| deadline.min(soon));
            let fds = self.threads.iter().flatten().map(AsFd::as_fd);
            let woken = wait(fds, Some(until)).map_err(|errno| SampleError::Control {
                what: "wait for records",
                errno,
            })?;
            match woken {
                Woken::Readable => {}
                // Records may arrive without a wake-up.
                _ if self.take()? => break,
                Woken::TimedOut if deadline.is_none_or(|deadline| Instant::now() < deadline) => {}
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

    /// Reads a record from the next ring buffer that has one.
    fn take(&mut self) -> Result<bool, SampleError> {
        for _ in 0..self.rings.len() {
            self.turn = (self.turn + 1) % self.rings.len();
            if take_record(&mut self.rings[self.turn], &mut self.taken)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

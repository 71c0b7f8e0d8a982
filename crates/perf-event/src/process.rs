//! [`ProcessCounter`]: all threads of a process that runs already.

use crate::builder::Builder;
use crate::errno::Errno;
use crate::error::OpenEventError;
use crate::fd::PerfFd;
use crate::reading::{ReadError, Reading};
use rprof_launch::procfs::Procfs;

/// Rounds in which the threads of a process may change while they are opened.
const ROUNDS: usize = 50;

/// One event for each thread of a process, and for all threads and processes that they start later.
#[derive(Debug)]
pub struct ProcessCounter {
    threads: Vec<PerfFd>,
    settled: bool,
}

/// Failure to watch a process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// There is no such process, or it has ended.
    #[error("process {pid} does not exist or has ended")]
    NoSuchProcess {
        /// Id of the process.
        pid: u32,
    },
    /// The event was refused for a thread.
    #[error(transparent)]
    Open(#[from] OpenEventError),
}

impl ProcessCounter {
    /// Opens `event` for each thread of the process, with
    /// [`inherit`](Builder::inherit).
    ///
    /// Threads are listed before and after they are opened, and all are opened anew if one was born
    /// meanwhile, since nobody can tell whether such a thread inherited the event.
    ///
    /// # Errors
    /// [`ProcessError`].
    pub fn open(pid: u32, event: &Builder) -> Result<ProcessCounter, ProcessError> {
        let mut round = 0;
        loop {
            round += 1;
            let (threads, settled) = open_threads(pid, |tid| {
                event.clone().inherit(true).thread(tid).open_fd(None)
            })?;
            if settled || round == ROUNDS {
                return Ok(ProcessCounter { threads, settled });
            }
        }
    }

    /// Returns false if threads kept being born while they were opened, so that some may be missing.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Returns the number of threads that were opened.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Starts counting in all threads.
    ///
    /// # Errors
    /// The kernel's.
    pub fn enable(&self) -> Result<(), Errno> {
        self.threads.iter().try_for_each(PerfFd::enable)
    }

    /// Stops counting in all threads.
    ///
    /// # Errors
    /// The kernel's.
    pub fn disable(&self) -> Result<(), Errno> {
        self.threads.iter().try_for_each(PerfFd::disable)
    }

    /// Reads the sum of all threads, of those that have ended as well.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(&self) -> Result<Reading, ReadError> {
        let mut readings = self.threads.iter().map(PerfFd::reading);
        let mut sum = readings.next().unwrap_or(Ok(Reading::default()))?;
        for reading in readings {
            sum.add(reading?);
        }
        Ok(sum)
    }
}

/// Opens something for each thread of a process. Returns false with it if there are threads
/// now that were not there before.
pub(crate) fn open_threads<T>(
    pid: u32,
    mut open: impl FnMut(i32) -> Result<T, OpenEventError>,
) -> Result<(Vec<T>, bool), ProcessError> {
    let procfs = Procfs::default();
    let before = procfs.thread_ids(pid);
    let mut opened = Vec::new();
    for tid in &before {
        match i32::try_from(*tid).map(&mut open) {
            Ok(Ok(thread)) => opened.push(thread),
            // It ended in the meantime.
            Err(_) => {}
            Ok(Err(error)) if error.errno == Errno::SRCH => {}
            Ok(Err(error)) => return Err(error.into()),
        }
    }
    if opened.is_empty() {
        return Err(ProcessError::NoSuchProcess { pid });
    }
    let after = procfs.thread_ids(pid);
    let settled = after.iter().all(|tid| before.binary_search(tid).is_ok());
    Ok((opened, settled))
}

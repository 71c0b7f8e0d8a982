//! [`ProcessCounter`]: all threads of a running process.

use crate::builder::Builder;
use crate::errno::Errno;
use crate::error::OpenEventError;
use crate::fd::PerfFd;
use crate::reading::{ReadError, Reading};
use rprof_launch::procfs::Procfs;

/// Maximum attempts if threads start during opening.
const ROUNDS: usize = 50;

/// Event counted in each thread of a process, inherited by later threads and child processes.
#[derive(Debug)]
pub struct ProcessCounter {
    threads: Vec<PerfFd>,
    settled: bool,
}

/// Failure to open a process's events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// The process does not exist, or has exited.
    #[error("process {pid} does not exist or has ended")]
    NoSuchProcess {
        /// Id of the process.
        pid: u32,
    },
    /// The kernel refused the event for a thread.
    #[error(transparent)]
    Open(#[from] OpenEventError),
}

impl ProcessCounter {
    /// Opens `event` for each thread of the process, with [`inherit`](Builder::inherit).
    ///
    /// Lists threads before and after. If a thread started meanwhile, all are opened again: it may
    /// or may not have inherited the event.
    ///
    /// # Errors
    /// Returns [`ProcessError`].
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

    /// Returns false if threads kept starting, so that some may be missing.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Returns the number of opened threads.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Enables all threads' events.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn enable(&self) -> Result<(), Errno> {
        self.threads.iter().try_for_each(PerfFd::enable)
    }

    /// Disables all threads' events.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn disable(&self) -> Result<(), Errno> {
        self.threads.iter().try_for_each(PerfFd::disable)
    }

    /// Reads the sum over all threads, including exited ones.
    ///
    /// # Errors
    /// Returns [`ReadError`].
    pub fn read(&self) -> Result<Reading, ReadError> {
        let mut readings = self.threads.iter().map(PerfFd::reading);
        let mut sum = readings.next().unwrap_or(Ok(Reading::default()))?;
        for reading in readings {
            sum.add(reading?);
        }
        Ok(sum)
    }
}

/// Calls `open` for each thread. The second value is false if threads have started since.
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

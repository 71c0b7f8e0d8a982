//! [`Counter`]: one open event that is counted.

use crate::errno::Errno;
use crate::fd::PerfFd;
use crate::reading::{ReadError, Reading};
use crate::scaled::Scaled;

/// Open event that is counted. Dropping it closes the event.
///
/// It has the event's [`PerfFd`], whose methods control it further: period, filters, BPF programs.
#[derive(Debug)]
pub struct Counter {
    fd: PerfFd,
}

/// Failure to count: an ioctl that was refused, or a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CountError {
    /// The event could not be enabled or disabled.
    #[error("cannot start or stop the event: {}", crate::ErrnoText(*_0))]
    Control(Errno),
    /// The event could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Counter {
    /// Takes over an event that is open.
    pub fn new(fd: PerfFd) -> Counter {
        Counter { fd }
    }

    /// Returns the event's descriptor.
    pub fn fd(&self) -> &PerfFd {
        &self.fd
    }

    /// Gives the event's descriptor back.
    pub fn into_fd(self) -> PerfFd {
        self.fd
    }

    /// Starts counting, where the count stands.
    ///
    /// # Errors
    /// The kernel's.
    pub fn enable(&self) -> Result<(), Errno> {
        self.fd.enable()
    }

    /// Stops counting.
    ///
    /// # Errors
    /// The kernel's.
    pub fn disable(&self) -> Result<(), Errno> {
        self.fd.disable()
    }

    /// Sets the count to zero, with the limits of [`PerfFd::reset`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn reset(&self) -> Result<(), Errno> {
        self.fd.reset()
    }

    /// Reads the count, at any time.
    ///
    /// # Errors
    /// [`ReadError`]; [`ReadError::PinnedWithoutCounter`] is a state that the event can be in.
    pub fn read(&self) -> Result<Reading, ReadError> {
        self.fd.reading()
    }

    /// Reads the count, extrapolated to the whole time for which the event was enabled. `None` if it
    /// was enabled and never ran.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read).
    pub fn scaled(&self) -> Result<Option<Scaled>, ReadError> {
        Ok(self.read()?.scaled())
    }

    /// Counts what `work` does, times included. What was counted before is not in it.
    ///
    /// # Errors
    /// [`CountError`]; `work` may have run by then, and what it returned is lost.
    pub fn measure<T>(&self, work: impl FnOnce() -> T) -> Result<(T, Reading), CountError> {
        let before = self.read()?;
        self.enable().map_err(CountError::Control)?;
        let done = work();
        self.disable().map_err(CountError::Control)?;
        Ok((done, self.read()?.since(&before)))
    }
}

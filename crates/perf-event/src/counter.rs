//! [`Counter`]: an open counting event.

use crate::errno::Errno;
use crate::fd::PerfFd;
use crate::reading::{ReadError, Reading};
use crate::scaled::Scaled;

/// Open counting event. Dropping it closes the event.
///
/// Its [`PerfFd`] offers further control: period, filters, BPF programs.
#[derive(Debug)]
pub struct Counter {
    fd: PerfFd,
}

/// Failure to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CounterError {
    /// Enabling or disabling the event failed.
    #[error("cannot start or stop the event: {}", crate::ErrnoText(*_0))]
    Control(Errno),
    /// Reading the event failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Counter {
    /// Wraps an open event.
    pub fn new(fd: PerfFd) -> Counter {
        Counter { fd }
    }

    /// Returns the event's descriptor.
    pub fn fd(&self) -> &PerfFd {
        &self.fd
    }

    /// Starts counting, from the current count.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn enable(&self) -> Result<(), Errno> {
        self.fd.enable()
    }

    /// Stops counting.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn disable(&self) -> Result<(), Errno> {
        self.fd.disable()
    }

    /// Resets the count to zero, with the limits of [`PerfFd::reset`].
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn reset(&self) -> Result<(), Errno> {
        self.fd.reset()
    }

    /// Reads the count, even while counting.
    ///
    /// # Errors
    /// Returns [`ReadError`]; [`ReadError::PinnedWithoutCounter`] is a normal state of a pinned
    /// event.
    pub fn read(&self) -> Result<Reading, ReadError> {
        self.fd.reading()
    }

    /// Reads the count, extrapolated to the enabled time. `None` if the event was enabled but never
    /// ran.
    ///
    /// # Errors
    /// Returns the errors of [`read`](Self::read).
    pub fn scaled(&self) -> Result<Option<Scaled>, ReadError> {
        Ok(self.read()?.scaled())
    }

    /// Counts the events and times during `work`. Earlier counts are excluded.
    ///
    /// # Errors
    /// Returns [`CounterError`], without the result of `work`.
    pub fn measure<T>(&self, work: impl FnOnce() -> T) -> Result<(T, Reading), CounterError> {
        let before = self.read()?;
        self.enable().map_err(CounterError::Control)?;
        let done = work();
        self.disable().map_err(CounterError::Control)?;
        Ok((done, self.read()?.since(&before)))
    }
}

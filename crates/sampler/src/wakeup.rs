//! Wakes threads that wait in poll(2).

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Based on eventfd(2). It stays raised until it is lowered.
#[derive(Debug)]
pub(crate) struct WakeupFlag(OwnedFd);

impl WakeupFlag {
    /// # Errors
    /// If descriptors or memory are exhausted.
    pub(crate) fn new() -> Result<WakeupFlag, Errno> {
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map(WakeupFlag)
    }

    pub(crate) fn raise(&self) {
        // On overflow the flag is raised already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    pub(crate) fn lower(&self) {
        // EAGAIN: lowered already.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for WakeupFlag {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

pub(crate) fn readable(fd: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(fd, PollFlags::IN)
}

/// Waits for any of `fds` until `timeout`. Returns the number of ready ones; 0 after a signal.
///
/// # Errors
/// If memory is exhausted.
pub(crate) fn wait(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<usize, Errno> {
    // Practically infinite.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match poll(fds, timeout.as_ref()) {
        Ok(ready) => Ok(ready),
        Err(Errno::INTR) => {
            fds.iter_mut().for_each(PollFd::clear_revents);
            Ok(0)
        }
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raised_flag_stays_up_until_it_is_lowered() {
        let flag = WakeupFlag::new().unwrap();
        let ready = || wait(&mut [readable(flag.as_fd())], Some(Duration::ZERO));
        assert_eq!(ready(), Ok(0));
        flag.raise();
        assert_eq!((ready(), ready()), (Ok(1), Ok(1)));
        flag.lower();
        flag.lower();
        assert_eq!(ready(), Ok(0));
    }
}

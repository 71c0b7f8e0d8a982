//! Waits for ring buffers with poll(2).

use crate::errno::Errno;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::BorrowedFd;
use std::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// A descriptor is readable.
    Readable,
    /// The deadline has passed.
    TimedOut,
    /// All descriptors are hung up: their targets have exited.
    HungUp,
    /// A descriptor is in the error state of pinned events.
    InError,
}

pub(crate) fn wait<'a>(
    fds: impl IntoIterator<Item = BorrowedFd<'a>>,
    deadline: Option<Instant>,
) -> Result<Woken, Errno> {
    let mut fds: Vec<PollFd<'_>> = fds
        .into_iter()
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) => return Ok(Woken::TimedOut),
            Ok(_) => {}
            // Computes the remaining time again.
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        }
        let any = |flag| fds.iter().any(|fd| fd.revents().contains(flag));
        if any(PollFlags::IN) {
            return Ok(Woken::Readable);
        }
        if any(PollFlags::ERR) {
            return Ok(Woken::InError);
        }
        fds.retain(|fd| !fd.revents().intersects(PollFlags::HUP | PollFlags::NVAL));
        if fds.is_empty() {
            return Ok(Woken::HungUp);
        }
    }
}

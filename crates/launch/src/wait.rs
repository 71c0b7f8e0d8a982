//! Blocking waits on descriptors.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Waits until one of `fds` is readable or hung up, at most for `timeout`. Returns for each whether
/// it is; false for all after a signal.
///
/// # Errors
/// Returns the error number of ppoll(2).
pub(crate) fn readable(
    fds: &[BorrowedFd<'_>],
    timeout: Option<Duration>,
) -> Result<Vec<bool>, Errno> {
    let mut polled: Vec<PollFd<'_>> = (fds.iter())
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    // A timeout that does not fit is effectively infinite.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match poll(&mut polled, timeout.as_ref()) {
        Ok(_) => Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect()),
        Err(Errno::INTR) => Ok(vec![false; fds.len()]),
        Err(errno) => Err(errno),
    }
}

/// Reads until `out` is full or the other end closes.
///
/// # Errors
/// Returns the error number of read(2).
pub(crate) fn read_full(fd: BorrowedFd<'_>, out: &mut [u8]) -> Result<usize, Errno> {
    let mut got = 0;
    while got < out.len() {
        match rustix::io::retry_on_intr(|| rustix::io::read(fd, &mut out[got..]))? {
            0 => break,
            n => got += n,
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_closed_pipe_reads_as_empty() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        assert_eq!(
            readable(&[read.as_fd()], Some(Duration::ZERO)),
            Ok(vec![false])
        );
        drop(write);
        assert_eq!(readable(&[read.as_fd()], None), Ok(vec![true]));
        assert_eq!(read_full(read.as_fd(), &mut [0; 4]), Ok(0));
    }
}

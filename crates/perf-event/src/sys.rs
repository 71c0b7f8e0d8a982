//! The few plain system calls that the rest needs.

use crate::errno::Errno;
use std::os::fd::BorrowedFd;

/// Bytes of a page of memory.
pub fn page_size() -> usize {
    rustix::param::page_size()
}

/// One read(2), repeated only when a signal interrupts it.
pub(crate) fn read_once(fd: BorrowedFd<'_>, out: &mut [u8]) -> Result<usize, Errno> {
    let got = rustix::io::retry_on_intr(|| rustix::io::read(fd, &mut *out));
    got.map_err(|errno| Errno(errno.raw_os_error()))
}

//! One open event.

use crate::errno::Errno;
use crate::sys;
use perf_event_open_sys as abi;
use rprof_records::{Attr, Endian, ReadFormat};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// An event that is open for one process (or all) on one CPU.
#[derive(Debug)]
pub struct PerfFd {
    fd: OwnedFd,
    read_format: ReadFormat,
}

/// A counter reading, perf_event_open(2), "Reading results".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How often the event happened, in the event's unit; children included.
    pub value: u64,
    /// Nanoseconds for which the event was enabled.
    pub enabled: u64,
    /// Nanoseconds for which it was counting; less than `enabled` when it shared a counter.
    pub running: u64,
    /// Samples dropped because the ring was full: those told by LOST records and those
    /// that no record tells of yet. `None` before Linux 6.0.
    pub lost: Option<u64>,
}

impl PerfFd {
    /// Opens an event: perf_event_open(2), closed on exec.
    ///
    /// `pid` is a thread, 0 for the caller, or -1 for all; `cpu` a CPU or, as `None`, any.
    ///
    /// # Errors
    /// The kernel's number as it is; [`OpenError`](super::OpenError) says what it means.
    pub fn open(attr: &Attr, pid: libc::pid_t, cpu: Option<u32>) -> Result<PerfFd, Errno> {
        let mut words = attr_words(attr)?;
        let cpu = match cpu {
            Some(cpu) => i32::try_from(cpu).map_err(|_| Errno(libc::EINVAL))?,
            None => -1,
        };
        let flags = abi::bindings::PERF_FLAG_FD_CLOEXEC;
        // SAFETY: `words` is aligned for the struct and holds as many bytes as its size field
        // says, at which the kernel stops; it may write the size field. What the attr asks
        // for writes to no memory of this process.
        let fd =
            unsafe { abi::perf_event_open(words.as_mut_ptr().cast(), pid, cpu, -1, flags.into()) };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: the kernel has just handed out this descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(PerfFd {
            fd,
            read_format: attr.read_format,
        })
    }

    /// The id that samples of this event carry (`PERF_EVENT_IOC_ID`, Linux 3.12).
    ///
    /// # Errors
    /// The kernel's.
    pub fn id(&self) -> Result<u64, Errno> {
        let mut id = 0;
        // SAFETY: the descriptor is a perf event's and `id` is writable.
        ok(unsafe { abi::ioctls::ID(self.fd.as_raw_fd(), &mut id) })?;
        Ok(id)
    }

    /// Stops the event, here and in all children that inherited it (`PERF_EVENT_IOC_DISABLE`).
    ///
    /// # Errors
    /// The kernel's.
    pub fn disable(&self) -> Result<(), Errno> {
        // SAFETY: the descriptor is a perf event's; the argument is a plain number.
        ok(unsafe { abi::ioctls::DISABLE(self.fd.as_raw_fd(), 0) })
    }

    /// Sends this event's records to the ring of `other`, which must be for the same CPU and
    /// clock (`PERF_EVENT_IOC_SET_OUTPUT`).
    ///
    /// # Errors
    /// `EINVAL` when the two do not go together.
    pub fn redirect_to(&self, other: &PerfFd) -> Result<(), Errno> {
        // SAFETY: both descriptors are perf events'.
        ok(unsafe { abi::ioctls::SET_OUTPUT(self.fd.as_raw_fd(), other.fd.as_raw_fd()) })
    }

    /// Reads the counter, children included.
    ///
    /// # Errors
    /// The kernel's; `EIO` when the answer is shorter than the read format says.
    pub fn read(&self) -> Result<Count, Errno> {
        let mut bytes = [0; 5 * 8];
        let want = 8 * (1 + self.read_format.bits().count_ones() as usize);
        let want = bytes.get_mut(..want).ok_or(Errno(libc::EINVAL))?;
        let got = sys::read_once(self.fd.as_fd(), want)?;
        if got < want.len() {
            return Err(Errno(libc::EIO));
        }
        let mut words = want.chunks_exact(8).map(|chunk| {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        let value = words.next().unwrap_or(0);
        // The order of perf_event_open(2): value, enabled, running, id, lost.
        let mut field = |bit| match self.read_format.contains(bit) {
            true => words.next(),
            false => None,
        };
        let enabled = field(ReadFormat::TOTAL_TIME_ENABLED).unwrap_or(0);
        let running = field(ReadFormat::TOTAL_TIME_RUNNING).unwrap_or(0);
        let _id = field(ReadFormat::ID);
        let lost = field(ReadFormat::LOST);
        Ok(Count {
            value,
            enabled,
            running,
            lost,
        })
    }
}

impl AsFd for PerfFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The attr as the kernel reads it, in memory aligned for it.
///
/// Written at the smallest size that holds what is set: the kernel takes what is missing for
/// zero, and an older kernel has no newer fields to stumble over (`E2BIG`).
fn attr_words(attr: &Attr) -> Result<Vec<u64>, Errno> {
    let bytes = attr
        .encode(Endian::NATIVE, attr.needed_size())
        .map_err(|_| Errno(libc::E2BIG))?;
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    });
    Ok(words.collect())
}

/// The result of an ioctl.
fn ok(result: libc::c_int) -> Result<(), Errno> {
    if result < 0 {
        Err(Errno::last())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_records::EventKind;

    #[test]
    fn the_size_field_says_how_many_bytes_there_are() {
        let attr = Attr {
            kind: EventKind::SOFTWARE,
            clockid: 1,
            ..Attr::default()
        };
        let words = attr_words(&attr).unwrap();
        let first = words[0].to_ne_bytes();
        let size = u32::from_ne_bytes([first[4], first[5], first[6], first[7]]);
        assert_eq!(size as usize, words.len() * 8);
        assert!(size >= 96, "clockid ends there");
    }
}

//! One open event.

use crate::errno::Errno;
use crate::sys;
use perf_event_open_sys as abi;
use rprof_records::{Attr, Endian, ReadFormat};
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Whom an event watches.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// One thread; 0 is the caller.
    Thread(libc::pid_t),
    /// Everything on a CPU.
    All,
    /// The processes of a control group (and of those below it) on a CPU: a descriptor of its
    /// directory in the `perf_event` hierarchy or in that of cgroup v2.
    Cgroup(BorrowedFd<'a>),
}

/// An event that is open for one thread (or all) on one CPU.
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

impl Count {
    /// Adds another reading of the same event, for another thread.
    pub fn add(&mut self, other: Count) {
        self.value = self.value.wrapping_add(other.value);
        self.enabled += other.enabled;
        self.running += other.running;
        self.lost = match (self.lost, other.lost) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
    }
}

impl PerfFd {
    /// Opens an event: perf_event_open(2), closed on exec.
    ///
    /// `pid` is a thread, 0 for the caller, or -1 for all; `cpu` a CPU or, as `None`, any.
    ///
    /// # Errors
    /// The kernel's number as it is; see ERRORS in perf_event_open(2).
    pub fn open(attr: &Attr, pid: libc::pid_t, cpu: Option<u32>) -> Result<PerfFd, Errno> {
        let subject = match pid {
            -1 => Subject::All,
            pid => Subject::Thread(pid),
        };
        PerfFd::open_for(attr, subject, cpu, None, None)
    }

    /// Opens an event for a subject, as a member of the group that `leader` leads if there is one.
    /// `probe_path` is what a probe's `config1` points to during the call
    /// (the path of the program).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_for(
        attr: &Attr,
        subject: Subject<'_>,
        cpu: Option<u32>,
        leader: Option<&PerfFd>,
        probe_path: Option<&CStr>,
    ) -> Result<PerfFd, Errno> {
        let mut words = match probe_path {
            Some(path) => attr_words(&Attr {
                config1: path.as_ptr() as u64,
                ..attr.clone()
            })?,
            None => attr_words(attr)?,
        };
        let cpu = match cpu {
            Some(cpu) => i32::try_from(cpu).map_err(|_| Errno(libc::EINVAL))?,
            None => -1,
        };
        let leader = leader.map_or(-1, |leader| leader.fd.as_raw_fd());
        let mut flags = abi::bindings::PERF_FLAG_FD_CLOEXEC;
        let pid = match subject {
            Subject::Thread(tid) => tid,
            Subject::All => -1,
            Subject::Cgroup(folder) => {
                flags |= abi::bindings::PERF_FLAG_PID_CGROUP;
                folder.as_raw_fd()
            }
        };
        // SAFETY: `words` is aligned for the struct and holds as many bytes as its size field
        // says, at which the kernel stops; it may write the size field. What the attr asks
        // for writes to no memory of this process. The descriptors are borrowed, so open, and
        // so is the text that a probe's config1 leads to.
        let fd = unsafe {
            abi::perf_event_open(words.as_mut_ptr().cast(), pid, cpu, leader, flags.into())
        };
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

    /// Takes over the descriptor of an event that was opened elsewhere, with this read format.
    pub fn from_fd(fd: OwnedFd, read_format: ReadFormat) -> PerfFd {
        PerfFd { fd, read_format }
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

    /// Starts the event, here and in all children that inherited it (`PERF_EVENT_IOC_ENABLE`).
    ///
    /// # Errors
    /// The kernel's.
    pub fn enable(&self) -> Result<(), Errno> {
        // SAFETY: the descriptor is a perf event's; the argument is a plain number.
        ok(unsafe { abi::ioctls::ENABLE(self.fd.as_raw_fd(), 0) })
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
        let mut bytes = [0; MOST_READ];
        let group = self.read_format.contains(ReadFormat::GROUP);
        let want = match group {
            true => MOST_READ,
            false => 8 * (1 + self.read_format.bits().count_ones() as usize),
        };
        let want = bytes.get_mut(..want).ok_or(Errno(libc::EINVAL))?;
        let got = sys::read_once(self.fd.as_fd(), want)?;
        let id = match group {
            true => Some(self.id()?),
            false => None,
        };
        parse_count(&want[..got], self.read_format, id).ok_or(Errno(libc::EIO))
    }
}

/// Bytes of the longest answer taken: a group of 60 events.
const MOST_READ: usize = 8 * (3 + 3 * 60);

/// Takes an answer apart (perf_event_open(2), "Reading results"): of a group, the values of the
/// event with this id.
fn parse_count(answer: &[u8], format: ReadFormat, id: Option<u64>) -> Option<Count> {
    let mut words = answer.chunks_exact(8).map(|chunk| {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    });
    // Alone: value, enabled, running, id, lost.
    // Group: number, enabled, running, then value, id, lost of each.
    let first = words.next()?;
    let mut field = |bit| match format.contains(bit) {
        true => words.next().map(Some),
        false => Some(None),
    };
    let mut count = Count {
        value: first,
        enabled: field(ReadFormat::TOTAL_TIME_ENABLED)?.unwrap_or(0),
        running: field(ReadFormat::TOTAL_TIME_RUNNING)?.unwrap_or(0),
        lost: None,
    };
    if !format.contains(ReadFormat::GROUP) {
        field(ReadFormat::ID)?;
        count.lost = field(ReadFormat::LOST)?;
        return Some(count);
    }
    for _ in 0..first {
        let value = words.next()?;
        let mut field = |bit| match format.contains(bit) {
            true => words.next().map(Some),
            false => Some(None),
        };
        let (own_id, lost) = (field(ReadFormat::ID)?, field(ReadFormat::LOST)?);
        if own_id == id {
            return Some(Count {
                value,
                lost,
                ..count
            });
        }
    }
    None
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

    #[test]
    fn answers_are_taken_apart() {
        let bytes =
            |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|w| w.to_ne_bytes()).collect() };
        let all = ReadFormat::TOTAL_TIME_ENABLED
            | ReadFormat::TOTAL_TIME_RUNNING
            | ReadFormat::ID
            | ReadFormat::LOST;
        let count = Count {
            value: 5,
            enabled: 10,
            running: 9,
            lost: Some(2),
        };
        let alone = bytes(&[5, 10, 9, 77, 2]);
        assert_eq!(parse_count(&alone, all, None), Some(count));
        assert_eq!(parse_count(&alone[..32], all, None), None);
        let group = bytes(&[2, 10, 9, 4, 76, 1, 5, 77, 2]);
        let format = all | ReadFormat::GROUP;
        assert_eq!(parse_count(&group, format, Some(77)), Some(count));
        assert_eq!(parse_count(&group, format, Some(78)), None);
        assert_eq!(
            parse_count(&bytes(&[u64::MAX, 1, 1]), format, Some(1)),
            None
        );
    }
}

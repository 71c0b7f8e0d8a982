//! Open events: the system call.

use crate::errno::{self, Errno};
use crate::error::OpenEventError;
use crate::event::Software;
use crate::limits::Limits;
use crate::open_flags::OpenFlags;
use crate::remedy::Remedy;
use perf_event_open_sys as abi;
use rprof_records::{Attr, AttrFlags, Endian, EventKind, ReadFormat};
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Threads that an event counts.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// Thread by its id; 0 is the calling thread.
    Thread(i32),
    /// Every task that runs on a CPU.
    All,
    /// Processes of a control group and its descendants on a CPU, by its directory in the
    /// `perf_event` or cgroup v2 hierarchy.
    Cgroup(BorrowedFd<'a>),
}

impl Subject<'_> {
    /// Returns true for a control group without events, whose `ENOENT` looks like a missing event.
    pub fn is_cgroup_without_events(&self, cpu: Option<u32>) -> bool {
        let Subject::Cgroup(_) = self else {
            return false;
        };
        let dummy = Attr {
            kind: EventKind::SOFTWARE,
            config: Software::DUMMY.0,
            flags: AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
            ..Attr::default()
        };
        let options = OpenOptions::new(&dummy).subject(*self);
        let opened = options.cpu(cpu.unwrap_or(0)).open();
        opened.is_err_and(|errno| errno == Errno::NOENT)
    }
}

/// Arguments of perf_event_open(2): an attr and its target.
///
/// ```no_run
/// use rprof_perf_event::{OpenOptions, Subject};
/// use rprof_records::{Attr, EventKind};
///
/// // PERF_COUNT_SW_TASK_CLOCK, which every machine has.
/// let attr = Attr { kind: EventKind::SOFTWARE, config: 1, ..Attr::default() };
/// let of_this_thread = OpenOptions::new(&attr).open()?;
/// let of_cpu_3 = OpenOptions::new(&attr).subject(Subject::All).cpu(3).open()?;
/// # Ok::<(), rprof_perf_event::Errno>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions<'a> {
    attr: &'a Attr,
    subject: Subject<'a>,
    cpu: Option<u32>,
    leader: Option<&'a PerfFd>,
    probe_path: Option<&'a CStr>,
    flags: OpenFlags,
}

impl<'a> OpenOptions<'a> {
    /// Creates options for the calling thread on any CPU, without a group.
    pub fn new(attr: &'a Attr) -> OpenOptions<'a> {
        OpenOptions {
            attr,
            subject: Subject::Thread(0),
            cpu: None,
            leader: None,
            probe_path: None,
            flags: OpenFlags::default(),
        }
    }

    /// Sets the threads to count.
    pub fn subject(self, subject: Subject<'a>) -> Self {
        OpenOptions { subject, ..self }
    }

    /// Counts only on this CPU. [`Subject::All`] and [`Subject::Cgroup`] require one.
    pub fn cpu(self, cpu: u32) -> Self {
        OpenOptions {
            cpu: Some(cpu),
            ..self
        }
    }

    /// Makes the event a member of `leader`'s group.
    pub fn leader(self, leader: &'a PerfFd) -> Self {
        OpenOptions {
            leader: Some(leader),
            ..self
        }
    }

    /// Sets the path or function name that `config1` of a uprobe or kprobe points to
    /// (perf_event_open(2), `uprobe_path`, `kprobe_func`).
    pub fn probe_path(self, path: &'a CStr) -> Self {
        OpenOptions {
            probe_path: Some(path),
            ..self
        }
    }

    /// Sets the flags of the call. The default is [`OpenFlags::CLOEXEC`] alone.
    pub fn flags(self, flags: OpenFlags) -> Self {
        OpenOptions { flags, ..self }
    }

    /// Opens the event. The descriptor is closed on exec, unless [`flags`](Self::flags) omits that.
    ///
    /// # Errors
    /// Returns the kernel's error number. [`open_named`](Self::open_named) explains it.
    pub fn open(&self) -> Result<PerfFd, Errno> {
        let mut words = match self.probe_path {
            Some(path) => attr_words(&Attr {
                config1: path.as_ptr() as u64,
                ..self.attr.clone()
            })?,
            None => attr_words(self.attr)?,
        };
        let cpu = match self.cpu {
            Some(cpu) => i32::try_from(cpu).map_err(|_| Errno::INVAL)?,
            None => -1,
        };
        let leader = self.leader.map_or(-1, |leader| leader.fd.as_raw_fd());
        let mut flags = self.flags;
        let pid = match self.subject {
            Subject::Thread(tid) => tid,
            Subject::All => -1,
            Subject::Cgroup(folder) => {
                flags |= OpenFlags::PID_CGROUP;
                folder.as_raw_fd()
            }
        };
        // SAFETY: `words` is aligned for the struct and holds as many bytes as its size field says.
        // The kernel stops there, and may write the size field. Events write to no memory of this
        // process. The descriptors and a probe's text are borrowed.
        let fd = unsafe {
            let flags = flags.bits() as libc::c_ulong;
            abi::perf_event_open(words.as_mut_ptr().cast(), pid, cpu, leader, flags)
        };
        if fd < 0 {
            return Err(errno::last());
        }
        // SAFETY: the kernel has just returned this descriptor, so it has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(PerfFd {
            fd,
            read_format: self.attr.read_format,
        })
    }

    /// Opens the event, and explains a refusal. `name` is the event's name in messages.
    ///
    /// # Errors
    /// Returns [`OpenEventError`], with a remedy based on this system's settings.
    pub fn open_named(&self, name: &str) -> Result<PerfFd, OpenEventError> {
        self.open()
            .map_err(|errno| self.explain(name, errno, &Limits::read()))
    }

    /// Explains the error number with which the kernel refused these options.
    pub fn explain(&self, name: &str, errno: Errno, limits: &Limits) -> OpenEventError {
        let by_cpu = !matches!(self.subject, Subject::Thread(_));
        let mut error = OpenEventError::new(name, self.attr, by_cpu, self.cpu, errno, limits);
        if errno == Errno::NOENT && self.subject.is_cgroup_without_events(self.cpu) {
            error.remedy = Remedy::CgroupWithoutEvents;
        }
        error
    }
}

/// Descriptor of an open event. Dropping it closes the event.
#[derive(Debug)]
pub struct PerfFd {
    fd: OwnedFd,
    read_format: ReadFormat,
}

impl PerfFd {
    /// Opens an event for a thread (0: the caller; -1: all threads) on one CPU or (`None`) any.
    ///
    /// # Errors
    /// Returns the errors of [`OpenOptions::open`].
    pub fn open(attr: &Attr, pid: i32, cpu: Option<u32>) -> Result<PerfFd, Errno> {
        let subject = match pid {
            -1 => Subject::All,
            tid => Subject::Thread(tid),
        };
        let options = OpenOptions::new(attr).subject(subject);
        cpu.map_or(options, |cpu| options.cpu(cpu)).open()
    }

    /// Wraps the descriptor of an open event. `read_format` must be its attr's.
    pub fn from_fd(fd: OwnedFd, read_format: ReadFormat) -> PerfFd {
        PerfFd { fd, read_format }
    }

    /// Makes this descriptor refer to the event of `other`, and drops its own event. A mapping
    /// keeps its ring (dup3(2)). Both must have the same read format.
    ///
    /// # Errors
    /// Returns the errors of dup3(2). The descriptor is then unchanged.
    pub fn replace_by(&self, other: &PerfFd) -> Result<(), Errno> {
        let (old, new) = (self.fd.as_raw_fd(), other.fd.as_raw_fd());
        // SAFETY: both descriptors are open, and keep their owners.
        match unsafe { libc::dup3(new, old, libc::O_CLOEXEC) } {
            -1 => Err(errno::last()),
            _ => Ok(()),
        }
    }

    /// Returns the format of [`read`](Self::read), as in the attr.
    pub fn read_format(&self) -> ReadFormat {
        self.read_format
    }

    /// Calls read(2), again after an interrupting signal.
    pub(crate) fn read_bytes(&self, out: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::retry_on_intr(|| rustix::io::read(&self.fd, &mut *out))
    }
}

impl AsFd for PerfFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Encodes an attr for the kernel, in memory with the required alignment.
///
/// Uses the smallest size that holds all set fields: older kernels refuse unknown ones (`E2BIG`).
pub(crate) fn attr_words(attr: &Attr) -> Result<Vec<u64>, Errno> {
    let bytes = attr
        .encode(Endian::NATIVE, attr.needed_size())
        .map_err(|_| Errno::TOOBIG)?;
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    });
    Ok(words.collect())
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

//! Control of open events: the ioctls of perf_event_open(2), and prctl(2).

use crate::errno::{self, Errno};
use crate::fd::{PerfFd, attr_words};
use perf_event_open_sys::bindings as abi;
use rprof_records::Attr;
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Maximum number of programs that [`PerfFd::bpf_programs`] can list (`BPF_TRACE_MAX_PROGS`).
const MAX_BPF_PROGRAMS: usize = 64;

/// BPF programs attached to a tracepoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BpfPrograms {
    /// Ids of the listed programs.
    pub ids: Vec<u32>,
    /// Number of attached programs.
    pub attached: u32,
}

impl PerfFd {
    /// Returns the id in samples of this event (`PERF_EVENT_IOC_ID`, Linux 3.12).
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn id(&self) -> Result<u64, Errno> {
        let mut id = 0_u64;
        // SAFETY: the kernel writes 64 bits to `id`.
        unsafe { self.control(abi::ID, (&raw mut id).cast()) }?;
        Ok(id)
    }

    /// Enables the event, including inherited instances in children (`PERF_EVENT_IOC_ENABLE`).
    ///
    /// Resets the error state of a pinned event. Enabled members of a group start with their
    /// leader.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn enable(&self) -> Result<(), Errno> {
        self.control_number(abi::ENABLE, 0)
    }

    /// Disables the event, including inherited instances in children (`PERF_EVENT_IOC_DISABLE`).
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn disable(&self) -> Result<(), Errno> {
        self.control_number(abi::DISABLE, 0)
    }

    /// Resets the count to zero (`PERF_EVENT_IOC_RESET`). Does not reset the times, or the counts
    /// of exited children.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn reset(&self) -> Result<(), Errno> {
        self.control_number(abi::RESET, 0)
    }

    /// Enables all events of the group; this may be any member (`PERF_IOC_FLAG_GROUP`).
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn enable_group(&self) -> Result<(), Errno> {
        self.control_number(abi::ENABLE, abi::PERF_IOC_FLAG_GROUP)
    }

    /// Disables all events of the group; this may be any member (`PERF_IOC_FLAG_GROUP`).
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn disable_group(&self) -> Result<(), Errno> {
        self.control_number(abi::DISABLE, abi::PERF_IOC_FLAG_GROUP)
    }

    /// Resets the counts of the whole group to zero, with the limits of [`reset`](Self::reset)
    /// (`PERF_IOC_FLAG_GROUP`).
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn reset_group(&self) -> Result<(), Errno> {
        self.control_number(abi::RESET, abi::PERF_IOC_FLAG_GROUP)
    }

    /// Enables the event for this many more overflows, after which it is disabled
    /// (`PERF_EVENT_IOC_REFRESH`). The last overflow has the code
    /// [`OverflowCode::HUP`](crate::OverflowCode::HUP).
    ///
    /// # Errors
    /// Returns `EINVAL` for an event that does not sample or is inherited.
    pub fn refresh(&self, overflows: u32) -> Result<(), Errno> {
        self.control_number(abi::REFRESH, overflows)
    }

    /// Changes the sampling period, or the frequency of an event with
    /// [`AttrFlags::FREQ`](rprof_records::AttrFlags::FREQ) (`PERF_EVENT_IOC_PERIOD`). Takes effect
    /// immediately since Linux 3.14.
    ///
    /// # Errors
    /// Returns `EINVAL` for 0, for a period of 2^63 or more, for a frequency above
    /// `perf_event_max_sample_rate`, and for an event that does not sample.
    pub fn set_period(&self, period: u64) -> Result<(), Errno> {
        let mut period = period;
        // The kernel expects a pointer, although headers and bindings declare a number.
        // SAFETY: the kernel reads 64 bits from `period`.
        unsafe { self.control(abi::PERIOD, (&raw mut period).cast()) }
    }

    /// Redirects this event's records to the ring buffer of `other` (`PERF_EVENT_IOC_SET_OUTPUT`).
    ///
    /// The kernel (`perf_event_set_output`) requires that
    /// - `other` is another event with a mapped ring buffer;
    /// - this event has no ring buffer of its own;
    /// - both are for the same CPU, or for the same thread on any CPU;
    /// - both have the same clock (`use_clockid`, `clockid`) and `write_backward`.
    ///
    /// Readers separate the records by id, so both should have
    /// [`SampleType::IDENTIFIER`](rprof_records::SampleType::IDENTIFIER).
    ///
    /// # Errors
    /// Returns `EINVAL` if a requirement is not met.
    pub fn redirect_to(&self, other: &PerfFd) -> Result<(), Errno> {
        let other = other.as_fd().as_raw_fd();
        // SAFETY: the kernel treats the argument as a number, and looks up the descriptor.
        unsafe { self.control(abi::SET_OUTPUT, other as usize as *mut _) }
    }

    /// Ends the redirection. This event's records are then dropped (`PERF_EVENT_IOC_SET_OUTPUT`
    /// with -1).
    ///
    /// # Errors
    /// Returns `EINVAL` if this event has its own ring buffer.
    pub fn end_redirection(&self) -> Result<(), Errno> {
        // As wide as a pointer, because the kernel compares a long with -1.
        // SAFETY: the kernel treats the argument as a number.
        unsafe { self.control(abi::SET_OUTPUT, usize::MAX as *mut _) }
    }

    /// Sets the filter of a tracepoint, or the address ranges of a hardware trace
    /// (`PERF_EVENT_IOC_SET_FILTER`), as in perf-record(1), `--filter`.
    ///
    /// # Errors
    /// Returns `EINVAL` for an invalid filter or an unsuitable event; `EEXIST` for a second filter.
    pub fn set_filter(&self, filter: &CStr) -> Result<(), Errno> {
        let filter = filter.as_ptr().cast_mut().cast();
        // SAFETY: the kernel reads the string up to its NUL, and writes nothing.
        unsafe { self.control(abi::SET_FILTER, filter) }
    }

    /// Pauses or resumes output to this event's ring buffer (`PERF_EVENT_IOC_PAUSE_OUTPUT`, Linux
    /// 4.7). Records during a pause count as lost.
    ///
    /// # Errors
    /// Returns `EINVAL` if the event has no ring buffer of its own.
    pub fn pause_output(&self, pause: bool) -> Result<(), Errno> {
        self.control_number(abi::PAUSE_OUTPUT, pause.into())
    }

    /// Attaches a BPF program to a tracepoint, kprobe or uprobe, or makes it the overflow handler
    /// of another event (`PERF_EVENT_IOC_SET_BPF`, Linux 4.1; other events 4.9).
    ///
    /// # Errors
    /// Returns `EINVAL` for a program of the wrong type; `EEXIST` if there is one already.
    pub fn set_bpf(&self, program: BorrowedFd<'_>) -> Result<(), Errno> {
        let program = program.as_raw_fd();
        // SAFETY: the kernel treats the argument as a number, and looks up the descriptor.
        unsafe { self.control(abi::SET_BPF, program as usize as *mut _) }
    }

    /// Lists the BPF programs attached to this event's tracepoint, by any event
    /// (`PERF_EVENT_IOC_QUERY_BPF`, Linux 4.16).
    ///
    /// # Errors
    /// Returns `EINVAL` if the event is not a tracepoint; `EPERM` without CAP_PERFMON.
    pub fn bpf_programs(&self) -> Result<BpfPrograms, Errno> {
        #[repr(C)]
        struct Query {
            ids_len: u32,
            prog_cnt: u32,
            ids: [u32; MAX_BPF_PROGRAMS],
        }
        let mut query = Query {
            ids_len: MAX_BPF_PROGRAMS as u32,
            prog_cnt: 0,
            ids: [0; MAX_BPF_PROGRAMS],
        };
        // SAFETY: the kernel writes the count, and at most `ids_len` ids after it.
        let listed = unsafe { self.control(abi::QUERY_BPF, (&raw mut query).cast()) };
        match listed {
            // The list has the first ids.
            Ok(()) | Err(Errno::NOSPC) => {}
            Err(errno) => return Err(errno),
        }
        let count = (query.prog_cnt as usize).min(MAX_BPF_PROGRAMS);
        Ok(BpfPrograms {
            ids: query.ids[..count].to_vec(),
            attached: query.prog_cnt,
        })
    }

    /// Changes the target of the event (`PERF_EVENT_IOC_MODIFY_ATTRIBUTES`, Linux 4.17). Supported
    /// for the address, length, access and `disabled` of breakpoints.
    ///
    /// # Errors
    /// Returns `EOPNOTSUPP` for other events; `EINVAL` if any other part of the attr differs.
    pub fn modify(&self, attr: &Attr) -> Result<(), Errno> {
        let mut words = attr_words(attr)?;
        let attr = words.as_mut_ptr().cast();
        // SAFETY: `words` holds as many bytes as its size field says. The kernel stops there.
        unsafe { self.control(abi::MODIFY_ATTRIBUTES, attr) }
    }

    fn control_number(&self, request: u32, argument: u32) -> Result<(), Errno> {
        // SAFETY: these ioctls treat the argument as a number, not as a pointer.
        unsafe { self.control(request, argument as usize as *mut _) }
    }

    /// Calls an ioctl. The argument is as wide as a pointer.
    ///
    /// # Safety
    /// If the request takes a pointer, the argument must point to memory that the kernel may read
    /// or write as the request requires.
    unsafe fn control(&self, request: u32, argument: *mut libc::c_void) -> Result<(), Errno> {
        let fd = self.as_fd().as_raw_fd();
        // SAFETY: the descriptor is open; the caller guarantees the argument.
        match unsafe { libc::ioctl(fd, request as _, argument) } {
            result if result < 0 => Err(errno::last()),
            _ => Ok(()),
        }
    }
}

/// Enables all events that this thread opened and still owns, for any target (prctl(2),
/// `PR_TASK_PERF_EVENTS_ENABLE`).
///
/// # Errors
/// Returns the kernel's error.
pub fn enable_all_opened_here() -> Result<(), Errno> {
    prctl(libc::PR_TASK_PERF_EVENTS_ENABLE)
}

/// Disables all events that this thread opened, as in [`enable_all_opened_here`] (prctl(2),
/// `PR_TASK_PERF_EVENTS_DISABLE`).
///
/// # Errors
/// Returns the kernel's error.
pub fn disable_all_opened_here() -> Result<(), Errno> {
    prctl(libc::PR_TASK_PERF_EVENTS_DISABLE)
}

fn prctl(option: libc::c_int) -> Result<(), Errno> {
    let none: libc::c_ulong = 0;
    // SAFETY: these options take no arguments and touch no memory.
    match unsafe { libc::prctl(option, none, none, none, none) } {
        0 => Ok(()),
        _ => Err(errno::last()),
    }
}

//! Control of open events: the ioctls of perf_event_open(2), and prctl(2).

use crate::errno::{self, Errno};
use crate::fd::{PerfFd, attr_words};
use perf_event_open_sys::bindings as abi;
use rprof_records::Attr;
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Programs that [`PerfFd::bpf_programs`] can list at most (`BPF_TRACE_MAX_PROGS`).
const MAX_BPF_PROGRAMS: usize = 64;

/// Ids of the BPF programs attached to a tracepoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BpfPrograms {
    /// Ids of programs, at most as many as were asked for.
    pub ids: Vec<u32>,
    /// Number of programs that are attached.
    pub attached: u32,
}

impl PerfFd {
    /// Returns the id that samples of this event carry (`PERF_EVENT_IOC_ID`, Linux 3.12).
    ///
    /// # Errors
    /// The kernel's.
    pub fn id(&self) -> Result<u64, Errno> {
        let mut id = 0_u64;
        // SAFETY: the kernel writes 64 bits to `id`.
        unsafe { self.control(abi::ID, (&raw mut id).cast()) }?;
        Ok(id)
    }

    /// Starts the event, also in all children that inherited it (`PERF_EVENT_IOC_ENABLE`).
    ///
    /// Takes a pinned event out of its error state. Members of a group that are enabled themselves
    /// begin with their leader.
    ///
    /// # Errors
    /// The kernel's.
    pub fn enable(&self) -> Result<(), Errno> {
        self.control_number(abi::ENABLE, 0)
    }

    /// Stops the event, also in all children that inherited it (`PERF_EVENT_IOC_DISABLE`).
    ///
    /// # Errors
    /// The kernel's.
    pub fn disable(&self) -> Result<(), Errno> {
        self.control_number(abi::DISABLE, 0)
    }

    /// Sets the count to zero (`PERF_EVENT_IOC_RESET`). The times stay, and so does what children
    /// counted that have ended.
    ///
    /// # Errors
    /// The kernel's.
    pub fn reset(&self) -> Result<(), Errno> {
        self.control_number(abi::RESET, 0)
    }

    /// Starts all events of the group, whichever of them this is (`PERF_IOC_FLAG_GROUP`).
    ///
    /// # Errors
    /// The kernel's.
    pub fn enable_group(&self) -> Result<(), Errno> {
        self.control_number(abi::ENABLE, abi::PERF_IOC_FLAG_GROUP)
    }

    /// Stops all events of the group, whichever of them this is (`PERF_IOC_FLAG_GROUP`).
    ///
    /// # Errors
    /// The kernel's.
    pub fn disable_group(&self) -> Result<(), Errno> {
        self.control_number(abi::DISABLE, abi::PERF_IOC_FLAG_GROUP)
    }

    /// Sets the counts of the whole group to zero, with the limits of [`reset`](Self::reset)
    /// (`PERF_IOC_FLAG_GROUP`).
    ///
    /// # Errors
    /// The kernel's.
    pub fn reset_group(&self) -> Result<(), Errno> {
        self.control_number(abi::RESET, abi::PERF_IOC_FLAG_GROUP)
    }

    /// Enables the event for this many overflows more, after which it is disabled
    /// (`PERF_EVENT_IOC_REFRESH`). The last of them is notified as
    /// [`OverflowCode::HUP`](crate::OverflowCode::HUP).
    ///
    /// # Errors
    /// `EINVAL` for an event that does not sample, or that is inherited.
    pub fn refresh(&self, overflows: u32) -> Result<(), Errno> {
        self.control_number(abi::REFRESH, overflows)
    }

    /// Changes the sampling period, or the frequency of an event with
    /// [`AttrFlags::FREQ`](rprof_records::AttrFlags::FREQ) (`PERF_EVENT_IOC_PERIOD`). It holds at
    /// once since Linux 3.14.
    ///
    /// # Errors
    /// `EINVAL` for 0, for a period of 2^63 or more, for a frequency above
    /// `perf_event_max_sample_rate`, and for an event that does not sample.
    pub fn set_period(&self, period: u64) -> Result<(), Errno> {
        let mut period = period;
        // The kernel wants a pointer, though headers and bindings declare a number.
        // SAFETY: the kernel reads 64 bits from `period`.
        unsafe { self.control(abi::PERIOD, (&raw mut period).cast()) }
    }

    /// Sends this event's records to the ring of `other` (`PERF_EVENT_IOC_SET_OUTPUT`).
    ///
    /// The kernel (`perf_event_set_output`) asks that
    /// - `other` is another event, and its ring is mapped already;
    /// - this event has no ring of its own;
    /// - both are of the same CPU; events of any CPU must be of the same thread;
    /// - both have the same clock (`use_clockid`, `clockid`) and the same `write_backward`.
    ///
    /// A reader tells the events' records apart by id, so both should have
    /// [`SampleType::IDENTIFIER`](rprof_records::SampleType::IDENTIFIER).
    ///
    /// # Errors
    /// `EINVAL` when one of these does not hold.
    pub fn redirect_to(&self, other: &PerfFd) -> Result<(), Errno> {
        let other = other.as_fd().as_raw_fd();
        // SAFETY: the argument is a number to the kernel, which looks the descriptor up.
        unsafe { self.control(abi::SET_OUTPUT, other as usize as *mut _) }
    }

    /// Ends the redirection of this event's records: they are written to no ring any more
    /// (`PERF_EVENT_IOC_SET_OUTPUT` with -1).
    ///
    /// # Errors
    /// `EINVAL` if this event's own ring is mapped.
    pub fn end_redirection(&self) -> Result<(), Errno> {
        // As wide as a pointer: the kernel compares a long with -1.
        // SAFETY: the argument is a number to the kernel.
        unsafe { self.control(abi::SET_OUTPUT, usize::MAX as *mut _) }
    }

    /// Sets the filter of a tracepoint, or the address ranges of a hardware trace
    /// (`PERF_EVENT_IOC_SET_FILTER`), in the syntax of perf-record(1), `--filter`.
    ///
    /// A tracepoint takes one filter for its life: while it has one, a second is refused.
    ///
    /// # Errors
    /// `EINVAL` for a filter that cannot be parsed, or an event that takes none; `EEXIST` for a second
    /// filter.
    pub fn set_filter(&self, filter: &CStr) -> Result<(), Errno> {
        let filter = filter.as_ptr().cast_mut().cast();
        // SAFETY: the kernel reads the string up to its NUL, and writes nothing.
        unsafe { self.control(abi::SET_FILTER, filter) }
    }

    /// Pauses or resumes the writing of records into this event's ring
    /// (`PERF_EVENT_IOC_PAUSE_OUTPUT`, Linux 4.7). Records of the pause are counted as lost.
    ///
    /// # Errors
    /// `EINVAL` without a ring of its own.
    pub fn pause_output(&self, pause: bool) -> Result<(), Errno> {
        self.control_number(abi::PAUSE_OUTPUT, pause.into())
    }

    /// Attaches a BPF program to a tracepoint, kprobe or uprobe, or makes it the overflow handler of
    /// another event (`PERF_EVENT_IOC_SET_BPF`, Linux 4.1; other events 4.9).
    ///
    /// # Errors
    /// `EINVAL` for a program of the wrong type; `EEXIST` where there is one already.
    pub fn set_bpf(&self, program: BorrowedFd<'_>) -> Result<(), Errno> {
        let program = program.as_raw_fd();
        // SAFETY: the argument is a number to the kernel, which looks the descriptor up.
        unsafe { self.control(abi::SET_BPF, program as usize as *mut _) }
    }

    /// Lists the BPF programs that are attached to this event's tracepoint, by this event or another
    /// (`PERF_EVENT_IOC_QUERY_BPF`, Linux 4.16).
    ///
    /// # Errors
    /// `EINVAL` for an event that is no tracepoint; `EPERM` without CAP_PERFMON.
    pub fn bpf_programs(&self) -> Result<BpfPrograms, Errno> {
        /// `struct perf_event_query_bpf` with room behind it.
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
        // SAFETY: the kernel writes the count, and at most `ids_len` ids behind it.
        let listed = unsafe { self.control(abi::QUERY_BPF, (&raw mut query).cast()) };
        match listed {
            // More are attached than there is room for: those that fit are there.
            Ok(()) | Err(Errno::NOSPC) => {}
            Err(errno) => return Err(errno),
        }
        let count = (query.prog_cnt as usize).min(MAX_BPF_PROGRAMS);
        Ok(BpfPrograms {
            ids: query.ids[..count].to_vec(),
            attached: query.prog_cnt,
        })
    }

    /// Changes what the event watches (`PERF_EVENT_IOC_MODIFY_ATTRIBUTES`, Linux 4.17). The kernel
    /// knows it for breakpoints: their address, length, access and `disabled` can change.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for other events; `EINVAL` if anything else of the attr differs.
    pub fn modify(&self, attr: &Attr) -> Result<(), Errno> {
        let mut words = attr_words(attr)?;
        let attr = words.as_mut_ptr().cast();
        // SAFETY: `words` holds as many bytes as its size field says, at which the kernel stops.
        unsafe { self.control(abi::MODIFY_ATTRIBUTES, attr) }
    }

    /// Calls an ioctl whose argument is a number of 32 bits.
    fn control_number(&self, request: u32, argument: u32) -> Result<(), Errno> {
        // SAFETY: to these ioctls the argument is a number, which leads to no memory.
        unsafe { self.control(request, argument as usize as *mut _) }
    }

    /// Calls an ioctl, with an argument as wide as a pointer whatever it is.
    ///
    /// # Safety
    /// The argument must lead to what the kernel reads or writes there, if the request takes it for a
    /// pointer.
    unsafe fn control(&self, request: u32, argument: *mut libc::c_void) -> Result<(), Errno> {
        let fd = self.as_fd().as_raw_fd();
        // SAFETY: the descriptor is open; the caller vouches for the argument.
        match unsafe { libc::ioctl(fd, request as _, argument) } {
            result if result < 0 => Err(errno::last()),
            _ => Ok(()),
        }
    }
}

/// Enables all events that this thread has opened and not given away, whatever they count
/// (prctl(2), `PR_TASK_PERF_EVENTS_ENABLE`). Events that others opened to watch this thread stay as
/// they are.
///
/// # Errors
/// The kernel's.
pub fn enable_all_opened_here() -> Result<(), Errno> {
    prctl(libc::PR_TASK_PERF_EVENTS_ENABLE)
}

/// Disables all events that this thread has opened, as [`enable_all_opened_here`] enables them
/// (prctl(2), `PR_TASK_PERF_EVENTS_DISABLE`).
///
/// # Errors
/// The kernel's.
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

//! The few plain system calls that the rest needs, made safe.

use crate::errno::Errno;
pub(crate) use rprof_perf_event::page_size;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// `CLOCK_MONOTONIC` in nanoseconds: the clock that stamps every record here.
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid timespec; the call only writes to it.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The time since the machine was started, with the time it slept (`CLOCK_BOOTTIME`).
pub(crate) fn since_boot() -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid timespec; the call only writes to it.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Whether this process ignores a signal, as one does that was started by nohup(1).
pub fn signal_is_ignored(signal: i32) -> bool {
    // SAFETY: sigaction is plain data, and with no new action the call only writes the
    // one in force to it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Takes ownership of what a system call returned.
fn owned(fd: RawFd) -> Result<OwnedFd, Errno> {
    if fd < 0 {
        return Err(Errno::last());
    }
    // SAFETY: the kernel has just handed out this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A flag that threads can poll (eventfd(2)). Raised, it stays up until somebody lowers it.
#[derive(Debug)]
pub(crate) struct Flag(OwnedFd);

impl Flag {
    pub(crate) fn new() -> Result<Flag, Errno> {
        // SAFETY: eventfd has no preconditions.
        owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }).map(Flag)
    }

    pub(crate) fn raise(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight readable bytes, as eventfd(2) wants. The one way for it to
        // fail, an overflowing counter, leaves the flag up as well.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Takes it down, if it is up.
    pub(crate) fn lower(&self) {
        let mut count = [0; 8];
        // SAFETY: eight writable bytes, as eventfd(2) wants; it does not block.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// One descriptor to wait for until it is readable.
pub(crate) fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

/// Waits for any of `fds`, at most for `timeout` (`None`: forever). Says how many are
/// ready; an interruption by a signal counts as none.
pub(crate) fn poll(fds: &mut [libc::pollfd], timeout: Option<Duration>) -> Result<usize, Errno> {
    let millis = match timeout {
        // Rounded up, so that a caller who waits for a deadline does not spin before it.
        Some(t) => i32::try_from(t.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX),
        None => -1,
    };
    let count = libc::nfds_t::try_from(fds.len()).unwrap_or(0);
    // SAFETY: `fds` is valid for `count` entries for the length of the call.
    let ready = unsafe { libc::poll(fds.as_mut_ptr(), count, millis) };
    match ready {
        0.. => Ok(ready as usize),
        _ => match Errno::last() {
            Errno(libc::EINTR) => {
                for fd in fds {
                    fd.revents = 0;
                }
                Ok(0)
            }
            errno => Err(errno),
        },
    }
}

/// Raises the soft limit on open files to the hard limit; says whether that gained any.
///
/// The limit is this process's own: a command that was forked before keeps its own.
pub(crate) fn raise_open_file_limit() -> bool {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid rlimit to write to.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } < 0
        || limit.rlim_cur >= limit.rlim_max
    {
        return false;
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` is a valid rlimit to read from.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) == 0 }
}

/// The soft limit on open files.
pub(crate) fn open_file_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid rlimit to write to.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    limit.rlim_cur
}

/// Binds the calling thread to `cpu`, if the CPU is among those it may run on now.
///
/// Asking first matters: whoever ran the profiler under taskset(1), or set CPUs
/// aside with isolcpus, does not want its threads there.
pub(crate) fn pin_to(cpu: u32) -> bool {
    let cpu = cpu as usize;
    if cpu >= libc::CPU_SETSIZE as usize {
        return false;
    }
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: cpu_set_t is plain bits, for which zero is the empty set; both calls get
    // its true size, and `cpu` is below CPU_SETSIZE.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size, &mut allowed) < 0 || !libc::CPU_ISSET(cpu, &allowed) {
            return false;
        }
        let mut only: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut only);
        libc::sched_setaffinity(0, size, &only) == 0
    }
}

/// Lets the calling thread run before others, where that is allowed. For threads that must not be
/// kept waiting by what they watch, and need little time.
pub fn run_soon() {
    let _ = renice(SOON);
}

/// The nice value of such threads.
const SOON: i32 = -15;

/// Sets the nice value of the calling thread (on Linux a thread's own, sched(7)).
pub(crate) fn renice(nice: i32) -> Result<(), Errno> {
    // SAFETY: integers only; 0 names the calling thread.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) } {
        0 => Ok(()),
        _ => Err(Errno::last()),
    }
}

/// Puts the calling thread under SCHED_FIFO, 1 being the lowest priority (sched(7)).
pub(crate) fn make_realtime(priority: u8) -> Result<(), Errno> {
    let parameter = libc::sched_param {
        sched_priority: priority.into(),
    };
    // SAFETY: a valid parameter that the call only reads; 0 names the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter) } {
        0 => Ok(()),
        _ => Err(Errno::last()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raised_flag_stays_up_until_it_is_lowered() {
        let flag = Flag::new().unwrap();
        let ready = |flag: &Flag| poll(&mut [readable(flag.fd())], Some(Duration::ZERO));
        assert_eq!(ready(&flag), Ok(0));
        flag.raise();
        assert_eq!((ready(&flag), ready(&flag)), (Ok(1), Ok(1)));
        flag.lower();
        flag.lower();
        assert_eq!(ready(&flag), Ok(0));
    }

    #[test]
    fn the_clock_moves_forward() {
        let before = monotonic_ns();
        assert!(before > 0 && monotonic_ns() >= before);
    }
}

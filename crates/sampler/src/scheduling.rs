//! CPUs and priorities of threads.

use rprof_perf_event::errno::{self, Errno};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Nice value of threads that must not be kept waiting by what they watch, and need little time.
const URGENT_NICE: i32 = -15;

/// Real-time priority of a drain thread that was late: its work is short.
pub(crate) const LATE_DRAIN: u8 = 2;

/// Real-time priority of a receiver that is late. Drain threads go before it.
pub(crate) const LATE_RECEIVER: u8 = 1;

/// Gives the calling thread precedence over others, where that is allowed.
pub fn prefer_this_thread() {
    // A higher priority is optional.
    let _ = renice(URGENT_NICE);
}

/// Takes back what the calling thread has of [`prefer_this_thread`], from the one that started it: for work
/// that can wait.
pub fn take_no_precedence() {
    let _ = renice(0);
}

/// Sets the nice value of the calling thread (on Linux a thread's own, sched(7)).
pub(crate) fn renice(nice: i32) -> Result<(), Errno> {
    rustix::process::setpriority_process(None, nice)
}

/// Binds the calling thread to `cpu`, if the CPU is among those it may run on now.
///
/// Asking first matters: whoever ran the profiler under taskset(1), or set CPUs aside with
/// isolcpus, does not want its threads there.
pub(crate) fn pin_to(cpu: u32) -> bool {
    let cpu = cpu as usize;
    if cpu >= CpuSet::MAX_CPU {
        return false;
    }
    let is_allowed = sched_getaffinity(None).is_ok_and(|allowed| allowed.is_set(cpu));
    let mut only = CpuSet::new();
    only.set(cpu);
    is_allowed && sched_setaffinity(None, &only).is_ok()
}

/// Puts the calling thread under SCHED_FIFO with this priority, 1 being the lowest (sched(7)). Threads that it starts are ordinary ones.
pub(crate) fn make_realtime(priority: u8) -> Result<(), Errno> {
    set_scheduler_of(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority)
}

/// Takes back [`make_realtime`], but for the scheduling of threads that are started later: to let go of that takes
/// CAP_SYS_NICE.
pub(crate) fn make_ordinary() -> Result<(), Errno> {
    make_thread_ordinary(0)
}

/// Takes back what another thread of this process has of [`make_realtime`].
pub(crate) fn make_thread_ordinary(tid: libc::pid_t) -> Result<(), Errno> {
    set_scheduler_of(tid, libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0)
}

/// Returns the scheduling policy of the calling thread.
#[cfg(test)]
pub(crate) fn policy() -> libc::c_int {
    // SAFETY: takes and changes no memory; 0 names the calling thread.
    unsafe { libc::sched_getscheduler(0) }
}

fn set_scheduler_of(tid: libc::pid_t, policy: libc::c_int, priority: u8) -> Result<(), Errno> {
    let parameter = libc::sched_param {
        sched_priority: priority.into(),
    };
    // SAFETY: a valid parameter that the call only reads; 0 names the calling thread.
    match unsafe { libc::sched_setscheduler(tid, policy, &parameter) } {
        0 => Ok(()),
        _ => Err(errno::last()),
    }
}

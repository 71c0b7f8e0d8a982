//! CPU affinity and priorities of threads.

use rprof_perf_event::errno::{self, Errno};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Nice value of threads that need little time, but must not wait for the workload.
const URGENT_NICE: i32 = -15;

/// A late drain thread has short work.
pub(crate) const LATE_DRAIN: u8 = 2;

/// Priority of a late receiver, below the drain threads.
pub(crate) const LATE_RECEIVER: u8 = 1;

/// Gives the calling thread precedence, if permitted.
pub fn prefer_this_thread() {
    let _ = renice(URGENT_NICE);
}

/// Undoes an inherited [`prefer_this_thread`], for work that can wait.
pub fn take_no_precedence() {
    let _ = renice(0);
}

/// Sets the calling thread's nice value (per thread on Linux, sched(7)).
pub(crate) fn renice(nice: i32) -> Result<(), Errno> {
    rustix::process::setpriority_process(None, nice)
}

/// Pins the calling thread to `cpu`, if its current affinity allows it.
///
/// Respects taskset(1) and isolcpus.
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

/// Returns true if the calling thread runs on this CPU.
pub(crate) fn is_on(cpu: u32) -> bool {
    rustix::thread::sched_getcpu() == cpu as usize
}

/// Puts the calling thread under SCHED_FIFO, 1 being the lowest priority (sched(7)). Its children
/// are ordinary threads.
pub(crate) fn make_realtime(priority: u8) -> Result<(), Errno> {
    set_scheduler_of(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority)
}

/// Undoes [`make_realtime`], except for the reset on fork, which needs CAP_SYS_NICE.
pub(crate) fn make_ordinary() -> Result<(), Errno> {
    make_thread_ordinary(0)
}

/// Undoes [`make_realtime`] for another thread.
pub(crate) fn make_thread_ordinary(tid: libc::pid_t) -> Result<(), Errno> {
    set_scheduler_of(tid, libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0)
}

#[cfg(test)]
pub(crate) fn policy() -> libc::c_int {
    // SAFETY: the call accesses no memory; 0 is the calling thread. musl's function only fails.
    unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) as libc::c_int }
}

fn set_scheduler_of(tid: libc::pid_t, policy: libc::c_int, priority: u8) -> Result<(), Errno> {
    // The kernel's `struct sched_param`. musl's has more fields, and its function only fails.
    let parameter = libc::c_int::from(priority);
    // SAFETY: `parameter` is valid, and the call only reads it. `tid` is a number; 0 is the calling
    // thread.
    match unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            tid,
            policy,
            &raw const parameter,
        )
    } {
        0 => Ok(()),
        _ => Err(errno::last()),
    }
}

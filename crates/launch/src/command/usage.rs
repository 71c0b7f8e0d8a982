//! [`ResourceUsage`]: resources used by a program (getrusage(2), wait4(2)).

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// Resources used by a process and all children that it waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceUsage {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Largest resident set of any of the processes, in bytes.
    pub max_rss: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
}

/// Returns the status of a child that has exited, and does not reap it. Returns `None` if it runs
/// and `options` forbid waiting.
pub(super) fn status(
    pid: libc::pid_t,
    options: WaitIdOptions,
) -> Result<Option<ExitStatus>, Errno> {
    let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | options;
    let pid = Pid::from_raw(pid).ok_or(Errno::CHILD)?;
    let found = rustix::process::waitid(WaitId::Pid(pid), how)?;
    Ok(found.map(|end| {
        // As wait(2) puts them together.
        let code = end.exit_status().unwrap_or(0) << 8;
        let core = i32::from(end.dumped()) << 7;
        ExitStatus::from_raw(code | end.terminating_signal().unwrap_or(0) | core)
    }))
}

/// Reaps a child that has exited.
///
/// rustix lacks wait4.
pub(super) fn reap(pid: libc::pid_t) -> Result<ResourceUsage, Errno> {
    let mut status = 0;
    // SAFETY: rusage is plain data, and all zeros are a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both are writable for the call.
    match unsafe { libc::wait4(pid, &mut status, 0, &mut usage) } {
        found if found > 0 => Ok(of(&usage)),
        _ => Err(rprof_errno::last()),
    }
}

fn of(usage: &libc::rusage) -> ResourceUsage {
    let count = |value: libc::c_long| u64::try_from(value).unwrap_or(0);
    let time = |value: libc::timeval| {
        Duration::from_secs(u64::try_from(value.tv_sec).unwrap_or(0))
            + Duration::from_micros(u64::try_from(value.tv_usec).unwrap_or(0))
    };
    ResourceUsage {
        user: time(usage.ru_utime),
        system: time(usage.ru_stime),
        // Linux uses KiB.
        max_rss: count(usage.ru_maxrss).saturating_mul(1024),
        minor_faults: count(usage.ru_minflt),
        major_faults: count(usage.ru_majflt),
        voluntary_switches: count(usage.ru_nvcsw),
        involuntary_switches: count(usage.ru_nivcsw),
    }
}

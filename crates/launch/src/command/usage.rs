//! [`ResourceUsage`]: resources used by a program (getrusage(2), wait4(2)).

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions};
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

/// Waits for the exit of a child without reaping it. Returns false if it runs and `options` forbid
/// waiting.
pub(super) fn has_ended(pid: libc::pid_t, options: WaitOptions) -> bool {
    let mut how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    how.set(WaitIdOptions::NOHANG, options.contains(WaitOptions::NOHANG));
    let pid = Pid::from_raw(pid);
    let found = pid.map(|pid| rustix::process::waitid(WaitId::Pid(pid), how));
    matches!(found, Some(Ok(Some(_))))
}

/// Reaps a child. Returns `None` if it runs and `options` forbid waiting.
///
/// rustix lacks wait4.
pub(super) fn wait4(
    pid: libc::pid_t,
    options: WaitOptions,
) -> Result<Option<(ExitStatus, ResourceUsage)>, Errno> {
    let mut status = 0;
    // SAFETY: rusage is plain data, and all zeros are a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both are writable for the call.
    match unsafe { libc::wait4(pid, &mut status, options.bits() as i32, &mut usage) } {
        0 => Ok(None),
        found if found > 0 => Ok(Some((ExitStatus::from_raw(status), of(&usage)))),
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

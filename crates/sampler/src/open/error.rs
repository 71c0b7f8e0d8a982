//! Errors of opening, each with what to do about it.

use crate::errno::Errno;
use crate::limits::Limits;
use crate::sys;

/// An event could not be opened, and no step down is left.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The kernel refused an event.
    #[error("cannot open event `{event}`{}: {errno}. {remedy}", on(*cpu))]
    Event {
        /// The event as described.
        event: String,
        /// The CPU it was for.
        cpu: Option<u32>,
        /// What the kernel said.
        errno: Errno,
        /// What to do about it: a sentence.
        remedy: String,
    },
    /// The ring of an event could not be had.
    #[error("cannot map a ring buffer of {} KiB for CPU {cpu}: {errno}. {remedy}", bytes / 1024)]
    Ring {
        /// The CPU.
        cpu: u32,
        /// Bytes asked for.
        bytes: usize,
        /// What the kernel said.
        errno: Errno,
        /// What to do about it: a sentence.
        remedy: String,
    },
    /// The frequency is above the kernel's limit, and was asked for strictly.
    #[error(
        "{wanted} samples a second are more than the kernel allows ({limit}). \
         Raise the limit with `sysctl kernel.perf_event_max_sample_rate={wanted}`, or ask for less"
    )]
    Frequency {
        /// Samples a second asked for.
        wanted: u64,
        /// Samples a second allowed.
        limit: u64,
    },
    /// A rate of zero is none.
    #[error("a sampling frequency or period of 0 means no samples; give a number above it")]
    ZeroRate,
}

fn on(cpu: Option<u32>) -> String {
    cpu.map_or_else(String::new, |cpu| format!(" on CPU {cpu}"))
}

/// What to do when an event cannot be opened.
pub(super) fn remedy(event: &str, errno: Errno, limits: &Limits) -> String {
    match errno.0 {
        libc::EACCES | libc::EPERM => permission(limits),
        libc::ENOENT | libc::ENODEV | libc::ENXIO | libc::EOPNOTSUPP => format!(
            "This machine has no such event: `{event}` needs hardware counters, which virtual machines \
             often hide. `cpu-clock` works everywhere"
        ),
        libc::EMFILE | libc::ENFILE => format!(
            "Every event takes a file descriptor on every CPU, and {} may be open; raise it with `ulimit -n`",
            sys::open_file_limit()
        ),
        libc::EBUSY => {
            "Another user of the hardware counters holds them exclusively (the NMI watchdog, or a tool \
             such as this); end it, or sample `cpu-clock`"
                .to_owned()
        }
        libc::ENOSPC => {
            "All hardware counters of that kind are taken; ask for fewer events at once".to_owned()
        }
        libc::EINVAL => format!(
            "The kernel does not take these settings for `{event}`: another modifier, a lower frequency \
             or an event that can be sampled may help"
        ),
        libc::E2BIG => {
            "The running kernel is too old for an attribute that was asked for; ask for less, or use \
             a newer kernel"
                .to_owned()
        }
        libc::EOVERFLOW => {
            "The callchain is deeper than kernel.perf_event_max_stack; ask for less depth".to_owned()
        }
        libc::ENOSYS => {
            "The kernel was built without perf events (CONFIG_PERF_EVENTS), or a sandbox forbids the \
             call"
                .to_owned()
        }
        libc::ESRCH => "The process has ended before it could be watched".to_owned(),
        libc::ENOMEM => "The kernel is out of memory; free some, or watch fewer events".to_owned(),
        _ => "See perf_event_open(2), section ERRORS".to_owned(),
    }
}

/// The sentence for `EACCES` and `EPERM`.
fn permission(limits: &Limits) -> String {
    match limits.paranoid {
        Some(level) if level > 2 => format!(
            "kernel.perf_event_paranoid is {level}, which shuts out all users without privileges. Allow it \
             with `sysctl kernel.perf_event_paranoid=2` (user side) or `=1` (kernel as well), or run with \
             CAP_PERFMON"
        ),
        Some(level) if level > 1 => format!(
            "kernel.perf_event_paranoid is {level}, which leaves users without privileges the user side of \
             their own processes. Ask for less (`:u`), or allow more with `sysctl \
             kernel.perf_event_paranoid=1` or CAP_PERFMON"
        ),
        Some(level) => format!(
            "kernel.perf_event_paranoid is {level} and would allow it, so something else forbids it: the \
             process belongs to another user or raised its privileges, or a sandbox (seccomp; in a \
             container, `--cap-add PERFMON`) is in the way"
        ),
        None => {
            "The call is forbidden here: a sandbox (seccomp; in a container, `--cap-add PERFMON`) is in \
             the way, or CAP_PERFMON is missing"
                .to_owned()
        }
    }
}

/// What to do when a ring cannot be mapped.
pub(super) fn ring_remedy(errno: Errno, limits: &Limits) -> String {
    match (errno.0, limits.mlock_kib) {
        (libc::EPERM, Some(kib)) => format!(
            "A user may lock {kib} KiB for each CPU, and other recordings of yours count too; end \
             them, or allow more with `sysctl kernel.perf_event_mlock_kb`, `ulimit -l` or CAP_IPC_LOCK"
        ),
        (libc::EPERM, None) => {
            "The allowance for locked memory is used up; raise `ulimit -l`".to_owned()
        }
        (libc::ENOMEM, _) => "Memory is short; free some".to_owned(),
        _ => "See perf_event_open(2), section \"MMAP layout\"".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_remedy() {
        let said = |errno, paranoid| {
            let limits = Limits {
                paranoid,
                ..Limits::default()
            };
            remedy("cycles", Errno(errno), &limits)
        };
        assert!(said(libc::EACCES, Some(4)).contains("perf_event_paranoid is 4"));
        assert!(said(libc::EPERM, Some(2)).contains("CAP_PERFMON"));
        assert!(said(libc::EACCES, Some(-1)).contains("seccomp"));
        assert!(said(libc::ENOENT, None).contains("cpu-clock"));
        assert!(said(libc::EMFILE, None).contains("ulimit -n"));
        assert!(said(libc::EBUSY, None).contains("watchdog"));
        assert!(said(libc::E2BIG, None).contains("too old"));
        assert!(said(12345, None).contains("perf_event_open(2)"));
    }
}

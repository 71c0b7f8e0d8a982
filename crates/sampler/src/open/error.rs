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
    /// A process or thread may not be watched.
    #[error("cannot watch process {pid}: {errno}. {remedy}")]
    Process {
        /// The process.
        pid: u32,
        /// What the kernel said.
        errno: Errno,
        /// What to do about it: a sentence.
        remedy: String,
    },
    /// Nothing is there of what was to be watched.
    #[error("{what} cannot be watched: {}", gone(*had))]
    TargetsGone {
        /// What was asked for, as `process 123`.
        what: String,
        /// How many threads there had been.
        had: usize,
    },
    /// More descriptors are needed than may be open.
    #[error(
        "watching {threads} threads on {cpus} CPUs takes {needed} file descriptors, and {limit} may be \
         open. Raise the limit (`ulimit -Hn`, or LimitNOFILE= of the service), watch fewer CPUs (-C) or \
         threads (-t), or everything (-a), which takes few for each CPU"
    )]
    TooManyFiles {
        /// Threads to watch.
        threads: usize,
        /// CPUs to watch them on.
        cpus: usize,
        /// Descriptors that takes.
        needed: usize,
        /// Most descriptors that may be open.
        limit: u64,
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

fn gone(had: usize) -> &'static str {
    match had {
        0 => "there is no such thing running here. `ps -eLf` lists what is",
        _ => "it ended before it could be",
    }
}

fn on(cpu: Option<u32>) -> String {
    cpu.map_or_else(String::new, |cpu| format!(" on CPU {cpu}"))
}

/// What to do where stacks were to come from the processor's record of branches, and there is none.
pub(super) const NO_BRANCHES: &str = "Stacks by `lbr` take a processor that records calls, and \
                                      counters that can be seen here, which virtual machines often \
                                      hide. `--call-graph auto` needs neither";

/// What to do when an event cannot be opened.
///
/// `by_cpu`: the event was to watch whole CPUs.
pub(super) fn remedy(event: &str, errno: Errno, limits: &Limits, by_cpu: bool) -> String {
    match errno.0 {
        libc::EACCES | libc::EPERM | libc::ENOSYS if limits.seccomp && !limits.explains(by_cpu) => {
            SECCOMP.to_owned()
        }
        libc::EACCES | libc::EPERM if by_cpu => whole_system(limits),
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
        libc::EBADF if by_cpu => {
            "It is no control group of a hierarchy that can be watched".to_owned()
        }
        libc::ENOMEM => "The kernel is out of memory; free some, or watch fewer events".to_owned(),
        _ => "See perf_event_open(2), section ERRORS".to_owned(),
    }
}

/// What to do when a sandbox is in the way.
const SECCOMP: &str = "A seccomp filter is in force for this process, and perf_event_paranoid would allow \
                       the call, so the filter forbids it. In a container: `--cap-add PERFMON`, or a \
                       profile that allows perf_event_open (`--security-opt seccomp=FILE`)";

/// What to do when whole CPUs may not be watched.
fn whole_system(limits: &Limits) -> String {
    let level = match limits.paranoid {
        Some(level) => format!("kernel.perf_event_paranoid is {level}"),
        None => "the kernel's setting is unknown".to_owned(),
    };
    format!(
        "Watching whole CPUs shows what all users run, and {level}. Allow it with `sysctl \
         kernel.perf_event_paranoid=0` (-1 with tracepoints), or give rprof CAP_PERFMON (`setcap \
         cap_perfmon+ep`; in a container `--cap-add PERFMON`); one's own processes take neither (-p)"
    )
}

/// What to do when a process may not be watched, though this user may watch his own.
pub(super) fn process_remedy(limits: &Limits) -> String {
    let seccomp = match limits.seccomp {
        true => " A seccomp filter is in force here as well",
        false => "",
    };
    format!(
        "It belongs to another user or has raised its privileges (setuid, file capabilities, \
         PR_SET_DUMPABLE), and such processes are for root, or with CAP_PERFMON (`setcap \
         cap_perfmon+ep`; in a container `--cap-add PERFMON`){seccomp}"
    )
}

/// The sentence for `EACCES` and `EPERM`.
fn permission(limits: &Limits) -> String {
    match limits.paranoid {
        Some(level) if level > 2 => format!(
            "kernel.perf_event_paranoid is {level}, which on many distributions shuts out all users without \
             privileges. Allow it with `sysctl kernel.perf_event_paranoid=2` (user side) or `=1` (kernel \
             as well), or run with CAP_PERFMON (in a container, `--cap-add PERFMON`, which also lifts \
             the usual seccomp filter)"
        ),
        Some(level) if level > 1 => format!(
            "kernel.perf_event_paranoid is {level}, which leaves users without privileges the user side of \
             their own processes. Ask for less (`:u`), or allow more with `sysctl \
             kernel.perf_event_paranoid=1` or CAP_PERFMON. If it is no more than that, a sandbox \
             (seccomp; in a container, `--cap-add PERFMON`) is in the way"
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
            remedy("cycles", Errno(errno), &limits, false)
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

    #[test]
    fn a_refusal_names_what_stands_in_the_way() {
        let said = |paranoid, seccomp, by_cpu, errno| {
            let limits = Limits {
                paranoid: Some(paranoid),
                seccomp,
                ..Limits::default()
            };
            remedy("cycles", Errno(errno), &limits, by_cpu)
        };
        for errno in [libc::EPERM, libc::EACCES, libc::ENOSYS] {
            assert!(said(2, true, false, errno).contains("seccomp filter"));
            assert!(said(-1, true, true, errno).contains("--cap-add PERFMON"));
        }
        // The setting is enough of an explanation, whatever filter there is.
        assert!(said(4, true, false, libc::EACCES).contains("perf_event_paranoid is 4"));
        let system = said(2, true, true, libc::EACCES);
        for named in [
            "kernel.perf_event_paranoid=0",
            "setcap cap_perfmon+ep",
            "--cap-add",
        ] {
            assert!(system.contains(named), "{system}");
        }
    }
}

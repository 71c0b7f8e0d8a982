//! Remedies as values. `Display` words them in general terms.

use crate::attr_part::{AttrPart, PartObstacle};
use crate::capability::Capability;
pub use crate::limits::paranoid_text;
use std::fmt;

/// Obstacle to an event or a ring buffer, with a remedy.
///
/// `Display` names system settings and the usual tools. Programs match on the value to suggest
/// flags of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// A seccomp filter forbids the call, and no setting can allow it.
    SeccompFilter,
    /// Profiling whole CPUs requires more rights.
    WholeCpus {
        /// `perf_event_paranoid`, if known.
        paranoid: Option<i32>,
    },
    /// Profiling the user's own processes requires more rights.
    Permission {
        /// `perf_event_paranoid`, if known.
        paranoid: Option<i32>,
        /// True if the setting alone forbids the event. Otherwise the process does.
        is_cause: bool,
    },
    /// The process belongs to another user, or has raised its privileges.
    ForeignProcess {
        /// True if there is also a seccomp filter.
        seccomp: bool,
    },
    /// The machine lacks the event.
    NoSuchEvent {
        /// Name of the event in messages.
        event: String,
    },
    /// An optional part of the attr is unavailable.
    Part {
        /// The optional part.
        part: AttrPart,
        /// Reason why it is unavailable.
        obstacle: PartObstacle,
    },
    /// Too many descriptors are open.
    OpenFiles {
        /// Soft limit, if known.
        limit: Option<u64>,
    },
    /// Another process holds the hardware counters exclusively.
    CountersHeld,
    /// No hardware counter of this type is free.
    CountersTaken,
    /// No debug register is free for a breakpoint.
    BreakpointsTaken,
    /// The kernel rejects these settings for the event.
    Settings {
        /// Name of the event in messages.
        event: String,
    },
    /// The kernel lacks a field of the attr.
    KernelTooOld,
    /// The callchain is deeper than `perf_event_max_stack`.
    CallchainDepth,
    /// The kernel has no perf events.
    NoPerfEvents,
    /// The thread has ended.
    TargetEnded,
    /// The descriptor is not a control group that supports events.
    NotACgroup,
    /// The kernel keeps no perf events for the control group.
    CgroupWithoutEvents,
    /// The kernel is out of memory.
    KernelMemory,
    /// The limit on locked memory is exhausted.
    LockedMemory {
        /// `perf_event_mlock_kb`, if known.
        mlock_kib: Option<u64>,
    },
    /// Memory for a ring buffer is missing.
    Memory,
    /// Unknown cause: see perf_event_open(2), section ERRORS.
    ManualErrors,
    /// Unknown cause: see perf_event_open(2), section "MMAP layout".
    ManualMmap,
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let capability = Capability::of_this_kernel();
        let (added, set) = (capability.for_containers(), capability.for_setcap());
        f.write_str(match self {
            Remedy::SeccompFilter => {
                return write!(
                    f,
                    "A seccomp filter forbids the call; perf_event_paranoid would allow it. In a \
                     container, use `--cap-add {added}`, or a profile that allows perf_event_open \
                     (`--security-opt seccomp=FILE`)"
                );
            }
            Remedy::WholeCpus { paranoid } => {
                let level = paranoid_text(*paranoid);
                return write!(
                    f,
                    "Whole CPUs are restricted, as they show all users' processes: {level}. Allow \
                     them with `sysctl kernel.perf_event_paranoid=0` (-1 with tracepoints), or give \
                     the program {capability} (`setcap {set}+ep`; in a container `--cap-add \
                     {added}`). Your own processes need neither"
                );
            }
            Remedy::Permission { paranoid, is_cause } => {
                return permission(*paranoid, *is_cause, capability, f);
            }
            Remedy::ForeignProcess { seccomp } => {
                let seccomp = match seccomp {
                    true => ". A seccomp filter is active here as well",
                    false => "",
                };
                return write!(
                    f,
                    "It belongs to another user or has raised its privileges (setuid, file \
                     capabilities, PR_SET_DUMPABLE). Run as root, or with {capability} (`setcap \
                     {set}+ep`; in a container `--cap-add {added}`){seccomp}"
                );
            }
            Remedy::NoSuchEvent { event } => {
                return write!(
                    f,
                    "This machine has no such event: `{event}` needs hardware counters, which virtual \
                     machines often hide. `cpu-clock` works everywhere"
                );
            }
            Remedy::Part { part, obstacle } => {
                return write!(f, "Recording {part} {obstacle}");
            }
            Remedy::OpenFiles { limit: Some(limit) } => {
                return write!(
                    f,
                    "Every event needs a file descriptor on every CPU, and the limit is {limit}; \
                     raise it with `ulimit -n`"
                );
            }
            Remedy::OpenFiles { limit: None } => {
                "Every event needs a file descriptor on every CPU; raise the limit with `ulimit -n`"
            }
            Remedy::CountersHeld => {
                "The NMI watchdog or another profiler holds the hardware counters exclusively; \
                 stop it, or sample `cpu-clock`"
            }
            Remedy::CountersTaken => {
                "All hardware counters of this kind are in use; record fewer events at once"
            }
            Remedy::BreakpointsTaken => {
                "All debug registers of the processor are in use, by debuggers or other breakpoint \
                 events (`mem:`); end one of these"
            }
            Remedy::Settings { event } => {
                return write!(
                    f,
                    "The kernel rejects these settings for `{event}`; try another modifier, a \
                     lower frequency or another event"
                );
            }
            Remedy::KernelTooOld => {
                "The running kernel is too old for a requested attribute; request less, or use a \
                 newer kernel"
            }
            Remedy::CallchainDepth => {
                "The requested callchain depth exceeds kernel.perf_event_max_stack; request less \
                 depth"
            }
            Remedy::NoPerfEvents => {
                "The kernel was built without perf events (CONFIG_PERF_EVENTS), or a sandbox forbids \
                 the call"
            }
            Remedy::TargetEnded => "The process ended before it could be recorded",
            Remedy::NotACgroup => "It is neither a cgroup of cgroup v2 nor one of the perf_event \
                                   hierarchy",
            Remedy::CgroupWithoutEvents => {
                "The kernel keeps no perf events for this control group, as no controller is on \
                 for it: `echo +pids > cgroup.subtree_control` in its parent's folder turns one on"
            }
            Remedy::KernelMemory => {
                "The kernel is out of memory; free some, or record fewer events"
            }
            Remedy::LockedMemory {
                mlock_kib: Some(kib),
            } => {
                return write!(
                    f,
                    "The limit on locked memory is {kib} KiB per CPU and user, shared by all your \
                     recordings; end others, or raise it with `sysctl kernel.perf_event_mlock_kb`, \
                     `ulimit -l` or CAP_IPC_LOCK ({capability} does not lift it)"
                );
            }
            Remedy::LockedMemory { mlock_kib: None } => {
                "The limit on locked memory is reached; raise it with `ulimit -l`"
            }
            Remedy::Memory => "Memory is short; free some",
            Remedy::ManualErrors => "See perf_event_open(2), section ERRORS",
            Remedy::ManualMmap => "See perf_event_open(2), section \"MMAP layout\"",
        })
    }
}

fn permission(
    paranoid: Option<i32>,
    is_cause: bool,
    capability: Capability,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let added = capability.for_containers();
    match paranoid {
        Some(level) if level > 2 => write!(
            f,
            "kernel.perf_event_paranoid is {level}, which on many distributions bars all \
             unprivileged users. Allow recording with `sysctl kernel.perf_event_paranoid=2` (user \
             mode) or `=1` (kernel as well), or run with {capability} (in a container, `--cap-add \
             {added}`, which also lifts the usual seccomp filter)"
        ),
        Some(level) if level > 1 && is_cause => write!(
            f,
            "kernel.perf_event_paranoid is {level}: unprivileged users may record only user-mode \
             code of their own processes. Add `:u` to the event, or allow more with `sysctl \
             kernel.perf_event_paranoid=1` or {capability}. If that does not help, a sandbox \
             (seccomp; in a container, `--cap-add {added}`) forbids the call"
        ),
        Some(level) => write!(
            f,
            "kernel.perf_event_paranoid is {level} and would allow it. Either the process belongs \
             to another user or raised its privileges, or a sandbox (seccomp; in a container, \
             `--cap-add {added}`) forbids the call"
        ),
        None => write!(
            f,
            "The call is forbidden here: {capability} is missing, or a sandbox (seccomp; in a \
             container, `--cap-add {added}`) forbids it"
        ),
    }
}

//! Steps down, as values.

use rprof_events::cpu_watch::Absence;
use rprof_perf_event::{Capability, Errno, ErrnoName, ErrnoText, Limits, ReadError};
use std::fmt;
use std::time::Duration;

/// A request that could not be met.
///
/// `Display` describes the step and its remedy, without flags of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Degradation {
    /// The default event does not exist, and another one replaces it.
    EventReplaced {
        /// Requested event.
        wanted: String,
        /// Sampled event.
        used: String,
        /// Error of the system call.
        errno: Errno,
    },
    /// The kernel side may not be sampled.
    KernelExcluded {
        /// `perf_event_paranoid`, if known.
        paranoid: Option<i32>,
    },
    /// Switches are recorded without stacks.
    OffCpuTimesOnly {
        /// `perf_event_paranoid`, if known.
        paranoid: Option<i32>,
    },
    /// Wakeups are not recorded.
    NoWakers {
        /// Cause and remedy.
        cause: String,
    },
    /// Requests are not recorded.
    NoRequests {
        /// Error of the system call.
        errno: Errno,
    },
    /// The frequency is lower than requested.
    FrequencyLowered {
        /// Requested frequency in Hz.
        wanted: u64,
        /// Used frequency in Hz.
        used: u64,
    },
    /// The rings are smaller than requested or than the default. Sizes are bytes per CPU of both
    /// rings.
    RingShrunk {
        /// Requested bytes.
        wanted: usize,
        /// Mapped bytes.
        used: usize,
        /// Error of the system call.
        errno: Errno,
    },
    /// Callchains are shorter than requested.
    StackDepthLowered {
        /// Requested number of addresses.
        wanted: u16,
        /// Maximum number of addresses.
        used: u16,
    },
    /// The kernel lacks a useful feature or does not permit it.
    FeatureDropped {
        /// The feature.
        feature: AttrFeature,
        /// Error of the system call.
        errno: Errno,
    },
    /// Sample addresses are less precise than requested.
    PrecisionLowered {
        /// Event as requested.
        wanted: String,
        /// Event as sampled.
        used: String,
        /// Error of the system call.
        errno: Errno,
    },
    /// The events of a group are counted separately.
    GroupTakenApart {
        /// A group member that could not be opened.
        event: String,
        /// Error of the system call.
        errno: Errno,
    },
    /// A named process or thread ended too early.
    TargetGone {
        /// Id of the process or thread.
        id: u32,
        /// True for a thread.
        is_thread: bool,
    },
    /// Events of whole CPUs replace those of each thread, which would take too many descriptors.
    /// Other processes' records are dropped.
    WholeCpus {
        /// Number of threads.
        threads: usize,
        /// Number of CPUs.
        cpus: usize,
        /// Descriptors that events of each thread would take.
        needed: usize,
        /// Maximum number of open descriptors.
        limit: u64,
    },
    /// The kernel refuses to sample some processes of a user.
    ProcessesRefused {
        /// Number of processes.
        count: usize,
        /// Id of one of them.
        example: u32,
        /// Error of the system call.
        errno: Errno,
    },
    /// The earlier mappings of some processes are not readable.
    MapsRefused {
        /// Number of processes.
        count: usize,
        /// Id of one of them.
        example: u32,
    },
    /// Build-ids of earlier mappings could not be read in time: a file server in user space (FUSE)
    /// or on the network hangs.
    FilesHang {
        /// Number of processes.
        count: usize,
        /// Id of one of them.
        example: u32,
    },
    /// A CPU went offline while recording.
    CpuLost {
        /// Number of the CPU.
        cpu: u32,
        /// Times when it was offline.
        absences: Vec<Absence>,
        /// Error when its events were opened again. It is missing from then on.
        refused: Option<Errno>,
    },
    /// A CPU came online while all CPUs were recorded. It is missing.
    CpuCame {
        /// Number of the CPU.
        cpu: u32,
        /// Time when it was first seen, since the start; `None` if unknown.
        after: Option<Duration>,
    },
    /// The drain threads do not have the requested real-time priority.
    RealtimeRefused {
        /// Requested priority.
        wanted: u8,
        /// Error of the system call.
        errno: Errno,
    },
    /// Stacks are not copied: this architecture's registers are unsupported.
    NoUserStack,
    /// An event was not counted for some or all of the time.
    CounterFailed {
        /// Name of the event as sampled.
        event: String,
        /// Affected CPUs.
        cpus: Vec<u32>,
        /// First read failure.
        error: ReadError,
    },
    /// A CPU went offline while events were opened.
    CpuSkipped {
        /// Number of the CPU.
        cpu: u32,
    },
    /// The drain threads keep their initial priority.
    PriorityUnchanged {
        /// Requested nice value.
        wanted: i32,
        /// Error of the system call.
        errno: Errno,
    },
}

/// Attr features that older kernels lack, newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AttrFeature {
    /// Lost samples in counter reads (`PERF_FORMAT_LOST`, Linux 6.0).
    ReadLost,
    /// Weights as three values (`PERF_SAMPLE_WEIGHT_STRUCT`, Linux 5.12).
    SplitWeight,
    /// Records of new kernel symbols and BPF programs (`ksymbol`, `bpf_event`, Linux 5.1).
    KernelSymbols,
    /// Callchain depth per event (`sample_max_stack`, Linux 4.8).
    MaxStack,
    /// Choice of the records' clock (`use_clockid`, Linux 4.1).
    ClockId,
}

impl AttrFeature {
    /// Returns the version of Linux that introduced it.
    pub fn since(self) -> &'static str {
        match self {
            AttrFeature::ReadLost => "6.0",
            AttrFeature::SplitWeight => "5.12",
            AttrFeature::KernelSymbols => "5.1",
            AttrFeature::MaxStack => "4.8",
            AttrFeature::ClockId => "4.1",
        }
    }

    /// Returns what a recording lacks without it, as a clause.
    pub fn without(self) -> &'static str {
        match self {
            AttrFeature::ReadLost => "samples lost at the very end are not counted",
            AttrFeature::SplitWeight => "weights are one value, without latencies",
            AttrFeature::KernelSymbols => "BPF programs loaded meanwhile stay unnamed",
            AttrFeature::MaxStack => "callchains have the system's depth",
            AttrFeature::ClockId => {
                "times are the kernel's own clock, and records may come out of order"
            }
        }
    }
}

impl Degradation {
    /// Returns true for a step that changes no sample and that no user can undo: the kernel is too
    /// old for a minor feature.
    pub fn is_minor(&self) -> bool {
        let minor = |feature| matches!(feature, AttrFeature::ReadLost | AttrFeature::KernelSymbols);
        matches!(self, Degradation::FeatureDropped { feature, .. } if minor(*feature))
    }
}

impl fmt::Display for Degradation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let capability = Capability::of_this_kernel();
        match self {
            Degradation::EventReplaced {
                wanted,
                used,
                errno,
            } => write!(
                f,
                "no `{wanted}` counter here ({}): `{used}` is sampled instead",
                ErrnoName(*errno)
            ),
            Degradation::KernelExcluded { paranoid } => write!(
                f,
                "only user-mode code is sampled: {}. To include the kernel: `sysctl \
                 kernel.perf_event_paranoid=1`, or {capability}",
                kernel_setting(*paranoid)
            ),
            Degradation::OffCpuTimesOnly { paranoid } => write!(
                f,
                "waits have times but no stacks: {}. To record stacks: `sysctl \
                 kernel.perf_event_paranoid=1`, or {capability}",
                kernel_setting(*paranoid)
            ),
            Degradation::NoWakers { cause } => {
                write!(f, "wakers are not recorded: {cause}")
            }
            Degradation::NoRequests { errno } => write!(
                f,
                "requests are not recorded: {}; {}",
                ErrnoText(*errno),
                without_requests(*errno)
            ),
            Degradation::FrequencyLowered { wanted, used } => write!(
                f,
                "samples are taken {used} times a second, not {wanted}: the kernel allows no more. \
                 To raise the limit: `sysctl kernel.perf_event_max_sample_rate={wanted}`"
            ),
            Degradation::RingShrunk {
                wanted,
                used,
                errno,
            } => write!(
                f,
                "ring buffers have {} KiB for each CPU, not {}: {}. To allow more: \
                 `sysctl kernel.perf_event_mlock_kb={}`, or CAP_IPC_LOCK",
                used / 1024,
                wanted / 1024,
                ErrnoText(*errno),
                (wanted + 2 * rustix::param::page_size()) / 1024,
            ),
            Degradation::StackDepthLowered { wanted, used } => write!(
                f,
                "callchains have at most {used} frames, not {wanted}. To allow more: \
                 `sysctl kernel.perf_event_max_stack={wanted}` while nothing is recorded"
            ),
            Degradation::FeatureDropped { feature, errno } => write!(
                f,
                "{}: the kernel refused it ({}). Linux {} or newer has it",
                feature.without(),
                ErrnoText(*errno),
                feature.since()
            ),
            Degradation::CpuSkipped { cpu } => write!(
                f,
                "CPU {cpu} is not recorded: it went offline. Record again to include it"
            ),
            Degradation::PrecisionLowered {
                wanted,
                used,
                errno,
            } => write!(
                f,
                "`{used}` is sampled, not `{wanted}`: this processor does not support that \
                 precision ({}). Addresses may be some instructions late; use fewer `p` to avoid \
                 this message",
                ErrnoName(*errno)
            ),
            Degradation::GroupTakenApart { event, errno } => write!(
                f,
                "the events of the group with `{event}` are counted separately: the kernel refused \
                 the group ({}). A smaller group may fit the counters",
                ErrnoName(*errno)
            ),
            Degradation::TargetGone { id, is_thread } => write!(
                f,
                "{} {id} is not recorded: it does not exist, or exited first. The other targets \
                 are recorded",
                if *is_thread { "thread" } else { "process" }
            ),
            Degradation::WholeCpus {
                threads,
                cpus,
                needed,
                limit,
            } => write!(
                f,
                "whole CPUs are sampled, and other processes left out: {threads} threads on {cpus} \
                 CPUs need {needed} file descriptors, and the limit is {limit}. To sample only the \
                 threads: `ulimit -n {needed}`"
            ),
            Degradation::ProcessesRefused {
                count,
                example,
                errno,
            } => write!(
                f,
                "{} of the user cannot be recorded (such as {example}): {}. Privileged processes \
                 need root or {capability}",
                processes(*count),
                ErrnoText(*errno)
            ),
            Degradation::MapsRefused { count: 1, example } => write!(
                f,
                "1 running process has no symbols (pid {example}): permission to read its mappings was denied"
            ),
            Degradation::MapsRefused { count, example } => write!(
                f,
                "{count} running processes have no symbols (such as pid {example}): permission to read their \
                 mappings was denied"
            ),
            Degradation::FilesHang { count, example } => write!(
                f,
                "no build-ids of the programs of {} (such as pid {example}): reading them timed \
                 out. Are they on a network or FUSE file system?",
                processes(*count)
            ),
            Degradation::CpuLost {
                cpu,
                absences,
                refused,
            } => cpu_lost(*cpu, absences, *refused, f),
            Degradation::CpuCame { cpu, after } => cpu_came(*cpu, *after, f),
            Degradation::RealtimeRefused { wanted, errno } => write!(
                f,
                "the recorder's threads keep their priority: real-time priority {wanted} was \
                 refused ({}). It needs CAP_SYS_NICE or `ulimit -r`",
                ErrnoText(*errno)
            ),
            Degradation::NoUserStack => write!(
                f,
                "stacks use frame pointers only: unwinding is not supported on this architecture"
            ),
            Degradation::CounterFailed { event, cpus, error } => {
                counter_failed(event, cpus, error, f)
            }
            Degradation::PriorityUnchanged { wanted, errno } => write!(
                f,
                "the recorder's threads keep their priority: nice {wanted} was refused ({}). It \
                 needs CAP_SYS_NICE or `ulimit -e`",
                ErrnoText(*errno)
            ),
        }
    }
}

fn cpu_lost(
    cpu: u32,
    absences: &[Absence],
    refused: Option<Errno>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let absences: Vec<String> = absences.iter().map(Absence::to_string).collect();
    write!(f, "CPU {cpu} was offline {}", absences.join(", and "))?;
    match refused {
        None => Ok(()),
        Some(errno) => write!(
            f,
            ", and what it ran afterwards is not in the recording: its events could not be opened \
             again ({}). Record again to include it",
            ErrnoText(errno)
        ),
    }
}

fn cpu_came(cpu: u32, after: Option<Duration>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "CPU {cpu} came online while recording")?;
    if let Some(after) = after {
        write!(f, ", after {:.1} s", after.as_secs_f64())?;
    }
    f.write_str(", and what it ran is not in the recording. Record again to include it")
}

fn counter_failed(
    event: &str,
    cpus: &[u32],
    error: &ReadError,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
    let remedy = match error {
        ReadError::PinnedWithoutCounter => ". Ask for fewer pinned events, or leave the `D` out",
        _ => "",
    };
    write!(
        f,
        "`{event}` was not counted all the time on CPU {}: {error}{remedy}",
        cpus.join(", ")
    )
}

fn kernel_setting(paranoid: Option<i32>) -> String {
    match paranoid {
        Some(level) => format!("kernel.perf_event_paranoid is {level}"),
        None => "this user may not profile the kernel".to_owned(),
    }
}

fn without_requests(errno: Errno) -> String {
    match errno {
        Errno::PERM | Errno::ACCESS => {
            without_bpf(rustix::process::geteuid().is_root(), &Limits::read())
        }
        _ => "requests need Linux 5.10 with BPF, on x86-64 or AArch64".to_owned(),
    }
}

/// Words cause and remedy if the kernel refuses BPF programs with EPERM.
fn without_bpf(is_root: bool, limits: &Limits) -> String {
    // Newer kernels count BPF memory in the control group.
    let counts_as_locked = limits.kernel.is_some_and(|version| version < (5, 11));
    match (limits.locked_memory, is_root) {
        (Some(bytes), _) if counts_as_locked && (is_root || limits.privileged) => format!(
            "the limit on locked memory ({} KiB) may be too low: `ulimit -l unlimited`",
            bytes >> 10
        ),
        _ if limits.seccomp => "a seccomp filter is active, as in most containers: run the \
                                container with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE"
            .to_owned(),
        (_, true) => "root lacks CAP_BPF here, or a security module forbids BPF programs: record \
                      from outside the container"
            .to_owned(),
        (_, false) => "it needs root, or CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE".to_owned(),
    }
}

fn processes(count: usize) -> String {
    match count {
        1 => "1 process".to_owned(),
        n => format!("{n} processes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_bpf_programs_have_their_cause() {
        let limits = |kernel, locked, seccomp| Limits {
            kernel: Some(kernel),
            locked_memory: locked,
            seccomp,
            privileged: true,
            ..Limits::default()
        };
        for (is_root, limits, cause) in [
            (true, limits((5, 10), Some(65_536), true), "(64 KiB)"),
            (true, limits((5, 10), None, false), "security module"),
            (true, limits((5, 11), Some(0), true), "seccomp"),
            (true, limits((6, 18), Some(0), false), "security module"),
            (false, Limits::default(), "needs root"),
        ] {
            let text = without_bpf(is_root, &limits);
            assert!(text.contains(cause), "{text}");
        }
    }

    #[test]
    fn steps_are_told_in_plain_words() {
        let errno = Errno::PERM;
        let steps = [
            Degradation::ProcessesRefused {
                count: 1,
                example: 7,
                errno,
            },
            Degradation::MapsRefused {
                count: 1,
                example: 7,
            },
            Degradation::MapsRefused {
                count: 2,
                example: 7,
            },
            Degradation::FilesHang {
                count: 2,
                example: 7,
            },
            Degradation::CpuLost {
                cpu: 3,
                absences: vec![Absence {
                    from: Duration::from_secs(3),
                    until: None,
                }],
                refused: Some(errno),
            },
            Degradation::CpuCame {
                cpu: 3,
                after: Some(Duration::from_secs(3)),
            },
            Degradation::NoUserStack,
            Degradation::OffCpuTimesOnly { paranoid: Some(2) },
            Degradation::OffCpuTimesOnly { paranoid: None },
            Degradation::CounterFailed {
                event: "cycles:D".to_owned(),
                cpus: vec![0, 3],
                error: ReadError::PinnedWithoutCounter,
            },
            Degradation::PriorityUnchanged { wanted: 1, errno },
        ];
        assert!(!steps.iter().any(Degradation::is_minor));
        for text in steps.map(|step| step.to_string()) {
            assert!(!text.contains("  "), "{text:?}");
            assert!(!text.contains("1 processes"), "{text:?}");
        }
    }
}

//! Steps down, as values for the user to see.

use rprof_perf_event::{Errno, ErrnoName, ErrnoText, ReadError};
use std::fmt;

/// Something that was asked for and could not be had.
///
/// `Display` is one sentence on what was done and one on what would undo it. Neither names a flag
/// of any program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Degradation {
    /// The default event does not exist here; another is sampled.
    EventReplaced {
        /// Event that was to be sampled.
        wanted: String,
        /// Event that is sampled.
        used: String,
        /// The kernel's answer.
        errno: Errno,
    },
    /// Samples of the kernel side are not allowed.
    KernelExcluded {
        /// `perf_event_paranoid`, if known.
        paranoid: Option<i32>,
    },
    /// It is told when threads leave their CPUs, and not with which stacks.
    OffCpuTimesOnly {
        /// `perf_event_paranoid`, if known.
        paranoid: Option<i32>,
    },
    /// Waits are recorded, and not who ends them.
    NoWakers {
        /// Why, and what helps.
        cause: String,
    },
    /// Fewer samples a second than asked for.
    FrequencyLowered {
        /// Samples a second asked for.
        wanted: u64,
        /// Samples a second that are taken.
        used: u64,
    },
    /// Smaller rings than asked for, or than the default. Sizes are bytes for each CPU,
    /// samples and sideband together.
    RingShrunk {
        /// Bytes wanted.
        wanted: usize,
        /// Bytes mapped.
        used: usize,
        /// The kernel's answer.
        errno: Errno,
    },
    /// Callchains are cut earlier than asked for.
    StackDepthLowered {
        /// Addresses asked for.
        wanted: u16,
        /// Addresses at most.
        used: u16,
    },
    /// The kernel lacks, or does not allow, something that recordings profit from.
    FeatureDropped {
        /// The feature.
        feature: Feature,
        /// The kernel's answer.
        errno: Errno,
    },
    /// Addresses of samples may be further off than asked for.
    PrecisionLowered {
        /// The event as it was asked for.
        wanted: String,
        /// The event as it is sampled.
        used: String,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The events of a group are counted one by one.
    GroupTakenApart {
        /// An event of the group that could not be opened in it.
        event: String,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A process or thread that was named had ended before it could be watched.
    TargetGone {
        /// Id of the process, thread or CPU.
        id: u32,
        /// True if it was named as a thread.
        is_thread: bool,
    },
    /// Processes of a user may not be watched.
    ProcessesRefused {
        /// Number of processes.
        count: usize,
        /// Id of one of them.
        example: u32,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The mappings of processes that ran before may not be read.
    MapsRefused {
        /// Number of processes.
        count: usize,
        /// Id of one of them.
        example: u32,
    },
    /// Files that processes which ran before have mapped did not answer when their build-ids were read: a server
    /// in user space (FUSE) or a network that hangs.
    FilesHang {
        /// Number of processes.
        count: usize,
        /// Id of one of them.
        example: u32,
    },
    /// A CPU went offline while it was watched.
    CpuLost {
        /// Id of the process, thread or CPU.
        cpu: u32,
    },
    /// A CPU came online while all were watched: what it ran since is not in the recording.
    CpuCame {
        /// Number of the CPU.
        cpu: u32,
    },
    /// The drain threads do not have the real-time priority asked for.
    RealtimeRefused {
        /// The priority asked for.
        wanted: u8,
        /// The kernel's answer.
        errno: Errno,
    },
    /// User stacks are not copied, as their registers are not known on this architecture.
    NoUserStack,
    /// An event was not counted, at least for a part of the time.
    CounterFailed {
        /// The event, as it was sampled.
        event: String,
        /// CPUs on which it was not.
        cpus: Vec<u32>,
        /// First failure to read it.
        error: ReadError,
    },
    /// A CPU went offline while events were opened.
    CpuSkipped {
        /// Id of the process, thread or CPU.
        cpu: u32,
    },
    /// The drain threads run with the priority they were started with.
    PriorityUnchanged {
        /// The nice value asked for.
        wanted: i32,
        /// The kernel's answer.
        errno: Errno,
    },
}

/// Parts of the attr that older kernels do not know, the newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// Number of lost samples in a counter read (`PERF_FORMAT_LOST`, Linux 6.0).
    ReadLost,
    /// Weights as three values (`PERF_SAMPLE_WEIGHT_STRUCT`, Linux 5.12).
    SplitWeight,
    /// Symbols and BPF programs that the kernel gains while recording (`ksymbol`, `bpf_event`, Linux 5.1).
    KernelSymbols,
    /// Depth of callchains for each event (`sample_max_stack`, Linux 4.8).
    MaxStack,
    /// Timestamps of a clock that others can read (`use_clockid`, Linux 4.1).
    ClockId,
}

impl Feature {
    /// Returns the first kernel that has it.
    fn since(self) -> &'static str {
        match self {
            Feature::ReadLost => "6.0",
            Feature::SplitWeight => "5.12",
            Feature::KernelSymbols => "5.1",
            Feature::MaxStack => "4.8",
            Feature::ClockId => "4.1",
        }
    }

    /// Returns a clause on what its absence means.
    fn without(self) -> &'static str {
        match self {
            Feature::ReadLost => "samples lost at the very end are not counted",
            Feature::SplitWeight => "weights are one value, without latencies",
            Feature::KernelSymbols => "BPF programs loaded meanwhile stay unnamed",
            Feature::MaxStack => "callchains have the system's depth",
            Feature::ClockId => {
                "times are the kernel's own clock, and records may come out of order"
            }
        }
    }
}

impl fmt::Display for Degradation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
                 kernel.perf_event_paranoid=1`, or CAP_PERFMON",
                kernel_setting(*paranoid)
            ),
            Degradation::OffCpuTimesOnly { paranoid } => write!(
                f,
                "waits have times but no stacks: {}. To record stacks: `sysctl \
                 kernel.perf_event_paranoid=1`, or CAP_PERFMON",
                kernel_setting(*paranoid)
            ),
            Degradation::NoWakers { cause } => {
                write!(f, "wakers are not recorded: {cause}")
            }
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
                // Two control pages come on top.
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
            Degradation::ProcessesRefused {
                count,
                example,
                errno,
            } => write!(
                f,
                "{} of the user cannot be recorded (such as {example}): {}. Privileged processes \
                 need root or CAP_PERFMON",
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
            Degradation::CpuLost { cpu } => write!(
                f,
                "CPU {cpu} went offline while recording; what it ran before is in the recording. \
                 Record again to include it"
            ),
            Degradation::CpuCame { cpu } => write!(
                f,
                "CPU {cpu} came online while recording, and what it ran is not in the recording. \
                 Record again to include it"
            ),
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
                let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
                let remedy = match error {
                    ReadError::PinnedWithoutCounter => {
                        ". Ask for fewer pinned events, or leave the `D` out"
                    }
                    _ => "",
                };
                write!(
                    f,
                    "`{event}` was not counted all the time on CPU {}: {error}{remedy}",
                    cpus.join(", ")
                )
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

/// Returns the setting that keeps the kernel's side from being sampled.
fn kernel_setting(paranoid: Option<i32>) -> String {
    match paranoid {
        Some(level) => format!("kernel.perf_event_paranoid is {level}"),
        None => "this user may not profile the kernel".to_owned(),
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

    /// Checks one step of each kind whose text goes over several lines of source.
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
            Degradation::CpuLost { cpu: 3 },
            Degradation::CpuCame { cpu: 3 },
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
        for text in steps.map(|step| step.to_string()) {
            assert!(!text.contains("  "), "{text:?}");
            assert!(!text.contains("1 processes"), "{text:?}");
        }
    }
}

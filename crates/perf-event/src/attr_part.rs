//! Optional parts of an attr, and the part that caused the kernel's refusal.
//!
//! One error number has many causes. If an attr uses a part that only some kernels, processors or
//! users have, the error names it, so that the user can omit it.

use crate::capability::Capability;
use crate::errno::{self, Errno};
use crate::limits::{Limits, paranoid_text};
use rprof_records::{Attr, AttrFlags, BranchSampleType, EventKind, GENERAL_REGISTERS, SampleType};
use std::fmt;

/// Optional part of an attr, which selects data to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AttrPart {
    /// Callchains from branch records of the processor (`PERF_SAMPLE_BRANCH_CALL_STACK`).
    BranchCallStacks,
    /// Branches before each sample (`PERF_SAMPLE_BRANCH_STACK`).
    Branches,
    /// Physical addresses (`PERF_SAMPLE_PHYS_ADDR`).
    PhysicalAddresses,
    /// Registers at the sample (`PERF_SAMPLE_REGS_INTR`).
    InterruptRegisters,
    /// Registers of user mode (`PERF_SAMPLE_REGS_USER`).
    UserRegisters,
    /// Weights as three values (`PERF_SAMPLE_WEIGHT_STRUCT`).
    SplitWeights,
    /// Page sizes at the data address (`PERF_SAMPLE_DATA_PAGE_SIZE`).
    DataPageSizes,
    /// Page sizes at the code address (`PERF_SAMPLE_CODE_PAGE_SIZE`).
    CodePageSizes,
    /// Control groups of samples, or their records (`PERF_SAMPLE_CGROUP`, `cgroup`).
    Cgroups,
    /// Records of namespaces (`namespaces`).
    Namespaces,
    /// Records of context switches (`context_switch`).
    ContextSwitches,
    /// Clock of the records (`clockid`).
    Clock,
    /// Payloads of tracepoints (`PERF_SAMPLE_RAW`).
    Payloads,
    /// Branches of the kernel (`PERF_SAMPLE_BRANCH_KERNEL`).
    KernelBranches,
    /// Inheritance only by threads (`inherit_thread`).
    InheritThread,
    /// Removal of the event on exec (`remove_on_exec`).
    RemoveOnExec,
    /// Signal at each overflow (`sigtrap`).
    Sigtrap,
    /// Build-ids in records of mappings (`build_id`).
    BuildIds,
    /// Records of changed kernel code (`text_poke`).
    TextPokes,
    /// Records of kernel symbols and BPF programs (`ksymbol`, `bpf_event`).
    KernelSymbols,
    /// Output to the AUX area of the group's leader (`aux_output`).
    AuxOutput,
    /// Pieces of an AUX trace in samples (`aux_sample_size`).
    AuxSamples,
    /// Ring buffer written backward (`write_backward`).
    WriteBackward,
    /// Further words of the event number (`config3`, `config4`).
    MoreConfig,
}

/// Reason why a part is unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PartObstacle {
    /// The processor lacks it or hides it.
    NoHardware,
    /// The user lacks the right.
    Rights {
        /// `perf_event_paranoid`, if known.
        paranoid: Option<i32>,
    },
    /// The running kernel is older than this version.
    Since(u16, u16),
    /// The kernel does not support these registers.
    UnknownRegisters,
    /// The kernel supports it for software events only.
    SoftwareOnly,
}

impl AttrPart {
    /// Finds the part that explains the kernel's refusal with `errno`, and the reason. Returns
    /// `None` if no part explains it.
    pub fn blamed(attr: &Attr, errno: Errno, limits: &Limits) -> Option<(AttrPart, PartObstacle)> {
        match errno {
            Errno::OPNOTSUPP => no_hardware(attr).map(|part| (part, PartObstacle::NoHardware)),
            errno if errno::is_refusal(errno) => rights(attr, limits),
            Errno::INVAL | Errno::TOOBIG => settings(attr, limits),
            _ => None,
        }
    }
}

fn known_registers() -> u64 {
    match GENERAL_REGISTERS {
        0 => u64::MAX,
        known => known,
    }
}

/// Returns the part that this processor lacks (`EOPNOTSUPP`).
fn no_hardware(attr: &Attr) -> Option<AttrPart> {
    let has_branches = attr.sample_type.contains(SampleType::BRANCH_STACK);
    let extended = attr.sample_regs_intr & !known_registers() != 0;
    match has_branches {
        true if (attr.branch_sample_type).contains(BranchSampleType::CALL_STACK) => {
            Some(AttrPart::BranchCallStacks)
        }
        true => Some(AttrPart::Branches),
        // Few PMUs support vector registers.
        false => extended.then_some(AttrPart::InterruptRegisters),
    }
}

/// Returns the part that requires more rights than the event (`perf_event_open` in
/// kernel/events/core.c).
fn rights(attr: &Attr, limits: &Limits) -> Option<(AttrPart, PartObstacle)> {
    let paranoid = limits.paranoid;
    let because = PartObstacle::Rights { paranoid };
    if limits.privileged {
        return None;
    }
    // Requires CAP_PERFMON, regardless of the setting.
    if attr.flags.contains(AttrFlags::NAMESPACES) {
        return Some((AttrPart::Namespaces, because));
    }
    let is_restricted = paranoid.is_none_or(|level| level > 1);
    let has = |field| attr.sample_type.contains(field);
    if has(SampleType::PHYS_ADDR) && is_restricted {
        return Some((AttrPart::PhysicalAddresses, because));
    }
    // perf_copy_attr: the same rights as for kernel samples.
    let branches = BranchSampleType::KERNEL | BranchSampleType::HV;
    if has(SampleType::BRANCH_STACK)
        && attr.branch_sample_type.intersects(branches)
        && is_restricted
    {
        return Some((AttrPart::KernelBranches, because));
    }
    // perf_trace_event_perm: payloads contain other users' data, except for own system calls.
    let is_traced = attr.kind == EventKind::TRACEPOINT && has(SampleType::RAW);
    let is_raw_restricted = paranoid.is_none_or(|level| level > -1);
    (is_traced && is_raw_restricted).then_some((AttrPart::Payloads, because))
}

/// Returns the part that the kernel does not support (`EINVAL`, `E2BIG`).
fn settings(attr: &Attr, limits: &Limits) -> Option<(AttrPart, PartObstacle)> {
    const SOFTWARE: [EventKind; 3] = [
        EventKind::SOFTWARE,
        EventKind::TRACEPOINT,
        EventKind::BREAKPOINT,
    ];
    // Clocks that can be read in an NMI: CLOCK_MONOTONIC and CLOCK_MONOTONIC_RAW.
    let is_safe = [1, 4].contains(&attr.clockid);
    let has_clock = attr.flags.contains(AttrFlags::USE_CLOCKID);
    if has_clock && !is_safe && !SOFTWARE.contains(&attr.kind) {
        return Some((AttrPart::Clock, PartObstacle::SoftwareOnly));
    }
    let unknown = PartObstacle::UnknownRegisters;
    if attr.sample_regs_user & !known_registers() != 0 {
        return Some((AttrPart::UserRegisters, unknown));
    }
    if attr.sample_regs_intr & !known_registers() != 0 {
        return Some((AttrPart::InterruptRegisters, unknown));
    }
    let kernel = limits.kernel?;
    let kernel_symbols = AttrPart::KernelSymbols;
    let fields = [
        (SampleType::WEIGHT_STRUCT, AttrPart::SplitWeights, (5, 12)),
        (SampleType::CODE_PAGE_SIZE, AttrPart::CodePageSizes, (5, 11)),
        (SampleType::DATA_PAGE_SIZE, AttrPart::DataPageSizes, (5, 11)),
        (SampleType::CGROUP, AttrPart::Cgroups, (5, 7)),
        (SampleType::PHYS_ADDR, AttrPart::PhysicalAddresses, (4, 14)),
        (SampleType::REGS_INTR, AttrPart::InterruptRegisters, (3, 19)),
    ];
    let flags = [
        (AttrFlags::INHERIT_THREAD, AttrPart::InheritThread, (5, 13)),
        (AttrFlags::REMOVE_ON_EXEC, AttrPart::RemoveOnExec, (5, 13)),
        (AttrFlags::SIGTRAP, AttrPart::Sigtrap, (5, 13)),
        (AttrFlags::BUILD_ID, AttrPart::BuildIds, (5, 12)),
        (AttrFlags::TEXT_POKE, AttrPart::TextPokes, (5, 9)),
        (AttrFlags::CGROUP, AttrPart::Cgroups, (5, 7)),
        (AttrFlags::AUX_OUTPUT, AttrPart::AuxOutput, (5, 4)),
        (AttrFlags::BPF_EVENT, kernel_symbols, (5, 1)),
        (AttrFlags::KSYMBOL, kernel_symbols, (5, 1)),
        (AttrFlags::WRITE_BACKWARD, AttrPart::WriteBackward, (4, 7)),
        (AttrFlags::NAMESPACES, AttrPart::Namespaces, (4, 12)),
        (AttrFlags::CONTEXT_SWITCH, AttrPart::ContextSwitches, (4, 3)),
        (AttrFlags::USE_CLOCKID, AttrPart::Clock, (4, 1)),
    ];
    let fields = (fields.into_iter()).filter(|(field, ..)| attr.sample_type.contains(*field));
    let flags = (flags.into_iter()).filter(|(flag, ..)| attr.flags.contains(*flag));
    // Older kernels require zeroes.
    let words = [
        (attr.config4 != 0, AttrPart::MoreConfig, (6, 18)),
        (attr.config3 != 0, AttrPart::MoreConfig, (6, 3)),
        (attr.aux_sample_size != 0, AttrPart::AuxSamples, (5, 5)),
    ];
    let words = words.into_iter().filter(|(is_set, ..)| *is_set);
    let asked = fields.map(|(_, part, since)| (part, since));
    let asked = asked.chain(words.map(|(_, part, since)| (part, since)));
    let mut asked = asked.chain(flags.map(|(_, part, since)| (part, since)));
    let (part, since) = asked.find(|(_, since)| kernel < *since)?;
    Some((part, PartObstacle::Since(since.0, since.1)))
}

impl fmt::Display for AttrPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AttrPart::BranchCallStacks => "branch call stacks (LBR)",
            AttrPart::Branches => "branches",
            AttrPart::PhysicalAddresses => "physical addresses",
            AttrPart::InterruptRegisters => "registers at the sample's interrupt",
            AttrPart::UserRegisters => "user-mode registers",
            AttrPart::SplitWeights => "three-part weights",
            AttrPart::DataPageSizes => "data page sizes",
            AttrPart::CodePageSizes => "code page sizes",
            AttrPart::Cgroups => "cgroups of samples",
            AttrPart::Namespaces => "namespace records",
            AttrPart::ContextSwitches => "context switch records",
            AttrPart::Clock => "with the requested clock",
            AttrPart::Payloads => "tracepoint payloads",
            AttrPart::KernelBranches => "kernel branches",
            AttrPart::InheritThread => "with inheritance by threads only",
            AttrPart::RemoveOnExec => "with removal at exec",
            AttrPart::Sigtrap => "with a signal at each overflow",
            AttrPart::BuildIds => "build-ids of mappings",
            AttrPart::TextPokes => "kernel text poke records",
            AttrPart::KernelSymbols => "kernel symbol and BPF program records",
            AttrPart::AuxOutput => "with output into a group leader's AUX area",
            AttrPart::AuxSamples => "AUX data in samples",
            AttrPart::WriteBackward => "into a backward-written ring buffer",
            AttrPart::MoreConfig => "with this many configuration words",
        })
    }
}

impl fmt::Display for PartObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartObstacle::NoHardware => f.write_str(
                "needs a processor with this feature and access to its hardware counters, which \
                 virtual machines often hide",
            ),
            PartObstacle::Rights { paranoid } => {
                let setting = paranoid_text(*paranoid);
                let capability = Capability::of_this_kernel();
                write!(f, "needs root or {capability}: {setting}")
            }
            PartObstacle::Since(major, minor) => {
                write!(f, "needs Linux {major}.{minor} or newer")
            }
            PartObstacle::UnknownRegisters => {
                f.write_str("failed: this kernel does not provide all of these registers")
            }
            PartObstacle::SoftwareOnly => f.write_str(
                "works with software events and tracepoints only; monotonic and monotonic_raw work \
                 with all events",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blamed(attr: &Attr, errno: Errno, kernel: (u16, u16)) -> Option<(AttrPart, PartObstacle)> {
        let limits = Limits {
            paranoid: Some(2),
            kernel: Some(kernel),
            ..Limits::default()
        };
        AttrPart::blamed(attr, errno, &limits)
    }

    #[test]
    fn a_refusal_is_about_what_was_asked_for() {
        let with = |sample_type| Attr {
            sample_type,
            ..Attr::default()
        };
        let new = (6, 1);
        let plain = Attr::default();
        for errno in [Errno::OPNOTSUPP, Errno::ACCESS, Errno::INVAL, Errno::TOOBIG] {
            assert_eq!(blamed(&plain, errno, (3, 0)), None, "{errno}");
        }
        let rights = PartObstacle::Rights { paranoid: Some(2) };
        assert_eq!(
            blamed(&with(SampleType::BRANCH_STACK), Errno::OPNOTSUPP, new),
            Some((AttrPart::Branches, PartObstacle::NoHardware))
        );
        assert_eq!(
            blamed(&with(SampleType::PHYS_ADDR), Errno::ACCESS, new),
            Some((AttrPart::PhysicalAddresses, rights))
        );
        for (sample_type, part, since) in [
            (SampleType::CGROUP, AttrPart::Cgroups, (5, 7)),
            (SampleType::DATA_PAGE_SIZE, AttrPart::DataPageSizes, (5, 11)),
            (SampleType::WEIGHT_STRUCT, AttrPart::SplitWeights, (5, 12)),
        ] {
            let attr = with(sample_type);
            let expected = Some((part, PartObstacle::Since(since.0, since.1)));
            assert_eq!(blamed(&attr, Errno::INVAL, (5, 4)), expected);
            assert_eq!(blamed(&attr, Errno::INVAL, since), None);
        }
        let namespaces = Attr {
            flags: AttrFlags::NAMESPACES,
            ..Attr::default()
        };
        assert_eq!(
            blamed(&namespaces, Errno::ACCESS, new),
            Some((AttrPart::Namespaces, rights))
        );
    }

    #[test]
    fn rights_and_ages_of_kernels_have_one_part_each() {
        let refused = |attr: &Attr, paranoid| {
            let limits = Limits {
                paranoid: Some(paranoid),
                ..Limits::default()
            };
            AttrPart::blamed(attr, Errno::ACCESS, &limits).map(|(part, _)| part)
        };
        let payload = Attr {
            kind: EventKind::TRACEPOINT,
            sample_type: SampleType::RAW,
            ..Attr::default()
        };
        assert_eq!(refused(&payload, 0), Some(AttrPart::Payloads));
        assert_eq!(refused(&payload, -1), None);
        let branches = Attr {
            sample_type: SampleType::BRANCH_STACK,
            branch_sample_type: BranchSampleType::ANY | BranchSampleType::KERNEL,
            ..Attr::default()
        };
        assert_eq!(refused(&branches, 2), Some(AttrPart::KernelBranches));
        assert_eq!(refused(&branches, 1), None);
        let flags = [
            (AttrFlags::SIGTRAP, AttrPart::Sigtrap, (5, 13)),
            (AttrFlags::KSYMBOL, AttrPart::KernelSymbols, (5, 1)),
            (AttrFlags::WRITE_BACKWARD, AttrPart::WriteBackward, (4, 7)),
        ];
        for (flags, part, since) in flags {
            let attr = Attr {
                flags,
                ..Attr::default()
            };
            let expected = Some((part, PartObstacle::Since(since.0, since.1)));
            assert_eq!(blamed(&attr, Errno::TOOBIG, (4, 4)), expected);
            assert_eq!(blamed(&attr, Errno::TOOBIG, since), None);
        }
        let words = Attr {
            config3: 1,
            ..Attr::default()
        };
        let part = blamed(&words, Errno::TOOBIG, (6, 1)).map(|(part, _)| part);
        assert_eq!(part, Some(AttrPart::MoreConfig));
    }

    #[test]
    fn clocks_and_registers_are_blamed_by_their_values() {
        let clock = |kind, clockid| Attr {
            kind,
            clockid,
            flags: AttrFlags::USE_CLOCKID,
            ..Attr::default()
        };
        let of = |attr: &Attr| blamed(attr, Errno::INVAL, (6, 1));
        let only = Some((AttrPart::Clock, PartObstacle::SoftwareOnly));
        assert_eq!(of(&clock(EventKind::HARDWARE, 0)), only);
        assert_eq!(of(&clock(EventKind::SOFTWARE, 0)), None);
        assert_eq!(of(&clock(EventKind::HARDWARE, 4)), None);
        let registers = Attr {
            sample_regs_intr: 1 << 63,
            ..Attr::default()
        };
        if known_registers() != u64::MAX {
            let unknown = (AttrPart::InterruptRegisters, PartObstacle::UnknownRegisters);
            assert_eq!(of(&registers), Some(unknown));
        }
    }
}

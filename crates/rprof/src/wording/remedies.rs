//! Remedies that name rprof's flags. The libraries describe only the cause.

use std::io::{Error, ErrorKind};
use std::path::Path;

use rprof_export::clean::brief;
use rprof_export::verdict::Finding;
use rprof_output::OutputError;
use rprof_perf_event::{AttrPart, Capability, OpenEventError, Remedy};
use rprof_perfdata::Error as ReadError;
use rprof_profile::Reason;
use rprof_recorder::RecordError;
use rprof_sampler::{Degradation, OpenEventsError, SessionError};
use rustix::thread::CapabilitySet;

use crate::wording::object_remedies;

/// Remedy for input without memory over time.
pub(crate) const FOR_MISSING_SNAPSHOTS: &str =
    "`rprof record --memory` and `--alloc` record memory over time";

/// Remedy for input without waits.
pub(crate) const FOR_MISSING_WAITS: &str = "`rprof record --off-cpu` records waits";

pub(crate) fn of_failure(error: RecordError) -> anyhow::Error {
    let worded = match &error {
        RecordError::Session(SessionError::Open(OpenEventsError::Event(refused))) => {
            of_event(refused)
        }
        RecordError::Session(SessionError::Open(OpenEventsError::TooManyFiles {
            threads,
            cpus,
            needed,
            limit,
        })) => Some(format!(
            "{threads} threads on {cpus} CPUs need {needed} file descriptors, but the limit is \
             {limit}: raise it (`ulimit -Hn`, or LimitNOFILE= of the service), record fewer CPUs \
             (-C) or threads (-t), or the whole system (-a), which needs few per CPU"
        )),
        RecordError::Output(refused) => of_output(refused).map(|remedy| format!("{error}{remedy}")),
        _ => None,
    };
    worded.map_or_else(|| error.into(), anyhow::Error::msg)
}

pub(crate) fn of_event(refused: &OpenEventError) -> Option<String> {
    let remedy = match &refused.remedy {
        Remedy::WholeCpus { paranoid } => {
            let level = rprof_perf_event::remedy::paranoid_text(*paranoid);
            let right = Capability::of_this_kernel();
            let (added, set) = (right.for_containers(), right.for_setcap());
            format!(
                "Whole CPUs need privileges, as {level}: set `sysctl kernel.perf_event_paranoid=0` \
                 (-1 with tracepoints), or give rprof {right} (`setcap {set}+ep`; in a \
                 container `--cap-add {added}`); your own processes need neither (-p)"
            )
        }
        remedy @ Remedy::Part { part, .. } => match flag_of(*part) {
            Some(flag) => format!("{remedy}. Without {flag}, the rest can be recorded"),
            None if *part == AttrPart::BranchCallStacks => {
                format!("{remedy}. `--call-graph auto` needs neither")
            }
            None => return None,
        },
        remedy @ Remedy::BreakpointsTaken => {
            format!("{remedy}. For memory, `--memory` needs none")
        }
        _ => return None,
    };
    Some(format!("{}. {remedy}", refused.what_failed()))
}

/// Returns the `record` flag that requests a part of samples or a kind of records.
fn flag_of(part: AttrPart) -> Option<&'static str> {
    Some(match part {
        AttrPart::Branches => "-b and -j",
        AttrPart::PhysicalAddresses => "--phys-data",
        AttrPart::InterruptRegisters => "--intr-regs",
        AttrPart::UserRegisters => "--user-regs",
        AttrPart::SplitWeights => "--weight",
        AttrPart::DataPageSizes => "--data-page-size",
        AttrPart::CodePageSizes => "--code-page-size",
        AttrPart::Cgroups => "--all-cgroups",
        AttrPart::Namespaces => "--namespaces",
        AttrPart::ContextSwitches => "--switch-events",
        AttrPart::Clock => "--clockid",
        _ => return None,
    })
}

pub(crate) fn of_output(error: &OutputError) -> Option<&'static str> {
    let is_full = |source: &Error| source.kind() == ErrorKind::StorageFull;
    match error {
        OutputError::Create { source, .. } | OutputError::Write { source, .. }
            if is_full(source) =>
        {
            Some(". Free space there, or choose another file with -o")
        }
        OutputError::NoReader { .. } => Some(
            ". Start its reader first, or name a file with -o; `-o - | COMMAND` needs no named pipe",
        ),
        OutputError::InTheWay { .. }
        | OutputError::LinkToDevice { .. }
        | OutputError::LinkIntoSystem { .. }
        | OutputError::Create { .. } => Some(". Choose another file with -o"),
        OutputError::Rename { .. } => Some(". Remove it, or choose another file with -o"),
        _ => None,
    }
}

/// Returns the degradations to print: without `-v`, none that only a newer kernel would undo.
/// `rprof doctor` lists these.
pub(crate) fn worth_saying(
    steps: &[Degradation],
    verbose: bool,
) -> impl Iterator<Item = &Degradation> {
    steps.iter().filter(move |step| verbose || !step.is_minor())
}

pub(crate) fn of_step(step: &Degradation) -> String {
    match step {
        Degradation::NoUserStack => {
            format!("{step}. `--call-graph fp` does the same without this message")
        }
        Degradation::MapsRefused { .. } => {
            let rights = rustix::thread::capabilities(None).map(|sets| sets.effective);
            let is_root = rustix::process::geteuid().is_root();
            let remedy = match rights.is_ok_and(|set| set.contains(CapabilitySet::SYS_PTRACE)) {
                // Seen for pid 1 of a container, as its root with this capability.
                true => {
                    "CAP_SYS_PTRACE does not suffice: the process has more capabilities, or a \
                     security module protects it"
                }
                false if is_root => {
                    "rprof needs CAP_SYS_PTRACE (in a container `--cap-add SYS_PTRACE`)"
                }
                false => "run rprof as root, or with CAP_SYS_PTRACE",
            };
            format!("{step}; {remedy}")
        }
        step => step.to_string(),
    }
}

pub(crate) fn of_finding(finding: &Finding) -> String {
    let remedy = match finding {
        Finding::Stacks {
            lacks_frame_pointers: true,
            ..
        } => ": `rprof record` needs none",
        Finding::Stacks { on_other_stack, .. } if *on_other_stack >= 1.0 => {
            ": `rprof record` shows its callers where it can"
        }
        Finding::Unnamed {
            reason: Reason::Unidentified,
            ..
        } => {
            ". Report on the recorded machine (if this is it, trust its files with `--symfs /`), \
             or record with build-ids."
        }
        Finding::Unnamed {
            reason: Reason::HeaderMissing,
            ..
        } => {
            ". Copy the whole recording, or record again (if this machine made it, trust its \
             programs with `--symfs /`)."
        }
        Finding::Unnamed {
            reason: Reason::ForeignKernel,
            ..
        } => {
            ". Report on the recorded machine while the same kernel runs, or give its vmlinux (-k)."
        }
        Finding::Unsampled {
            longer_than_tasks: Some(_),
            unrecorded_cpus: 0,
            ..
        } => "; `-F 20000` shortens that, and -a has no such ends",
        Finding::Unsampled {
            longer_than_tasks: None,
            unrecorded_cpus: 0,
            privileged_programs: 1..,
            ..
        } => "; record the whole system while they run (-a)",
        Finding::Waited {
            throttled: Some(_), ..
        } => "; a higher quota (`cpu.max`, or `cpu.cfs_quota_us` of version 1) lets it run",
        Finding::Waited {
            off_cpu: Some(off_cpu),
            ..
        } if off_cpu.stopped > off_cpu.asleep.max(off_cpu.waiting) => "",
        Finding::Waited {
            off_cpu: Some(off_cpu),
            ..
        } if off_cpu.waiting > off_cpu.asleep => "; other programs kept the CPUs busy",
        Finding::Waited { .. } => "; `rprof record --off-cpu` shows where",
        Finding::Idle { .. } => "; --no-fold-idle shows them separately",
        Finding::Stacks {
            runtime: Some(runtime),
            ..
        } => match object_remedies::for_stacks_of(*runtime) {
            Some(remedy) => return format!("{}: {remedy}", finding.statement()),
            None => return finding.to_string(),
        },
        Finding::Unnamed {
            runtime: Some(runtime),
            ..
        } => {
            let remedy = object_remedies::for_names_of(*runtime);
            return format!("{}. {remedy}", finding.statement());
        }
        // The package search takes time.
        Finding::Unnamed {
            object,
            reason,
            own,
            ..
        } if *own >= 1.0 => {
            return match object_remedies::of_object(object, *reason, *own) {
                Some(remedy) => format!("{}. {remedy}", finding.statement()),
                None => finding.to_string(),
            };
        }
        Finding::Interpreter {
            function, object, ..
        } => {
            return match object_remedies::of_interpreter(function, object) {
                Some(remedy) => format!("{}. {remedy}", finding.statement()),
                None => finding.to_string(),
            };
        }
        Finding::HidesInlined { .. } => {
            ": build with `debug = 1` in the profile (`CARGO_PROFILE_RELEASE_DEBUG=1`)"
        }
        Finding::ByLanguage { .. } => " (--no-by-language shows them)",
        Finding::Lost { .. } => "; record with -m 64M, or with a lower -F or higher -c",
        Finding::Throttled { .. } => "; lower -F, or raise kernel.perf_event_max_sample_rate",
        _ => return finding.to_string(),
    };
    format!("{}{remedy}", finding.statement())
}

/// Explains missing samples by events that are no clocks; `None` if one is a clock, which only an
/// idle target lacks.
pub(crate) fn of_rare_event<'e>(events: impl Iterator<Item = &'e str>) -> Option<String> {
    let mut events = events
        .filter(|event| !event.starts_with("dummy"))
        .peekable();
    let first = brief(events.peek()?);
    let is_clock = |event: &str| event.contains("clock") || event.contains("cycles");
    // Descriptions of unknown events have blanks: `PMU 95, config 0x4000`.
    let counted_by = match first.contains(' ') {
        true => String::new(),
        false => format!(": `rprof stat -e {first}` counts it"),
    };
    (!events.any(is_clock))
        .then(|| format!("the event did not occur in the target, or too rarely{counted_by}"))
}

/// Returns true for a name such as `512M`, an argument of an option that takes a size.
fn is_size(path: &Path) -> bool {
    let text = path.to_str().unwrap_or_default();
    let digits = text.trim_end_matches(['K', 'M', 'G', 'k', 'm', 'g']);
    digits.len() + 1 == text.len() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

pub(crate) fn of_unreadable(error: &ReadError) -> String {
    match error {
        ReadError::NotAFile { .. } => {
            format!("{error}; name a perf.data file, or - for standard input")
        }
        ReadError::Read { path, source }
            if source.kind() == ErrorKind::NotFound && path == Path::new("perf.data") =>
        {
            format!(
                "{error}; make one with `rprof record -- COMMAND`, or name another file (- for \
                 standard input)"
            )
        }
        ReadError::Read { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            format!("{error}; only its owner may read a recording: use the same user, or chown(1)")
        }
        ReadError::Read { path, source }
            if source.kind() == ErrorKind::NotFound && is_size(path) =>
        {
            format!(
                "{error}; name a recording, or limit the memory of rprof itself with \
                 `--memory-limit {}`",
                path.display()
            )
        }
        ReadError::Read { path, source }
            if source.kind() == ErrorKind::NotFound && path == Path::new("perf.data.old") =>
        {
            format!(
                "{error}; a second `rprof record` moves the first recording there; or name both \
                 files: rprof diff OLD NEW"
            )
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_perf_event::{Errno, Limits, OpenOptions, Subject};
    use rprof_records::{Attr, BranchSampleType, SampleType};

    fn failure(errno: Errno, attr: &Attr) -> String {
        let limits = Limits {
            paranoid: Some(2),
            ..Limits::default()
        };
        let options = OpenOptions::new(attr).subject(Subject::All).cpu(0);
        let refused = options.explain("cycles", errno, &limits);
        failure_of(SessionError::from(OpenEventsError::from(refused)))
    }

    fn failure_of(error: impl Into<RecordError>) -> String {
        of_failure(error.into()).to_string()
    }

    #[test]
    fn findings_of_the_verdict_name_the_flags_that_help() {
        let unnamed = |reason| Finding::Unnamed {
            share: 2.0,
            own: 1.0,
            object: "x".into(),
            reason,
            runtime: None,
        };
        let flags = [
            (Finding::Lost { lost: 1, all: 2 }, "-m 64M"),
            (Finding::Throttled { times: 3 }, "lower -F, or raise"),
            (
                Finding::HidesInlined {
                    share: 86.0,
                    function: "hides::hot".into(),
                },
                "in hides::hot, 86% of self: build with `debug = 1`",
            ),
            (unnamed(Reason::Unidentified), "`--symfs /`"),
            (unnamed(Reason::HeaderMissing), "`--symfs /`"),
            (unnamed(Reason::ForeignKernel), "(-k)"),
            (
                Finding::Stacks {
                    complete: 10.0,
                    lacks_frame_pointers: true,
                    on_other_stack: 0.0,
                    runtime: None,
                },
                "`rprof record`",
            ),
            (
                Finding::Stacks {
                    complete: 60.0,
                    lacks_frame_pointers: false,
                    on_other_stack: 40.0,
                    runtime: None,
                },
                "40.0% end at a switch to another stack",
            ),
        ];
        for (finding, flag) in flags {
            let text = of_finding(&finding);
            assert!(text.starts_with(&finding.statement()), "{text}");
            assert!(text.contains(flag), "{text}");
            assert!(!finding.to_string().contains(" -"), "{finding}");
        }
        for reason in Reason::ALL {
            let text = unnamed(*reason).to_string();
            assert!(!text.contains("rprof") && !text.contains("(-"), "{text}");
        }
    }

    #[test]
    fn flags_are_offered_where_they_help() {
        let text = failure(Errno::ACCESS, &Attr::default());
        assert!(
            text.starts_with(
                "cannot open event `cycles` on CPU 0: Permission denied (EACCES). Whole CPUs"
            ) && text.contains("kernel.perf_event_paranoid is 2")
                && text.ends_with("your own processes need neither (-p)"),
            "{text}"
        );
        let branches = Attr {
            sample_type: SampleType::BRANCH_STACK,
            ..Attr::default()
        };
        let text = failure(Errno::OPNOTSUPP, &branches);
        assert!(
            text.contains("Recording branches needs a processor")
                && text.ends_with("Without -b and -j, the rest can be recorded"),
            "{text}"
        );
        let lbr = Attr {
            branch_sample_type: BranchSampleType::CALL_STACK,
            ..branches
        };
        let text = failure(Errno::OPNOTSUPP, &lbr);
        assert!(
            text.ends_with("which virtual machines often hide. `--call-graph auto` needs neither"),
            "{text}"
        );
        let files = OpenEventsError::TooManyFiles {
            threads: 1,
            cpus: 2,
            needed: 3,
            limit: 4,
        };
        let text = failure_of(SessionError::from(files));
        assert!(text.contains("(-C)") && text.contains("(-a)"), "{text}");
        let text = failure(Errno::BUSY, &Attr::default());
        assert!(text.contains("watchdog"), "{text}");
        assert!(of_step(&Degradation::NoUserStack).ends_with(
            "`--call-graph fp` does the same without \
                this message"
        ));
    }
}

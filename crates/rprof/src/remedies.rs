//! Remedies that name flags of this program. The libraries say what stands in the way.

use rprof_output::OutputError;
use rprof_perf_event::{OpenEventError, Remedy};
use rprof_recorder::RecordError;
use rprof_sampler::{Degradation, OpenError, SessionError};

/// Words a failure to record, with the flags that would help.
pub(crate) fn of_failure(error: RecordError) -> anyhow::Error {
    let worded = match &error {
        RecordError::Session(SessionError::Open(OpenError::Event(refused))) => of_event(refused),
        RecordError::Session(SessionError::Open(OpenError::TooManyFiles {
            threads,
            cpus,
            needed,
            limit,
        })) => Some(format!(
            "watching {threads} threads on {cpus} CPUs takes {needed} file descriptors, and {limit} may be \
             open. Raise the limit (`ulimit -Hn`, or LimitNOFILE= of the service), watch fewer CPUs (-C) or \
             threads (-t), or everything (-a), which takes few for each CPU"
        )),
        RecordError::Output(refused) => of_output(refused).map(|remedy| format!("{error}{remedy}")),
        _ => None,
    };
    worded.map_or_else(|| error.into(), anyhow::Error::msg)
}

fn of_event(refused: &OpenEventError) -> Option<String> {
    let remedy = match &refused.remedy {
        Remedy::WholeCpus { paranoid } => {
            let level = rprof_perf_event::remedy::paranoid_text(*paranoid);
            format!(
                "Watching whole CPUs shows what all users run, and {level}. Allow it with `sysctl \
                 kernel.perf_event_paranoid=0` (-1 with tracepoints), or give rprof CAP_PERFMON (`setcap \
                 cap_perfmon+ep`; in a container `--cap-add PERFMON`); one's own processes take neither (-p)"
            )
        }
        remedy @ Remedy::NoBranchRecords => {
            format!("{remedy}. `--call-graph auto` needs neither")
        }
        _ => return None,
    };
    Some(format!("{}. {remedy}", refused.what_failed()))
}

/// Returns what helps against an output that cannot be made, to stand behind the message.
pub(crate) fn of_output(error: &OutputError) -> Option<&'static str> {
    match error {
        OutputError::NoReader { .. } => Some(
            ". Start its reader first, or name a file with -o; `-o - | COMMAND` needs no named pipe",
        ),
        OutputError::InTheWay { .. }
        | OutputError::LinkToDevice { .. }
        | OutputError::LinkIntoSystem { .. }
        | OutputError::Create { .. } => Some(". Choose another file with -o"),
        OutputError::Rename { .. } => Some(". Take it away, or choose another file with -o"),
        _ => None,
    }
}

/// Words a step down, with the flag that would help.
pub(crate) fn of_step(step: &Degradation) -> String {
    match step {
        Degradation::NoUserStack => format!("{step}. `--call-graph fp` asks for just that"),
        step => step.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_perf_event::{Errno, Limits, OpenOptions, Subject};
    use rprof_records::{Attr, SampleType};

    fn failure(errno: Errno, attr: &Attr) -> String {
        let limits = Limits {
            paranoid: Some(2),
            ..Limits::default()
        };
        let options = OpenOptions::new(attr).subject(Subject::All).cpu(0);
        let refused = options.explain("cycles", errno, &limits);
        of_failure(SessionError::from(OpenError::from(refused)).into()).to_string()
    }

    #[test]
    fn flags_are_offered_where_they_help() {
        let text = failure(Errno::ACCESS, &Attr::default());
        assert!(
            text.starts_with(
                "cannot open event `cycles` on CPU 0: Permission denied (EACCES). Watching"
            ) && text.contains("kernel.perf_event_paranoid is 2")
                && text.ends_with("one's own processes take neither (-p)"),
            "{text}"
        );
        let lbr = Attr {
            sample_type: SampleType::BRANCH_STACK,
            ..Attr::default()
        };
        let text = failure(Errno::OPNOTSUPP, &lbr);
        assert!(
            text.ends_with("which virtual machines often hide. `--call-graph auto` needs neither"),
            "{text}"
        );
        let files = OpenError::TooManyFiles {
            threads: 1,
            cpus: 2,
            needed: 3,
            limit: 4,
        };
        let text = of_failure(SessionError::from(files).into()).to_string();
        assert!(text.contains("(-C)") && text.contains("(-a)"), "{text}");
        // The libraries word all the others.
        let text = failure(Errno::BUSY, &Attr::default());
        assert!(text.contains("watchdog"), "{text}");
        assert!(
            of_step(&Degradation::NoUserStack).ends_with("`--call-graph fp` asks for just that")
        );
    }
}

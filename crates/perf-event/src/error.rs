//! Errors of opening events and mapping ring buffers, each with a remedy.

use crate::attr_part::AttrPart;
use crate::errno::{self, Errno, ErrnoText};
use crate::limits::Limits;
use crate::remedy::Remedy;
use rprof_records::{Attr, EventKind};

/// Failure to open an event.
///
/// ```no_run
/// use rprof_perf_event::OpenOptions;
/// use rprof_records::Attr;
///
/// let attr = Attr::default();
/// if let Err(error) = OpenOptions::new(&attr).open_named("cycles") {
///     // "cannot open event `cycles`: No such file or directory (ENOENT). This machine …"
///     eprintln!("{error}");
///     if let rprof_perf_event::Remedy::NoSuchEvent { .. } = error.remedy {
///         // Count something else.
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("{}. {remedy}", self.what_failed())]
pub struct OpenEventError {
    /// Name of the event in messages.
    pub event: String,
    /// CPU of the event; `None` for any.
    pub cpu: Option<u32>,
    /// Error of the kernel.
    pub errno: Errno,
    /// Suggested remedy.
    pub remedy: Remedy,
}

impl OpenEventError {
    /// Explains why the kernel refused an event. `by_cpu`: it was for a whole CPU, or a control
    /// group on it.
    pub fn new(
        event: &str,
        attr: &Attr,
        by_cpu: bool,
        cpu: Option<u32>,
        errno: Errno,
        limits: &Limits,
    ) -> OpenEventError {
        OpenEventError {
            event: event.to_owned(),
            cpu,
            errno,
            remedy: Remedy::for_event(event, attr, by_cpu, errno, limits),
        }
    }

    /// Returns the message without its remedy.
    pub fn what_failed(&self) -> String {
        let cpu = on_cpu(self.cpu, "on");
        let errno = ErrnoText(self.errno);
        format!("cannot open event `{}`{cpu}: {errno}", self.event)
    }
}

/// Failure to map the ring buffer of an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error(
    "cannot map a ring buffer of {} KiB{}: {}. {remedy}",
    bytes / 1024,
    on_cpu(*cpu, "for"),
    ErrnoText(*errno)
)]
pub struct MapRingError {
    /// CPU of the event; `None` for any.
    pub cpu: Option<u32>,
    /// Size of the data in bytes.
    pub bytes: usize,
    /// Error of the kernel.
    pub errno: Errno,
    /// Suggested remedy.
    pub remedy: Remedy,
}

impl MapRingError {
    /// Explains why a ring buffer could not be mapped.
    pub fn new(cpu: Option<u32>, bytes: usize, errno: Errno, limits: &Limits) -> MapRingError {
        MapRingError {
            cpu,
            bytes,
            errno,
            remedy: Remedy::for_ring(errno, limits),
        }
    }
}

fn on_cpu(cpu: Option<u32>, preposition: &str) -> String {
    cpu.map_or_else(String::new, |cpu| format!(" {preposition} CPU {cpu}"))
}

impl Remedy {
    /// Chooses the remedy for an event that the kernel refused with `errno`.
    ///
    /// `by_cpu`: the event was for a whole CPU, or a control group on it.
    pub(crate) fn for_event(
        event: &str,
        attr: &Attr,
        by_cpu: bool,
        errno: Errno,
        limits: &Limits,
    ) -> Remedy {
        let event = || event.to_owned();
        let refused = errno::is_refusal(errno) || errno == Errno::NOSYS;
        // The setting causes EACCES, never ENOSYS.
        let unexplained = errno == Errno::NOSYS || !limits.explains(attr, by_cpu);
        if refused && limits.seccomp && unexplained {
            return Remedy::SeccompFilter;
        }
        if let Some((part, obstacle)) = AttrPart::blamed(attr, errno, limits) {
            return Remedy::Part { part, obstacle };
        }
        match errno {
            Errno::ACCESS | Errno::PERM if by_cpu => Remedy::WholeCpus {
                paranoid: limits.paranoid,
            },
            Errno::ACCESS | Errno::PERM => Remedy::Permission {
                paranoid: limits.paranoid,
                is_cause: limits.explains(attr, by_cpu),
            },
            errno if errno::is_missing_event(errno) => Remedy::NoSuchEvent { event: event() },
            Errno::MFILE | Errno::NFILE => Remedy::OpenFiles {
                limit: limits.open_files,
            },
            Errno::BUSY => Remedy::CountersHeld,
            Errno::NOSPC if attr.kind == EventKind::BREAKPOINT => Remedy::BreakpointsTaken,
            Errno::NOSPC => Remedy::CountersTaken,
            Errno::INVAL => Remedy::Settings { event: event() },
            Errno::TOOBIG => Remedy::KernelTooOld,
            Errno::OVERFLOW => Remedy::CallchainDepth,
            Errno::NOSYS => Remedy::NoPerfEvents,
            Errno::SRCH => Remedy::TargetEnded,
            Errno::BADF if by_cpu => Remedy::NotACgroup,
            Errno::NOMEM => Remedy::KernelMemory,
            _ => Remedy::ManualErrors,
        }
    }

    /// Chooses the remedy for a ring buffer that could not be mapped.
    pub(crate) fn for_ring(errno: Errno, limits: &Limits) -> Remedy {
        match errno {
            Errno::PERM => Remedy::LockedMemory {
                mlock_kib: limits.mlock_kib,
            },
            Errno::NOMEM => Remedy::Memory,
            _ => Remedy::ManualMmap,
        }
    }

    /// Returns the remedy for a process that this user may not profile, unlike others of the user.
    pub fn for_process(limits: &Limits) -> Remedy {
        Remedy::ForeignProcess {
            seccomp: limits.seccomp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr_part::PartObstacle;
    use rprof_records::{AttrFlags, SampleType};

    fn remedy(errno: Errno, by_cpu: bool, limits: &Limits) -> Remedy {
        Remedy::for_event("cycles", &Attr::default(), by_cpu, errno, limits)
    }

    #[test]
    fn every_number_has_its_remedy() {
        let said = |errno, paranoid| {
            let limits = Limits {
                paranoid,
                ..Limits::default()
            };
            remedy(errno, false, &limits).to_string()
        };
        assert!(said(Errno::ACCESS, Some(4)).contains("perf_event_paranoid is 4"));
        assert!(said(Errno::PERM, Some(2)).contains("CAP_PERFMON"));
        assert!(said(Errno::ACCESS, Some(-1)).contains("seccomp"));
        assert!(said(Errno::NOENT, None).contains("cpu-clock"));
        assert!(said(Errno::MFILE, None).contains("ulimit -n"));
        assert!(said(Errno::BUSY, None).contains("watchdog"));
        assert!(said(Errno::TOOBIG, None).contains("too old"));
        assert!(said(Errno::MLINK, None).contains("perf_event_open(2)"));
    }

    #[test]
    fn a_breakpoint_without_a_register_is_no_missing_counter() {
        let breakpoint = Attr {
            kind: EventKind::BREAKPOINT,
            ..Attr::default()
        };
        let limits = Limits::default();
        let remedy = Remedy::for_event("mem:0x0", &breakpoint, false, Errno::NOSPC, &limits);
        assert_eq!(remedy, Remedy::BreakpointsTaken);
    }

    #[test]
    fn a_refusal_names_what_stands_in_the_way() {
        let said = |paranoid, seccomp, by_cpu, errno| {
            let limits = Limits {
                paranoid: Some(paranoid),
                seccomp,
                ..Limits::default()
            };
            remedy(errno, by_cpu, &limits).to_string()
        };
        for errno in [Errno::PERM, Errno::ACCESS, Errno::NOSYS] {
            assert!(said(1, true, false, errno).contains("seccomp filter"));
            assert!(said(-1, true, true, errno).contains("--cap-add PERFMON"));
        }
        assert!(said(4, true, false, Errno::NOSYS).contains("seccomp filter"));
        // Level 2 explains refusals of events that include the kernel.
        for level in [2, 4] {
            let found = said(level, true, false, Errno::ACCESS);
            assert!(
                found.contains(&format!("perf_event_paranoid is {level}")),
                "{found}"
            );
        }
        let system = said(2, true, true, Errno::ACCESS);
        for named in ["kernel.perf_event_paranoid=0", "--cap-add"] {
            assert!(system.contains(named), "{system}");
        }
    }

    #[test]
    fn user_mode_events_of_other_users_are_not_told_to_be_user_mode() {
        let attr = Attr {
            flags: AttrFlags::EXCLUDE_KERNEL,
            ..Attr::default()
        };
        let limits = Limits {
            paranoid: Some(2),
            ..Limits::default()
        };
        let remedy = Remedy::for_event("task-clock:u", &attr, false, Errno::ACCESS, &limits);
        let text = remedy.to_string();
        assert!(
            text.contains("belongs to another user") && !text.contains("Add `:u`"),
            "{text}"
        );
    }

    #[test]
    fn branch_records_are_told_from_missing_events() {
        let attr = Attr {
            sample_type: SampleType::BRANCH_STACK,
            ..Attr::default()
        };
        let limits = Limits::default();
        let remedy = Remedy::for_event("cycles", &attr, false, Errno::OPNOTSUPP, &limits);
        let (part, obstacle) = (AttrPart::Branches, PartObstacle::NoHardware);
        assert_eq!(remedy, Remedy::Part { part, obstacle });
    }

    #[test]
    fn an_error_says_what_failed_where_and_what_to_do() {
        let limits = Limits::default();
        let attr = Attr::default();
        let error = OpenEventError::new("cycles", &attr, false, Some(3), Errno::NOENT, &limits);
        assert_eq!(
            error.to_string(),
            "cannot open event `cycles` on CPU 3: No such file or directory (ENOENT). This machine has \
             no such event: `cycles` needs hardware counters, which virtual machines often hide. \
             `cpu-clock` works everywhere"
        );
        let error = MapRingError::new(Some(0), 1 << 20, Errno::NOMEM, &limits);
        assert_eq!(
            error.to_string(),
            "cannot map a ring buffer of 1024 KiB for CPU 0: Cannot allocate memory (ENOMEM). Memory \
             is short; free some"
        );
    }
}

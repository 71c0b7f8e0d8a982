//! Trials: events opened to test whether they work.

use crate::event::{Event, EventDetail};
use rprof_records::{Attr, AttrFlags, EventKind, SampleType};
use rustix::io::Errno;
use std::cell::RefCell;
use std::fmt;

/// Result of a trial for this user on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Availability {
    /// Can be sampled, at least in user mode of the user's own programs.
    Sampled,
    /// Can be counted but not sampled, like most events of packages. rprof cannot record it.
    CountedOnly,
    /// This user lacks the right.
    Denied,
    /// The machine lacks the event.
    Missing,
    /// The kernel refused it with another error.
    Refused(Errno),
    /// Not tested, because it depends on placeholders.
    Unknown,
}

impl Availability {
    /// Returns one word: `yes`, `count`, `denied`, `no` or `-`.
    pub fn word(self) -> &'static str {
        match self {
            Availability::Sampled => "yes",
            Availability::CountedOnly => "count",
            Availability::Denied => "denied",
            Availability::Missing | Availability::Refused(_) => "no",
            Availability::Unknown => "-",
        }
    }

    fn from_errno(errno: Errno) -> Availability {
        match errno {
            Errno::ACCESS | Errno::PERM => Availability::Denied,
            // No PMU supports it; the PMU is missing; it cannot raise interrupts.
            Errno::NOENT | Errno::NODEV | Errno::NXIO | Errno::OPNOTSUPP => Availability::Missing,
            errno => Availability::Refused(errno),
        }
    }
}

impl fmt::Display for Availability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Availability::Sampled => f.write_str("can be sampled"),
            Availability::CountedOnly => f.write_str("can be counted, not sampled"),
            Availability::Denied => f.write_str("this user may not"),
            Availability::Missing => f.write_str("not on this machine"),
            Availability::Refused(errno) => write!(f, "refused: {errno}"),
            Availability::Unknown => f.write_str("not tried"),
        }
    }
}

/// Opens events for [`Catalog::read`](super::Catalog::read), which tests them.
///
/// Implemented for any `Fn(&Attr, TrialScope) -> Result<(), Errno>`.
pub trait EventOpener {
    /// Opens an event with perf_event_open(2), and closes it immediately.
    ///
    /// # Errors
    /// Returns the kernel's error number.
    fn try_open(&self, attr: &Attr, scope: TrialScope) -> Result<(), Errno>;
}

impl<F: Fn(&Attr, TrialScope) -> Result<(), Errno>> EventOpener for F {
    fn try_open(&self, attr: &Attr, scope: TrialScope) -> Result<(), Errno> {
        self(attr, scope)
    }
}

/// Tasks and CPUs that a trial opens its event for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialScope {
    /// The calling thread, on any CPU.
    OwnThread,
    /// All tasks on the CPU with this number.
    Cpu(u32),
}

/// Trials of events. None is enabled.
pub(super) struct Trials<'a> {
    /// `None` disables trials.
    opener: Option<&'a dyn EventOpener>,
    /// Result of the first trial.
    tracepoint: RefCell<Option<Availability>>,
}

impl<'a> Trials<'a> {
    pub(super) fn with(opener: &'a dyn EventOpener) -> Trials<'a> {
        Trials {
            opener: Some(opener),
            tracepoint: RefCell::new(None),
        }
    }

    /// Disables trials: results are [`Availability::Unknown`].
    pub(super) fn none() -> Trials<'a> {
        Trials {
            opener: None,
            tracepoint: RefCell::new(Some(Availability::Unknown)),
        }
    }

    /// Opens an event in user mode: sampled, then counted; for this thread, or else for a CPU.
    pub(super) fn event(&self, event: &Event) -> Availability {
        let Some(opener) = self.opener else {
            return Availability::Unknown;
        };
        let cpu = event.cpus().and_then(<[u32]>::first).copied();
        let whole = TrialScope::Cpu(cpu.unwrap_or(0));
        // A PMU with a list of CPUs belongs to a package or core type.
        let mut first = None;
        for (sampled, scope) in [
            (true, TrialScope::OwnThread),
            (true, whole),
            (false, TrialScope::OwnThread),
            (false, whole),
        ] {
            match (try_open(opener, event, sampled, scope), sampled) {
                (Ok(()), true) => return Availability::Sampled,
                (Ok(()), false) => return Availability::CountedOnly,
                (Err(errno), _) => {
                    // A missing PMU fails in every scope.
                    if matches!(errno, Errno::NOENT | Errno::NODEV) && cpu.is_none() {
                        return Availability::Missing;
                    }
                    first = Some(first.map_or(errno, |before| more_telling(before, errno)));
                }
            }
        }
        first.map_or(Availability::Unknown, Availability::from_errno)
    }

    /// Opens the first tracepoint with its payload: the result is the same for all.
    pub(super) fn tracepoint(&self, id: u64) -> Availability {
        if let Some(known) = *self.tracepoint.borrow() {
            return known;
        }
        let Some(opener) = self.opener else {
            return Availability::Unknown;
        };
        let mut event = Event::numbered("", EventKind::TRACEPOINT, id);
        event.detail = EventDetail::Tracepoint {
            system: String::new(),
            name: String::new(),
        };
        let tried = match try_open(opener, &event, true, TrialScope::OwnThread) {
            Ok(()) => Availability::Sampled,
            Err(errno) => Availability::from_errno(errno),
        };
        *self.tracepoint.borrow_mut() = Some(tried);
        tried
    }

    /// Tests probes of a PMU without creating one: the kernel checks rights first, then refuses the
    /// missing path with `EINVAL`.
    pub(super) fn probe(&self, kind: EventKind) -> Availability {
        let Some(opener) = self.opener else {
            return Availability::Unknown;
        };
        match try_open(
            opener,
            &Event::numbered("", kind, 0),
            true,
            TrialScope::OwnThread,
        ) {
            Ok(()) | Err(Errno::INVAL) => Availability::Sampled,
            Err(errno) => Availability::from_errno(errno),
        }
    }
}

/// Returns the more informative error: other users may open it.
fn more_telling(before: Errno, errno: Errno) -> Errno {
    match before == Errno::INVAL && matches!(errno, Errno::ACCESS | Errno::PERM) {
        true => errno,
        false => before,
    }
}

fn try_open(
    opener: &dyn EventOpener,
    event: &Event,
    sampled: bool,
    scope: TrialScope,
) -> Result<(), Errno> {
    let mut attr = Attr {
        flags: AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        period_or_freq: if sampled { 1_000_000 } else { 0 },
        sample_type: SampleType::IP | SampleType::TID,
        ..Attr::default()
    };
    event.apply(&mut attr);
    match opener.try_open(&attr, scope) {
        // Some PMUs support no exclusion.
        Err(Errno::INVAL) => {
            attr.flags = AttrFlags::DISABLED;
            opener.try_open(&attr, scope)
        }
        other => other,
    }
}

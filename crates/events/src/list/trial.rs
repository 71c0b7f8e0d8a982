//! Trials: events opened to find out whether they work.

use crate::event::{Event, EventDetail};
use rprof_records::{Attr, AttrFlags, EventKind, SampleType};
use rustix::io::Errno;
use std::cell::RefCell;
use std::fmt;

/// Result of the trial of an event, for this user on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Availability {
    /// It can be sampled, at least in user mode of the user's own programs.
    Sampled,
    /// It can be counted, but not sampled, as most events of packages. rprof cannot record it.
    CountedOnly,
    /// This user may not open it.
    Denied,
    /// This machine does not have it.
    Missing,
    /// The kernel refused it with another error number.
    Refused(Errno),
    /// It was not tried, as it depends on what is filled in.
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
            // No PMU takes it; the PMU is not there; it cannot raise interrupts.
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

/// Opens events for [`Catalog::read`](super::Catalog::read), which tries what it lists.
///
/// Any `Fn(&Attr, TrialScope) -> Result<(), Errno>` is one.
pub trait EventOpener {
    /// Opens an event with perf_event_open(2) and closes it at once.
    ///
    /// # Errors
    /// The kernel's error number.
    fn try_open(&self, attr: &Attr, scope: TrialScope) -> Result<(), Errno>;
}

impl<F: Fn(&Attr, TrialScope) -> Result<(), Errno>> EventOpener for F {
    fn try_open(&self, attr: &Attr, scope: TrialScope) -> Result<(), Errno> {
        self(attr, scope)
    }
}

/// Scope of an event while it is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialScope {
    /// The calling thread, on any CPU.
    OwnThread,
    /// Everything on this CPU.
    Cpu(u32),
}

/// Tries events. None of them is enabled.
pub(super) struct Trials<'a> {
    /// `None`: nothing is tried.
    opener: Option<&'a dyn EventOpener>,
    /// Result for tracepoints, once one was tried.
    tracepoint: RefCell<Option<Availability>>,
}

impl<'a> Trials<'a> {
    /// Makes trials by this opener.
    pub(super) fn with(opener: &'a dyn EventOpener) -> Trials<'a> {
        Trials {
            opener: Some(opener),
            tracepoint: RefCell::new(None),
        }
    }

    /// Tries nothing: every result is [`Availability::Unknown`].
    pub(super) fn none() -> Trials<'a> {
        Trials {
            opener: None,
            tracepoint: RefCell::new(Some(Availability::Unknown)),
        }
    }

    /// Tries an event in user mode: sampled, then counted; for this thread, or else for a whole CPU.
    pub(super) fn event(&self, event: &Event) -> Availability {
        let Some(opener) = self.opener else {
            return Availability::Unknown;
        };
        let cpu = event.cpus().and_then(<[u32]>::first).copied();
        let whole = TrialScope::Cpu(cpu.unwrap_or(0));
        // A PMU with a list of CPUs is of a package, or of one kind of cores.
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
                    // No other way to open it finds a PMU that is not there.
                    if matches!(errno, Errno::NOENT | Errno::NODEV) && cpu.is_none() {
                        return Availability::Missing;
                    }
                    first = Some(first.map_or(errno, |before| more_telling(before, errno)));
                }
            }
        }
        first.map_or(Availability::Unknown, Availability::from_errno)
    }

    /// Tries a tracepoint with its payload. The result is the same for all tracepoints, so that only one
    /// is opened.
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

    /// Tries probes of a PMU without making one: the kernel checks rights first, and then refuses the
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

/// Returns the error that says more: that others may open it.
fn more_telling(before: Errno, errno: Errno) -> Errno {
    match before == Errno::INVAL && matches!(errno, Errno::ACCESS | Errno::PERM) {
        true => errno,
        false => before,
    }
}

/// Opens an event in user mode, sampled or counted.
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
        // Some PMUs cannot leave anything out.
        Err(Errno::INVAL) => {
            attr.flags = AttrFlags::DISABLED;
            opener.try_open(&attr, scope)
        }
        other => other,
    }
}

//! Opening events, to see what would come of it.

use crate::Event;
use crate::event::Origin;
use rprof_records::{Attr, AttrFlags, EventKind, SampleType};
use rustix::io::Errno;
use std::cell::RefCell;
use std::fmt;

/// Whether an event works for this user on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Availability {
    /// It can be sampled, at least in user mode and in one's own programs.
    Sampled,
    /// It can be counted, but not sampled: `perf stat` is for these.
    CountedOnly,
    /// This user may not.
    Denied,
    /// This machine does not have it.
    Missing,
    /// The kernel refused it for some other cause.
    Refused(Errno),
    /// It was not tried: what it is depends on what is filled in.
    Unknown,
}

impl Availability {
    /// In a word: `yes`, `count`, `denied`, `no` or `-`.
    pub fn word(self) -> &'static str {
        match self {
            Availability::Sampled => "yes",
            Availability::CountedOnly => "count",
            Availability::Denied => "denied",
            Availability::Missing | Availability::Refused(_) => "no",
            Availability::Unknown => "-",
        }
    }

    fn of(errno: Errno) -> Availability {
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

/// What an event watches while it is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialScope {
    /// The calling thread, on any CPU.
    OwnThread,
    /// Everything on this CPU.
    Cpu(u32),
}

/// Tries events; nothing is enabled.
pub(super) struct Trials<'a> {
    /// `None`: nothing is tried.
    opener: Option<&'a dyn EventOpener>,
    /// What came of one tracepoint with its payload, and of one without a need for rights.
    tracepoint: RefCell<Option<Availability>>,
}

impl<'a> Trials<'a> {
    /// Trials by this opener.
    pub(super) fn with(opener: &'a dyn EventOpener) -> Trials<'a> {
        Trials {
            opener: Some(opener),
            tracepoint: RefCell::new(None),
        }
    }

    /// Tries nothing, and knows nothing.
    pub(super) fn none() -> Trials<'a> {
        Trials {
            opener: None,
            tracepoint: RefCell::new(Some(Availability::Unknown)),
        }
    }

    /// Tries to open an event in user mode: sampled, then counted; for this process, and where
    /// that cannot be for a whole CPU.
    pub(super) fn of(&self, event: &Event) -> Availability {
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
                    // What there is not, there is not by other ways either.
                    if matches!(errno, Errno::NOENT | Errno::NODEV) && cpu.is_none() {
                        return Availability::Missing;
                    }
                    first = Some(first.map_or(errno, |before| told(before, errno)));
                }
            }
        }
        first.map_or(Availability::Unknown, Availability::of)
    }

    /// Whether a tracepoint with this number could be sampled, its payload included. That
    /// does not depend on which, so that only one is tried.
    pub(super) fn tracepoint(&self, id: u64) -> Availability {
        if let Some(known) = *self.tracepoint.borrow() {
            return known;
        }
        let Some(opener) = self.opener else {
            return Availability::Unknown;
        };
        let mut event = Event::numbered("", EventKind::TRACEPOINT, id);
        event.origin = Origin::Tracepoint {
            system: String::new(),
            name: String::new(),
        };
        let tried = match try_open(opener, &event, true, TrialScope::OwnThread) {
            Ok(()) => Availability::Sampled,
            Err(errno) => Availability::of(errno),
        };
        *self.tracepoint.borrow_mut() = Some(tried);
        tried
    }

    /// Whether probes of a PMU could be made, without making one: the kernel looks at rights
    /// first, and at the path, which is missing here, afterwards (`EINVAL`).
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
            Err(errno) => Availability::of(errno),
        }
    }
}

/// Of two errors the one that says more: what this user may not, others may.
fn told(before: Errno, errno: Errno) -> Errno {
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
        // Some PMUs cannot leave anything out.
        Err(Errno::INVAL) => {
            attr.flags = AttrFlags::DISABLED;
            opener.try_open(&attr, scope)
        }
        other => other,
    }
}

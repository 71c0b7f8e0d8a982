//! Opening events, to see what would come of it.

use super::super::Event;
use crate::errno::Errno;
use rprof_perf_event::PerfFd;
use rprof_records::{Attr, AttrFlags, EventKind, SampleType};
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
            errno if errno.is_refusal() => Availability::Denied,
            errno if errno.is_missing_event() => Availability::Missing,
            errno => Availability::Refused(errno),
        }
    }
}

impl fmt::Display for Availability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Availability::Sampled => f.write_str("can be sampled"),
            Availability::CountedOnly => f.write_str("can be counted, not sampled"),
            Availability::Denied => f.write_str("this user may not; see `rprof doctor`"),
            Availability::Missing => f.write_str("not on this machine"),
            Availability::Refused(errno) => write!(f, "refused: {errno}"),
            Availability::Unknown => f.write_str("not tried"),
        }
    }
}

/// Tries events; nothing is enabled, and what opens is closed at once.
pub(super) struct Trials {
    real: bool,
    /// What came of one tracepoint with its payload, and of one without a need for rights.
    tracepoint: RefCell<Option<Availability>>,
}

/// Whom a trial watches: this process, or all on a CPU.
#[derive(Clone, Copy)]
enum Whom {
    Own,
    All(u32),
}

impl Trials {
    pub(super) fn on_this_machine() -> Trials {
        Trials {
            real: true,
            tracepoint: RefCell::new(None),
        }
    }

    /// Tries nothing, and knows nothing.
    pub(super) fn none() -> Trials {
        Trials {
            real: false,
            tracepoint: RefCell::new(Some(Availability::Unknown)),
        }
    }

    /// Tries to open an event in user mode: sampled, then counted; for this process, and where
    /// that cannot be for a whole CPU.
    pub(super) fn of(&self, event: &Event) -> Availability {
        if !self.real {
            return Availability::Unknown;
        }
        let cpu = event.cpus().and_then(<[u32]>::first).copied();
        let whole = Whom::All(cpu.unwrap_or(0));
        // A PMU with a list of CPUs is of a package, or of one kind of cores.
        let mut first = None;
        for (sampled, whom) in [
            (true, Whom::Own),
            (true, whole),
            (false, Whom::Own),
            (false, whole),
        ] {
            match (try_open(event, sampled, whom), sampled) {
                (Ok(()), true) => return Availability::Sampled,
                (Ok(()), false) => return Availability::CountedOnly,
                (Err(errno), _) => {
                    // What there is not, there is not by other ways either.
                    if matches!(errno.0, libc::ENOENT | libc::ENODEV) && cpu.is_none() {
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
        let mut event = Event::numbered("", EventKind::TRACEPOINT, id);
        event.origin = super::super::Origin::Tracepoint {
            system: String::new(),
            name: String::new(),
        };
        let tried = match try_open(&event, true, Whom::Own) {
            Ok(()) => Availability::Sampled,
            Err(errno) => Availability::of(errno),
        };
        *self.tracepoint.borrow_mut() = Some(tried);
        tried
    }

    /// Whether probes of a PMU could be made, without making one: the kernel looks at rights
    /// first, and at the path, which is missing here, afterwards (`EINVAL`).
    pub(super) fn probe(&self, kind: EventKind) -> Availability {
        if !self.real {
            return Availability::Unknown;
        }
        match try_open(&Event::numbered("", kind, 0), true, Whom::Own) {
            Ok(()) | Err(Errno(libc::EINVAL)) => Availability::Sampled,
            Err(errno) => Availability::of(errno),
        }
    }
}

/// Of two errors the one that says more: what this user may not, others may.
fn told(before: Errno, errno: Errno) -> Errno {
    match before.0 == libc::EINVAL && errno.is_refusal() {
        true => errno,
        false => before,
    }
}

fn try_open(event: &Event, sampled: bool, whom: Whom) -> Result<(), Errno> {
    let mut attr = Attr {
        flags: AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        period_or_freq: if sampled { 1_000_000 } else { 0 },
        sample_type: SampleType::IP | SampleType::TID,
        ..Attr::default()
    };
    event.apply(&mut attr);
    let (pid, cpu) = match whom {
        Whom::Own => (0, None),
        Whom::All(cpu) => (-1, Some(cpu)),
    };
    let opened = PerfFd::open(&attr, pid, cpu);
    let opened = match opened {
        // Some PMUs cannot leave anything out.
        Err(Errno(libc::EINVAL)) => {
            attr.flags = AttrFlags::DISABLED;
            PerfFd::open(&attr, pid, cpu)
        }
        other => other,
    };
    opened.map(drop)
}

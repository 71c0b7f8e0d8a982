//! [`Event`]: an event as the kernel takes it.

use crate::modifiers::{self, Letters};
use crate::pmu::WORDS;
use crate::{EventError, EventParser, Modifiers, Qualifiers, Resolver, Settings, generic};
use rprof_records::EventKind;
use std::ffi::CString;
use std::fmt;

/// An event to count or to sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub(crate) name: String,
    pub(crate) kind: EventKind,
    /// `config`, `config1` to `config4`.
    pub(crate) words: [u64; WORDS],
    pub(crate) bp_type: u32,
    pub(crate) modifiers: Modifiers,
    pub(crate) qualifiers: Qualifiers,
    pub(crate) settings: Settings,
    pub(crate) group: Option<u32>,
    pub(crate) leads: bool,
    pub(crate) origin: Origin,
    pub(crate) cpus: Option<Vec<u32>>,
}

/// What there is to know of an event beyond its numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    #[default]
    Plain,
    Tracepoint {
        system: String,
        name: String,
    },
    /// What `uprobe_path` or `kprobe_func` is to point to; nothing for an address in the kernel.
    Probe(Option<CString>),
}

impl Event {
    /// Reads one event, such as `cycles`, `page-faults:u` or `sched:sched_switch`.
    ///
    /// Generic names may be in any letter case.
    ///
    /// # Errors
    /// [`EventError`], with names near the one asked for; also when the text stands for several
    /// events or for none.
    pub fn parse(text: &str) -> Result<Event, EventError> {
        EventParser::new().parse(text)
    }

    /// Reads a list of events with commas between them; empty parts are skipped.
    ///
    /// Probes on functions of programs need a [`Resolver`], see [`EventParser`].
    ///
    /// # Errors
    /// As [`Event::parse`], for the first part that fails.
    pub fn parse_list(text: &str) -> Result<Vec<Event>, EventError> {
        EventParser::new().parse_list(text)
    }

    /// As [`parse_list`](Self::parse_list), with somebody who finds functions in programs.
    ///
    /// # Errors
    /// As [`Event::parse_list`].
    pub fn parse_with(text: &str, resolver: &dyn Resolver) -> Result<Vec<Event>, EventError> {
        EventParser::new().resolver(resolver).parse_list(text)
    }

    /// Processor cycles: what a profiler samples unless told otherwise.
    pub fn cycles() -> Event {
        Event::numbered("cycles", EventKind::HARDWARE, 0)
    }

    /// Processor time by the kernel's timer: what works on every machine.
    pub fn cpu_clock() -> Event {
        Event::numbered("cpu-clock", EventKind::SOFTWARE, generic::SW_CPU_CLOCK)
    }

    /// Nothing at all: carries the sideband records.
    pub fn dummy() -> Event {
        Event::numbered("dummy", EventKind::SOFTWARE, generic::SW_DUMMY)
    }

    pub(crate) fn numbered(name: &str, kind: EventKind, config: u64) -> Event {
        Event {
            name: name.to_owned(),
            kind,
            words: [config, 0, 0, 0, 0],
            bp_type: 0,
            modifiers: Modifiers::default(),
            qualifiers: Letters::default().qualifiers,
            settings: Settings::default(),
            group: None,
            leads: true,
            origin: Origin::Plain,
            cpus: None,
        }
    }

    /// The same event with other modifiers.
    pub fn with_modifiers(self, modifiers: Modifiers) -> Event {
        Event { modifiers, ..self }
    }

    /// The same event with another precision, 0 to 3.
    ///
    /// For stepping down: a PMU that cannot do what was asked for answers `EOPNOTSUPP` or
    /// `EINVAL`. Perf too goes down one at a time where `P` was asked for.
    pub fn with_precise(mut self, precise: u8) -> Event {
        self.qualifiers.precise = precise.min(3);
        self.qualifiers.most_precise = false;
        self
    }

    /// The same event, counting in guests too.
    ///
    /// For stepping down: PMUs that cannot leave anything out (`PERF_PMU_CAP_NO_EXCLUDE`, such as
    /// `msr`) answer `EINVAL` to an event that leaves out guests, which is the default.
    pub fn including_guests(mut self) -> Event {
        self.qualifiers.exclude_guest = false;
        self
    }

    /// The same event outside of a group, for a weak group that cannot be opened.
    pub fn ungrouped(mut self) -> Event {
        self.group = None;
        self.leads = true;
        self.qualifiers.sample_read = false;
        self
    }

    /// Canonical name without modifiers: `faults` gives `page-faults`.
    pub fn name(&self) -> &str {
        match &self.settings.name {
            Some(name) => name,
            None => &self.name,
        }
    }

    /// `perf_event_attr.type`.
    pub fn kind(&self) -> EventKind {
        self.kind
    }

    /// `perf_event_attr.config`.
    pub fn config(&self) -> u64 {
        self.words[0]
    }

    /// Which sides of the machine it counts.
    pub fn modifiers(&self) -> Modifiers {
        self.modifiers
    }

    /// What its letters say beyond that.
    pub fn qualifiers(&self) -> Qualifiers {
        self.qualifiers
    }

    /// What its terms say about how it is sampled.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The number of its group in the list it was read from; `None` outside of groups.
    ///
    /// Events of a group stand behind each other, and the first is the leader.
    pub fn group(&self) -> Option<u32> {
        self.group
    }

    /// Whether it is the leader of a group, or in none.
    pub fn is_leader(&self) -> bool {
        self.leads
    }

    /// The CPUs to open it on, among those that are watched; `None` for all.
    ///
    /// PMUs of a whole package count on one CPU of each.
    pub fn cpus(&self) -> Option<&[u32]> {
        self.cpus.as_deref()
    }

    /// System and name of a tracepoint.
    pub fn tracepoint(&self) -> Option<(&str, &str)> {
        match &self.origin {
            Origin::Tracepoint { system, name } => Some((system, name)),
            _ => None,
        }
    }

    /// A tracepoint's number, by which the description of its payload is found: its config.
    pub fn format_id(&self) -> Option<u64> {
        (self.kind == EventKind::TRACEPOINT).then_some(self.words[0])
    }

    /// The name for a file's event description, with its letters: `cycles:u`, `msr/tsc/u`.
    /// A name that the user gave stands alone.
    pub fn describe(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(given) = &self.settings.name {
            return f.write_str(given);
        }
        let letters = modifiers::all_letters(self.modifiers, self.qualifiers);
        match letters.is_empty() || self.name.ends_with('/') {
            true => write!(f, "{}{letters}", self.name),
            false => write!(f, "{}:{letters}", self.name),
        }
    }
}

impl std::str::FromStr for Event {
    type Err = EventError;
    fn from_str(text: &str) -> Result<Event, EventError> {
        Event::parse(text)
    }
}

//! [`Event`]: one event with its numbers and its name.

use crate::generic;
use crate::modifiers::{self, Letters, Modifiers, Qualifiers};
use crate::pmu::{CONFIG_WORDS, Scale};
use crate::settings::EventSettings;
use crate::trace_unit::TraceUnit;
use rprof_records::EventKind;
use std::ffi::{CStr, CString};
use std::fmt;

/// Event for perf_event_open(2): type, config words, and the sampling settings in its text.
///
/// [`apply`](Self::apply) writes it into an attr, for sampling or counting. This crate does not
/// open it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub(crate) name: String,
    pub(crate) kind: EventKind,
    /// `config`, `config1` to `config4`.
    pub(crate) config: [u64; CONFIG_WORDS],
    pub(crate) bp_type: u32,
    pub(crate) modifiers: Modifiers,
    pub(crate) qualifiers: Qualifiers,
    pub(crate) settings: EventSettings,
    pub(crate) group: Option<u32>,
    pub(crate) is_leader: bool,
    pub(crate) detail: EventDetail,
    pub(crate) cpus: Option<Vec<u32>>,
    pub(crate) scale: Option<Scale>,
    pub(crate) is_level: bool,
    pub(crate) filter: Option<CString>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum EventDetail {
    #[default]
    None,
    Tracepoint {
        system: String,
        name: String,
    },
    /// Target of `uprobe_path` or `kprobe_func`; `None` for an address in the kernel.
    Probe(Option<CString>),
    /// Event of a trace unit.
    Trace(TraceUnit),
}

impl Event {
    /// Returns the event for processor cycles, the default of a profiler.
    pub fn cycles() -> Event {
        Event::numbered("cycles", EventKind::HARDWARE, 0)
    }

    /// Returns the event for CPU time by the kernel's timer, available on every machine.
    pub fn cpu_clock() -> Event {
        Event::numbered("cpu-clock", EventKind::SOFTWARE, generic::SW_CPU_CLOCK)
    }

    /// Returns the event for context switches, counted when a thread leaves the CPU for another
    /// thread.
    pub fn context_switches() -> Event {
        let number = generic::SW_CONTEXT_SWITCHES;
        Event::numbered("context-switches", EventKind::SOFTWARE, number)
    }

    /// Returns the event that never occurs, for sideband records.
    pub fn dummy() -> Event {
        Event::numbered("dummy", EventKind::SOFTWARE, generic::SW_DUMMY)
    }

    pub(crate) fn numbered(name: &str, kind: EventKind, config: u64) -> Event {
        Event {
            name: name.to_owned(),
            kind,
            config: [config, 0, 0, 0, 0],
            bp_type: 0,
            modifiers: Modifiers::default(),
            qualifiers: Letters::default().qualifiers,
            settings: EventSettings::default(),
            group: None,
            is_leader: true,
            detail: EventDetail::None,
            cpus: None,
            scale: None,
            is_level: false,
            filter: None,
        }
    }

    /// Replaces the modifiers.
    pub fn with_modifiers(self, modifiers: Modifiers) -> Event {
        Event { modifiers, ..self }
    }

    /// Replaces the precision (`precise_ip`), 0 to 3.
    ///
    /// For lowering it: a PMU without that precision returns `EOPNOTSUPP` or `EINVAL`. perf also
    /// lowers it by one at a time.
    pub fn with_precise(mut self, precise: u8) -> Event {
        self.qualifiers.precise = precise.min(3);
        self.qualifiers.most_precise = false;
        self
    }

    /// Counts in guests as well.
    ///
    /// For a retry: PMUs without exclusion (`PERF_PMU_CAP_NO_EXCLUDE`, such as `msr`) return
    /// `EINVAL` for an event that excludes guests, which is the default.
    pub fn including_guests(mut self) -> Event {
        self.qualifiers.exclude_guest = false;
        self
    }

    /// Removes the event from its group, for a weak group that cannot be opened together.
    pub fn ungrouped(mut self) -> Event {
        self.group = None;
        self.is_leader = true;
        self.qualifiers.sample_read = false;
        self
    }

    /// Returns the canonical name without modifiers (`page-faults` for `faults`), or the user's
    /// name (`name=`).
    pub fn name(&self) -> &str {
        match &self.settings.name {
            Some(name) => name,
            None => &self.name,
        }
    }

    /// Returns `perf_event_attr.type`.
    pub fn kind(&self) -> EventKind {
        self.kind
    }

    /// Returns `perf_event_attr.config`.
    pub fn config(&self) -> u64 {
        self.config[0]
    }

    /// Returns the processor modes: `u`, `k`, `h`.
    pub fn modifiers(&self) -> Modifiers {
        self.modifiers
    }

    /// Returns the other modifiers.
    pub fn qualifiers(&self) -> Qualifiers {
        self.qualifiers
    }

    /// Returns the sampling settings of its terms.
    pub fn settings(&self) -> &EventSettings {
        &self.settings
    }

    /// Returns the number of its group in the parsed list; `None` outside groups.
    ///
    /// Events of a group are consecutive, and the first is the leader.
    pub fn group(&self) -> Option<u32> {
        self.group
    }

    /// Returns true for the leader of a group, and for an event without a group.
    pub fn is_leader(&self) -> bool {
        self.is_leader
    }

    /// Returns the CPUs for opening it, among the selected ones; `None` for all.
    ///
    /// PMUs of a package count on one CPU of each package. The PMU of one core type counts on these
    /// cores.
    pub fn cpus(&self) -> Option<&[u32]> {
        self.cpus.as_deref()
    }

    /// Returns the scale of its count, if its PMU has one: `energy-pkg` counts units of 2⁻³²
    /// joules.
    pub fn scale(&self) -> Option<&Scale> {
        self.scale.as_ref()
    }

    /// Returns true if its count is a level, such as the cache occupancy in bytes, and not a sum.
    /// Differences between two readings are then meaningless.
    pub fn is_level(&self) -> bool {
        self.is_level
    }

    /// Returns the system and name of a tracepoint.
    pub fn tracepoint(&self) -> Option<(&str, &str)> {
        match &self.detail {
            EventDetail::Tracepoint { system, name } => Some((system, name)),
            _ => None,
        }
    }

    /// Returns the tracing unit whose event it is; `None` for events that are sampled and counted.
    ///
    /// # Examples
    /// ```
    /// use rprof_events::Event;
    ///
    /// assert_eq!(Event::cycles().trace_unit(), None);
    /// ```
    pub fn trace_unit(&self) -> Option<TraceUnit> {
        match self.detail {
            EventDetail::Trace(unit) => Some(unit),
            _ => None,
        }
    }

    /// Sets an expression on the fields of a tracepoint, such as `prev_pid == 0`. The kernel skips
    /// hits for which it is false (Documentation/trace/events.rst, "Event filtering").
    ///
    /// Returns `None` if the event is not a tracepoint, or the text contains a zero byte.
    pub fn with_filter(mut self, expression: &str) -> Option<Event> {
        self.filter = Some(CString::new(expression).ok()?);
        (self.kind == EventKind::TRACEPOINT).then_some(self)
    }

    /// Returns a tracepoint's filter expression, for `PERF_EVENT_IOC_SET_FILTER`.
    pub fn filter(&self) -> Option<&CStr> {
        self.filter.as_deref()
    }

    /// Returns the name with its modifiers, as in the event descriptions of perf.data: `cycles:u`,
    /// `msr/tsc/u`. A user's name has no modifiers.
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

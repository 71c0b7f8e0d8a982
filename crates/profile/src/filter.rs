//! Sample filter by thread, event, time and function.

use crate::event_names::split_modifiers;
use crate::language::Language;
use crate::pattern::matches_bytes;

/// Conditions on samples. A sample must meet all; an empty list accepts everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Thread names, as [patterns](crate::pattern).
    pub comms: Vec<String>,
    /// Process ids.
    pub pids: Vec<i32>,
    /// Thread ids.
    pub tids: Vec<i32>,
    /// Numbers of the CPUs that samples were taken on.
    pub cpus: Vec<u32>,
    /// Event names, with or without modifiers.
    pub events: Vec<String>,
    /// Numbers of threads of the sample's process group that ran. 0 is a wait while none ran.
    pub parallelism: Vec<u32>,
    /// First and last time, inclusive, in nanoseconds of the recording's clock.
    pub time: Option<(u64, u64)>,
    /// Leaf objects, as [patterns](crate::pattern::matches_object).
    pub objects: Vec<String>,
    /// Languages of leaf functions: see [`Language::is_in`].
    pub languages: Vec<Language>,
    /// Leaf functions or calls inlined there, as [patterns](crate::pattern).
    pub symbols: Vec<String>,
    /// Functions anywhere in the stack, as [patterns](crate::pattern).
    pub focus: Vec<String>,
    /// Trace ids of requests, in lower-case hexadecimal digits.
    pub traces: Vec<String>,
    /// Minimum length of the span of a sample in nanoseconds, exclusive.
    pub slower_than: Option<u64>,
    /// Wait reasons, as [patterns](crate::waits::reasons::is_reason). `running` selects time on CPU.
    pub reasons: Vec<String>,
}

/// Name of samples without the part of a request that names the others.
pub const NO_REQUEST: &str = "[no request]";

/// Part of a request that names its samples: see OpenTelemetry's thread context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestKey {
    /// Trace id.
    Trace,
    /// Span id.
    Span,
    /// Attribute with this name.
    Attribute(String),
}

impl RequestKey {
    /// Returns the name on the command line: `trace`, `span`, or the attribute's name.
    pub fn name(&self) -> &str {
        match self {
            RequestKey::Trace => "trace",
            RequestKey::Span => "span",
            RequestKey::Attribute(name) => name,
        }
    }
}

/// Thread, CPU and time of a sample. `None` if not recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin<'a> {
    /// Process id.
    pub pid: Option<i32>,
    /// Thread id.
    pub tid: Option<i32>,
    /// Number of the CPU that the sample was taken on.
    pub cpu: Option<u32>,
    /// Time, in nanoseconds of the recording's clock.
    pub time: Option<u64>,
    /// Name of the thread.
    pub comm: Option<&'a [u8]>,
}

impl Filter {
    /// Returns true if the filter accepts an event. Listed modifiers must match exactly; a name
    /// without modifiers matches any.
    ///
    /// ```
    /// use rprof_profile::Filter;
    ///
    /// let of = |event: &str| Filter { events: vec![event.into()], ..Filter::default() };
    /// assert!(of("cycles").wants_event("cycles:u"));
    /// assert!(of("sched:sched_switch").wants_event("sched:sched_switch:u"));
    /// assert!(!of("sched").wants_event("sched:sched_switch"));
    /// ```
    pub fn wants_event(&self, name: &str) -> bool {
        let (bare, _) = split_modifiers(name);
        self.events.is_empty() || self.events.iter().any(|e| e == name || e == bare)
    }

    /// Returns true if the filter accepts a record's origin. `None` matches no list.
    pub fn wants_origin(&self, origin: &Origin<'_>) -> bool {
        fn listed<T: PartialEq>(list: &[T], value: Option<T>) -> bool {
            list.is_empty() || value.is_some_and(|v| list.contains(&v))
        }
        listed(&self.pids, origin.pid)
            && listed(&self.tids, origin.tid)
            && listed(&self.cpus, origin.cpu)
            && self
                .time
                .is_none_or(|(from, to)| origin.time.is_some_and(|t| (from..=to).contains(&t)))
            && (self.comms.is_empty()
                || (origin.comm)
                    .is_some_and(|c| self.comms.iter().any(|w| matches_bytes(w.as_bytes(), c))))
    }

    /// Returns true if the filter depends on functions or objects.
    pub fn is_by_stack(&self) -> bool {
        !(self.objects.is_empty()
            && self.symbols.is_empty()
            && self.focus.is_empty()
            && self.languages.is_empty())
    }

    /// Returns true if the filter depends on a sample's origin.
    pub fn is_by_sample(&self) -> bool {
        !(self.pids.is_empty()
            && self.tids.is_empty()
            && self.cpus.is_empty()
            && self.comms.is_empty()
            && self.parallelism.is_empty()
            && self.traces.is_empty()
            && self.slower_than.is_none()
            && self.time.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::Filter;

    #[test]
    fn events_are_chosen_with_and_without_modifiers() {
        let wants = |chosen: &str, name| {
            let events = vec![chosen.to_owned()];
            let filter = Filter {
                events,
                ..Filter::default()
            };
            filter.wants_event(name)
        };
        for (chosen, name) in [
            ("cycles", "cycles:ppp"),
            ("cycles:ppp", "cycles:ppp"),
            ("sched:sched_switch", "sched:sched_switch"),
            ("sched:sched_switch", "sched:sched_switch:u"),
            ("cpu/cycles/", "cpu/cycles/u"),
            ("mem:0x1000/8:w", "mem:0x1000/8:w:u"),
            ("cycles", "cycles:R"),
        ] {
            assert!(wants(chosen, name), "{chosen} chooses {name}");
        }
        for (chosen, name) in [
            ("sched", "sched:sched_switch"),
            ("sched", "sched:sched_switch:u"),
            ("cycles:u", "cycles:k"),
            ("cpu", "cpu/cycles/u"),
            ("mem", "mem:0x1000/8:w"),
        ] {
            assert!(!wants(chosen, name), "{chosen} does not choose {name}");
        }
        assert!(Filter::default().wants_event("anything"));
    }
}

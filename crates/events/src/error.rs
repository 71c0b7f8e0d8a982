//! [`EventError`].

use crate::suggest;
use crate::trace_unit::TraceUnit;
use crate::tracefs::TracefsError;

/// Failure to parse an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// The event name is unknown.
    #[error("there is no event `{name}`{}", suggest::suggest_or_common(near))]
    Unknown {
        /// Name without modifiers.
        name: String,
        /// Similar names, nearest first; may be empty.
        near: Vec<String>,
    },
    /// A letter after the colon is not a modifier.
    #[error(
        "unknown modifier `{modifier}` in `{event}`; valid modifiers: u (user), k (kernel), h \
         (hypervisor), G (guest), H (host), I (not idle), p, pp, ppp and P (precise), S (read the \
         group), D (pinned), e (exclusive), W (weak group) and b (BPF)"
    )]
    Modifier {
        /// Whole text of the event.
        event: String,
        /// The letter, or an empty text.
        modifier: String,
    },
    /// A modifier is repeated, or `p` occurs more than three times.
    #[error("modifier `{modifier}` is repeated in `{event}`")]
    ModifierRepeated {
        /// Whole text of the event.
        event: String,
        /// Letter as typed.
        modifier: char,
    },
    /// The text does not follow the syntax of events.
    #[error("`{event}`: {why}")]
    Syntax {
        /// Invalid part of the text.
        event: String,
        /// Cause, with a suggestion.
        why: &'static str,
    },
    /// The event belongs to the perf tool, and the kernel cannot sample it.
    #[error("`{name}` exists in perf stat only and cannot be sampled")]
    CountedOnly {
        /// Name as typed.
        name: String,
    },
    /// The machine has no such PMU.
    #[error(
        "there is no PMU `{name}`{}; {}",
        suggest::suggest_near(near),
        listed(pmus, "this machine has")
    )]
    UnknownPmu {
        /// Name or pattern.
        name: String,
        /// Similar names, nearest first.
        near: Vec<String>,
        /// All PMUs of the machine.
        pmus: Vec<String>,
    },
    /// The machine lacks the trace unit.
    #[error(
        "this machine has no {} (PMU `{name}`): the processor lacks it, the kernel was built without its driver, or a \
         virtual machine hides it",
        unit.title()
    )]
    NoTraceUnit {
        /// Name of the PMU.
        name: String,
        /// Trace unit.
        unit: TraceUnit,
    },
    /// The PMU, or the event, does not support the term.
    #[error(
        "unknown term `{term}` of {of}{}; {}",
        suggest::suggest_near(near),
        listed(terms, "valid terms:")
    )]
    UnknownTerm {
        /// Owner of the terms: a PMU, as ``the PMU `cpu` ``, or an event.
        of: String,
        /// Term as typed.
        term: String,
        /// Similar names, nearest first.
        near: Vec<String>,
        /// All supported terms, including named events.
        terms: Vec<String>,
    },
    /// A term's value is invalid.
    #[error("`{value}` is not valid for `{term}`: {why}")]
    TermValue {
        /// Term as typed.
        term: String,
        /// Value as typed; may be empty.
        value: String,
        /// Cause, or the possible values.
        why: String,
    },
    /// Tracefs has no tracepoint of this name.
    #[error("there is no tracepoint `{name}`{}", suggest::suggest_near(near))]
    UnknownTracepoint {
        /// System and name, or patterns.
        name: String,
        /// Similar names, nearest first.
        near: Vec<String>,
    },
    /// The tracepoint lookup failed.
    #[error("`{event}`: {source}")]
    Tracefs {
        /// Event as typed.
        event: String,
        /// Cause, with its remedy.
        source: TracefsError,
    },
    /// The kernel does not support this type of probe.
    #[error(
        "`{event}`: this kernel has no {pmu}s ({option} is not set), as there is no {sources}/{pmu}",
        option = option_of(pmu)
    )]
    NoProbes {
        /// Event as typed.
        event: String,
        /// `kprobe` or `uprobe`.
        pmu: &'static str,
        /// Folder of PMUs.
        sources: String,
    },
    /// A probe's function was not found.
    #[error("`{event}`: {why}")]
    Probe {
        /// Event as typed.
        event: String,
        /// Message of the resolver.
        why: String,
    },
    /// The list has too many events, for example because of patterns.
    #[error("too many events: the limit is {most}")]
    TooMany {
        /// Maximum number of events.
        most: usize,
    },
}

fn option_of(pmu: &str) -> &'static str {
    match pmu {
        "kprobe" => "CONFIG_KPROBE_EVENTS",
        _ => "CONFIG_UPROBE_EVENTS",
    }
}

fn listed(names: &[String], verb: &str) -> String {
    const LIMIT: usize = 40;
    match names {
        [] => format!("{verb} none"),
        few if few.len() <= LIMIT => format!("{verb} {}", few.join(", ")),
        many => format!(
            "{verb} {} and {} more",
            many[..LIMIT].join(", "),
            many.len() - LIMIT
        ),
    }
}

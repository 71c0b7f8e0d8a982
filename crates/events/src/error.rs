//! [`EventError`].

use crate::suggest;
use crate::trace_unit::TraceUnit;
use crate::tracefs::TracefsError;

/// Failure to parse an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// No event has this name.
    #[error("there is no event `{name}`{}", suggest::suggest_or_common(near))]
    Unknown {
        /// Name without its modifiers.
        name: String,
        /// Similar names, the nearest first; may be empty.
        near: Vec<String>,
    },
    /// A letter behind the colon is no modifier.
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
    /// A modifier stands twice, or `p` more than three times.
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
        /// Part of the text that cannot be parsed.
        event: String,
        /// Cause, and what to write instead.
        why: &'static str,
    },
    /// An event of the perf tool that the kernel cannot sample.
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
        /// Similar names, the nearest first.
        near: Vec<String>,
        /// All PMUs of the machine.
        pmus: Vec<String>,
    },
    /// The machine has no such tracing unit.
    #[error(
        "this machine has no {} (PMU `{name}`): the processor lacks it, the kernel was built without its driver, or a \
         virtual machine hides it",
        unit.title()
    )]
    NoTraceUnit {
        /// Name of the PMU.
        name: String,
        /// The unit.
        unit: TraceUnit,
    },
    /// The PMU, or the event, has no such term.
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
        /// Similar names, the nearest first.
        near: Vec<String>,
        /// All terms that it has, named events included.
        terms: Vec<String>,
    },
    /// A term's value cannot be used.
    #[error("`{value}` is not valid for `{term}`: {why}")]
    TermValue {
        /// Term as typed.
        term: String,
        /// Value as typed; may be empty.
        value: String,
        /// Cause, or the values that are possible.
        why: String,
    },
    /// No tracepoint has this name.
    #[error("there is no tracepoint `{name}`{}", suggest::suggest_near(near))]
    UnknownTracepoint {
        /// System and name, or patterns.
        name: String,
        /// Similar names, the nearest first.
        near: Vec<String>,
    },
    /// Tracepoints cannot be looked up.
    #[error("`{event}`: {source}")]
    Tracefs {
        /// Event as typed.
        event: String,
        /// Cause, with its remedy.
        source: TracefsError,
    },
    /// The kernel has no probes of this kind.
    #[error(
        "`{event}`: this kernel has no {pmu}s ({option} is not set), as there is no {sources}/{pmu}",
        option = option_of(pmu)
    )]
    NoProbes {
        /// Event as typed.
        event: String,
        /// `kprobe` or `uprobe`.
        pmu: &'static str,
        /// Folder in which PMUs are listed.
        sources: String,
    },
    /// A probe's function was not found.
    #[error("`{event}`: {why}")]
    Probe {
        /// Event as typed.
        event: String,
        /// Answer of the resolver.
        why: String,
    },
    /// The list has too many events, such as by several patterns of all tracepoints.
    #[error("too many events: the limit is {most}")]
    TooMany {
        /// Limit on the number of events.
        most: usize,
    },
}

/// Returns the kernel option that a PMU of probes needs.
fn option_of(pmu: &str) -> &'static str {
    match pmu {
        "kprobe" => "CONFIG_KPROBE_EVENTS",
        _ => "CONFIG_UPROBE_EVENTS",
    }
}

/// Returns a list for the end of a message.
fn listed(names: &[String], verb: &str) -> String {
    const MOST: usize = 40;
    match names {
        [] => format!("{verb} none"),
        few if few.len() <= MOST => format!("{verb} {}", few.join(", ")),
        many => format!(
            "{verb} {} and {} more",
            many[..MOST].join(", "),
            many.len() - MOST
        ),
    }
}

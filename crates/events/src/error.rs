//! What makes the text of an event unusable.

use crate::suggest;
use crate::tracefs::TracefsError;

/// What makes an event unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// No event has this name.
    #[error(
        "there is no event `{name}`{}; `rprof list` shows those there are",
        suggest::suggest(near)
    )]
    Unknown {
        /// The name without its modifiers.
        name: String,
        /// Names much like it, the nearest first; may be empty.
        near: Vec<String>,
    },
    /// What follows the colon is not a modifier.
    #[error(
        "`{modifier}` in `{event}` is not a modifier; there are u (user), k (kernel), h (hypervisor), \
         G (guest), H (host), I (not idle), p, pp, ppp and P (precise), S (read the group), D (pinned), \
         e (exclusive), W (weak group) and b (BPF)"
    )]
    Modifier {
        /// The whole text.
        event: String,
        /// The letter, or the whole part after the colon when it is empty.
        modifier: String,
    },
    /// A modifier stands twice, or `p` more than three times.
    #[error("the modifier `{modifier}` in `{event}` stands too often")]
    ModifierRepeated {
        /// The whole text.
        event: String,
        /// The letter.
        modifier: char,
    },
    /// The text is not put together as events are.
    #[error("`{event}`: {why}")]
    Syntax {
        /// The part of the text that is not understood.
        event: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An event of the perf tool that the kernel cannot sample.
    #[error("`{name}` is something that perf stat counts by itself; it cannot be sampled")]
    CountedOnly {
        /// The name.
        name: String,
    },
    /// There is no such PMU.
    #[error(
        "there is no PMU `{name}`{}; {}",
        suggest::suggest_only(near),
        listed(pmus, "this machine has")
    )]
    UnknownPmu {
        /// The name or pattern.
        name: String,
        /// Those much like it.
        near: Vec<String>,
        /// All there are.
        pmus: Vec<String>,
    },
    /// The PMU, or the event, has no such term.
    #[error(
        "`{term}` is no term of {of}{}; {}",
        suggest::suggest_only(near),
        listed(terms, "there are")
    )]
    UnknownTerm {
        /// What the terms are of: a PMU, as ``the PMU `cpu` ``, or an event.
        of: String,
        /// The term.
        term: String,
        /// Those much like it.
        near: Vec<String>,
        /// Those there are, named events included.
        terms: Vec<String>,
    },
    /// A term's value cannot be used.
    #[error("`{value}` is no value for `{term}`: {why}")]
    TermValue {
        /// The term.
        term: String,
        /// Its value; may be empty.
        value: String,
        /// What is wanted.
        why: String,
    },
    /// No tracepoint has this name.
    #[error("there is no tracepoint `{name}`{}", suggest::suggest_only(near))]
    UnknownTracepoint {
        /// System and name, or patterns.
        name: String,
        /// Those much like it.
        near: Vec<String>,
    },
    /// Tracepoints cannot be looked up.
    #[error("`{event}`: {source}")]
    Tracefs {
        /// The event.
        event: String,
        /// Why not, and what to do.
        source: TracefsError,
    },
    /// The kernel has no probes of this kind.
    #[error(
        "`{event}`: this kernel has no {pmu}s ({option} is not set), as there is no {sources}/{pmu}",
        option = option_of(pmu)
    )]
    NoProbes {
        /// The event.
        event: String,
        /// `kprobe` or `uprobe`.
        pmu: &'static str,
        /// Where PMUs are listed.
        sources: String,
    },
    /// A probe's function was not found.
    #[error("`{event}`: {why}")]
    Probe {
        /// The event.
        event: String,
        /// What the resolver said.
        why: String,
    },
    /// More events than anybody means, such as by a pattern of all tracepoints.
    #[error("the list of events is too long: more than {most}")]
    TooMany {
        /// Most events.
        most: usize,
    },
}

fn option_of(pmu: &str) -> &'static str {
    match pmu {
        "kprobe" => "CONFIG_KPROBE_EVENTS",
        _ => "CONFIG_UPROBE_EVENTS",
    }
}

/// A list for the end of a message.
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

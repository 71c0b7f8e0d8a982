//! Units of weights.

use std::fmt;

use crate::event_names::{WAITS, is_modifier, is_of_memory};

/// Unit of an event's weights.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WeightUnit {
    /// Nanoseconds: clock events (the period is elapsed time), and off-CPU time.
    Nanoseconds,
    /// Bytes of memory.
    Bytes,
    /// Occurrences of a generic event, by its name: `cycles`, `page-faults`.
    Named(Box<str>),
    /// Occurrences of another event (tracepoint, raw event, breakpoint).
    #[default]
    Events,
    /// Samples: each weighs 1, or the unit is unknown (folded text).
    Samples,
}

impl WeightUnit {
    /// Returns the unit of an event by its perf name.
    ///
    /// ```
    /// use rprof_profile::WeightUnit;
    ///
    /// assert_eq!(WeightUnit::of_event("cpu-clock:u"), WeightUnit::Nanoseconds);
    /// assert_eq!(WeightUnit::of_event("cycles:ppp").as_str(), "cycles");
    /// assert_eq!(WeightUnit::of_event("sched:sched_switch"), WeightUnit::Events);
    /// ```
    pub fn of_event(event: &str) -> WeightUnit {
        let (name, rest) = event.split_at(event.find([':', '/']).unwrap_or(event.len()));
        match name {
            "cpu-clock" | "task-clock" | WAITS => WeightUnit::Nanoseconds,
            name if is_of_memory(name) => WeightUnit::Bytes,
            // Only modifiers may follow, unlike `probe_app:run` and `cpu/event=1/`.
            name if is_generic(name) && are_modifiers(rest) => WeightUnit::Named(name.into()),
            _ => WeightUnit::Events,
        }
    }

    /// Returns the unit as a word: `ns`, `bytes`, the generic name, `events` or `samples`.
    pub fn as_str(&self) -> &str {
        match self {
            WeightUnit::Nanoseconds => "ns",
            WeightUnit::Bytes => "bytes",
            WeightUnit::Named(name) => name,
            WeightUnit::Events => "events",
            WeightUnit::Samples => "samples",
        }
    }
}

/// Returns true for generic events, not for raw ones: `r1a8`, `raw 0x1a8`.
fn is_generic(name: &str) -> bool {
    let is_hex = |digits: &str| digits.bytes().all(|b| b.is_ascii_hexdigit());
    let is_raw = name.strip_prefix('r').is_some_and(is_hex);
    !is_raw && !name.contains(' ')
}

/// Returns true if an event name is followed only by perf's modifier letters (perf-list(1)), not by
/// a tracepoint or uprobe name.
fn are_modifiers(rest: &str) -> bool {
    let letters = rest.strip_prefix(':').unwrap_or(rest);
    letters.chars().all(is_modifier)
}

impl fmt::Display for WeightUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::WeightUnit;

    #[test]
    fn units_follow_from_event_names() {
        for (event, expected) in [
            ("cpu-clock:u", "ns"),
            ("cpu-clock/freq=99/u", "ns"),
            ("offcpu-time", "ns"),
            ("resident-memory", "bytes"),
            ("peak-memory", "bytes"),
            ("page-faults", "page-faults"),
            ("cycles:ppp", "cycles"),
            ("sched:sched_switch", "events"),
            ("cpu/event=0x3c/", "events"),
            ("mem:0x1000/8:w", "events"),
            ("uprobe:/bin/ls:main", "events"),
            ("probe_app:run", "events"),
            ("syscalls:x", "events"),
            ("raw 0x1a8", "events"),
            ("r1a8", "events"),
            ("r01c2:u", "events"),
            ("ref-cycles:HG", "ref-cycles"),
            ("cycles:", "cycles"),
            ("cycles:uk:p", "events"),
            ("LLC-load-misses:u", "LLC-load-misses"),
            ("retired", "retired"),
        ] {
            assert_eq!(WeightUnit::of_event(event).as_str(), expected, "{event}");
        }
    }
}

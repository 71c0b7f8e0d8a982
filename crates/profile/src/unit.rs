//! Units of weights, and counts in words.

use std::borrow::Cow;
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
    /// Occurrences of a generic event: `cycles`, `page-faults`.
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

/// Returns true if only perf's modifier letters follow (perf-list(1)), not a tracepoint or uprobe
/// name.
fn are_modifiers(rest: &str) -> bool {
    let letters = rest.strip_prefix(':').unwrap_or(rest);
    letters.chars().all(is_modifier)
}

impl fmt::Display for WeightUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Formats a number with thousands separators.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number of things. `noun` is an English noun in the singular.
///
/// ```
/// use rprof_profile::unit::counted;
///
/// assert_eq!(counted(1, "sample"), "1 sample");
/// assert_eq!(counted(1234, "lost sample"), "1,234 lost samples");
/// assert_eq!([counted(2, "retry"), counted(0, "process")], ["2 retries", "0 processes"]);
/// ```
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {}", grouped(number), inflected(number, noun))
}

/// Returns an English noun in the singular for 1, and in the plural for other numbers.
pub fn inflected(number: u64, noun: &str) -> Cow<'_, str> {
    if number == 1 {
        return noun.into();
    }
    let is_sibilant = ["s", "x", "ch", "sh"].iter().any(|end| noun.ends_with(end));
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if is_sibilant => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
    .into()
}

/// Formats a subject of the verb "be": `1 image is`, `2 images are`.
pub fn counted_are(number: u64, noun: &str) -> String {
    let verb = if number == 1 { "is" } else { "are" };
    format!("{} {verb}", counted(number, noun))
}

/// Formats a subject of the past of "be": `1 line was`, `2 lines were`.
pub fn counted_were(number: u64, noun: &str) -> String {
    let verb = if number == 1 { "was" } else { "were" };
    format!("{} {verb}", counted(number, noun))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_separators_and_nouns_agree_with_them() {
        let shown = [0, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
        for (noun, two) in [
            ("sample", "2 samples"),
            ("process", "2 processes"),
            ("switch", "2 switches"),
            ("retry", "2 retries"),
            ("key", "2 keys"),
            ("image", "2 images"),
        ] {
            assert_eq!(counted(1, noun), format!("1 {noun}"));
            assert_eq!(counted(2, noun), two);
        }
        assert_eq!(counted_are(1, "image"), "1 image is");
        assert_eq!(counted_are(0, "image"), "0 images are");
        assert_eq!(counted_were(1, "line"), "1 line was");
        assert_eq!(counted_were(2, "line"), "2 lines were");
    }

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

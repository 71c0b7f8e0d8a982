//! Event names: from what a user types to what the kernel takes, and back.
//!
//! | module | holds |
//! |---|---|
//! | `names` | the generic names of perf-list(1) and their numbers |
//! | `modifiers` | `:u`, `:k`, `:h` |
//! | `near` | "did you mean" |

mod modifiers;
mod names;
mod near;

pub use modifiers::Modifiers;

use rprof_records::EventKind;
use std::fmt;

/// An event to count or to sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    name: String,
    kind: EventKind,
    config: u64,
    modifiers: Modifiers,
}

/// What makes an event name unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// No event has this name.
    #[error("there is no event `{name}`{}", near::suggest(near))]
    Unknown {
        /// The name without its modifiers.
        name: String,
        /// Names much like it, the nearest first; may be empty.
        near: Vec<String>,
    },
    /// What follows the colon is not a modifier.
    #[error(
        "`{modifier}` in `{event}` is not a modifier; there are u (user), k (kernel) and h (hypervisor)"
    )]
    Modifier {
        /// The whole text.
        event: String,
        /// The letter, or the whole part after the colon when it is empty.
        modifier: String,
    },
}

impl Event {
    /// Reads one event, such as `cycles`, `page-faults:u` or `r01c2`.
    ///
    /// Names are those of perf-list(1), in any case: generic hardware events, software events,
    /// generic cache events, and raw events as `r` with hexadecimal digits.
    ///
    /// # Errors
    /// [`EventError`] with names near the one asked for.
    pub fn parse(text: &str) -> Result<Event, EventError> {
        let text = text.trim();
        let (name, modifiers) = match text.split_once(':') {
            Some((name, letters)) => (
                name,
                Modifiers::parse(letters).map_err(|modifier| EventError::Modifier {
                    event: text.to_owned(),
                    modifier,
                })?,
            ),
            None => (text, Modifiers::default()),
        };
        let known = names::find(name).ok_or_else(|| EventError::Unknown {
            name: name.to_owned(),
            near: near::names_near(name, names::all()),
        })?;
        Ok(Event {
            name: known.name,
            kind: known.kind,
            config: known.config,
            modifiers,
        })
    }

    /// Reads a list of events with commas between them; empty parts are skipped.
    ///
    /// # Errors
    /// As [`Event::parse`], for the first part that fails.
    pub fn parse_list(text: &str) -> Result<Vec<Event>, EventError> {
        text.split(',')
            .filter(|part| !part.trim().is_empty())
            .map(Event::parse)
            .collect()
    }

    /// Processor cycles: what a profiler samples unless told otherwise.
    pub fn cycles() -> Event {
        Event::numbered("cycles", EventKind::HARDWARE, 0)
    }

    /// Processor time by the kernel's timer: what works on every machine.
    pub fn cpu_clock() -> Event {
        Event::numbered("cpu-clock", EventKind::SOFTWARE, names::SW_CPU_CLOCK)
    }

    /// Nothing at all: carries the sideband records.
    pub(crate) fn dummy() -> Event {
        Event::numbered("dummy", EventKind::SOFTWARE, names::SW_DUMMY)
    }

    fn numbered(name: &str, kind: EventKind, config: u64) -> Event {
        Event {
            name: name.to_owned(),
            kind,
            config,
            modifiers: Modifiers::default(),
        }
    }

    /// The same event with other modifiers.
    pub fn with_modifiers(self, modifiers: Modifiers) -> Event {
        Event { modifiers, ..self }
    }

    /// Canonical name without modifiers: `faults` gives `page-faults`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `perf_event_attr.type`.
    pub fn kind(&self) -> EventKind {
        self.kind
    }

    /// `perf_event_attr.config`.
    pub fn config(&self) -> u64 {
        self.config
    }

    /// Which sides of the machine it counts.
    pub fn modifiers(&self) -> Modifiers {
        self.modifiers
    }

    /// The name for a file's event description: canonical name and modifiers, as `cycles:u`.
    pub fn describe(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, self.modifiers)
    }
}

impl std::str::FromStr for Event {
    type Err = EventError;
    fn from_str(text: &str) -> Result<Event, EventError> {
        Event::parse(text)
    }
}

/// All generic names, for a listing and for completion, in the order of perf-list(1).
pub fn known_names() -> Vec<String> {
    names::all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> (u32, u64) {
        let event = Event::parse(text).unwrap();
        (event.kind().0, event.config())
    }

    #[test]
    fn generic_names() {
        assert_eq!(numbers("cycles"), (0, 0));
        assert_eq!(numbers("cpu-cycles"), (0, 0));
        assert_eq!(numbers("CACHE-MISSES"), (0, 3));
        assert_eq!(numbers("cpu-clock"), (1, 0));
        assert_eq!(numbers("faults"), (1, 2));
        assert_eq!(numbers("cs"), (1, 3));
        assert_eq!(numbers("r1a8"), (4, 0x1a8));
        assert_eq!(numbers("L1-dcache-load-misses"), (3, 0x1_0000));
        assert_eq!(numbers("LLC-stores"), (3, 0x0_0102));
    }

    #[test]
    fn the_canonical_name_is_kept_with_its_modifiers() {
        let describe = |text| Event::parse(text).unwrap().describe();
        assert_eq!(describe("faults"), "page-faults");
        assert_eq!(describe("cpu-cycles:u"), "cycles:u");
        assert_eq!(describe("cycles:ku"), "cycles:uk");
        assert_eq!(describe(" cs "), "context-switches");
    }

    #[test]
    fn errors_name_what_is_near() {
        let Err(EventError::Unknown { near, .. }) = Event::parse("cache-mises") else {
            panic!("should not be known");
        };
        assert_eq!(near[0], "cache-misses");
        let shown = Event::parse("cpuclock").unwrap_err().to_string();
        assert!(shown.contains("cpu-clock"), "{shown}");
        let shown = Event::parse("cycles:q").unwrap_err().to_string();
        assert!(shown.contains("`q`"), "{shown}");
        assert!(Event::parse("cycles:").is_err());
        assert!(Event::parse("").is_err());
        assert!(Event::parse("rxyz").is_err());
    }

    #[test]
    fn every_listed_name_is_found_under_itself() {
        for name in known_names() {
            assert_eq!(Event::parse(&name).unwrap().name(), name);
        }
    }

    #[test]
    fn lists() {
        let events = Event::parse_list("cycles:u, faults,").unwrap();
        let names: Vec<_> = events.iter().map(Event::describe).collect();
        assert_eq!(names, ["cycles:u", "page-faults"]);
    }
}

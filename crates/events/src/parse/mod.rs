//! [`EventParser`]: the syntax of `perf record -e`.

mod letters;
mod list;
mod one;
mod terms;

use crate::error::EventError;
use crate::event::Event;
use crate::sources::{Resolver, Sources};
use letters::add_group_letters;
use std::path::PathBuf;
use std::str::FromStr;

/// Maximum number of events, more than a machine has tracepoints.
const MAX_EVENTS: usize = 1 << 14;

/// Parser of events. Looks up machine-specific names in sysfs and tracefs.
///
/// # Examples
/// ```
/// use rprof_events::EventParser;
///
/// let events = EventParser::new().parse_list("{cpu-clock,page-faults:u}:S,context-switches")?;
/// let names: Vec<String> = events.iter().map(|event| event.describe()).collect();
/// assert_eq!(names, ["cpu-clock:S", "page-faults:uS", "context-switches"]);
/// assert_eq!(events[1].group(), events[0].group());
/// # Ok::<(), rprof_events::EventError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct EventParser<'a> {
    sources: Sources<'a>,
}

impl<'a> EventParser<'a> {
    /// Creates a parser that looks up names on this machine, without functions of programs.
    pub fn new() -> EventParser<'a> {
        EventParser::default()
    }

    /// Sets the resolver of functions, for `uprobe:` with a name.
    pub fn resolver(mut self, resolver: &'a dyn Resolver) -> Self {
        self.sources.resolver = Some(resolver);
        self
    }

    /// Sets the folder of PMUs, instead of `/sys/bus/event_source/devices`.
    pub fn pmus(mut self, folder: impl Into<PathBuf>) -> Self {
        self.sources.pmus = folder.into();
        self
    }

    /// Sets the root of tracefs, instead of its mount point.
    pub fn tracefs(mut self, root: impl Into<PathBuf>) -> Self {
        self.sources.tracefs = Some(root.into());
        self
    }

    /// Parses a comma-separated list of events. An empty text is an empty list.
    ///
    /// A part may mean several events: a pattern of tracepoints, or the name of several PMUs.
    ///
    /// # Errors
    /// Returns [`EventError`] for the first invalid or unknown part.
    pub fn parse_list(&self, text: &str) -> Result<Vec<Event>, EventError> {
        let mut events = Vec::new();
        for part in list::split(text)? {
            let mut found = one::parse(part.text, &self.sources)?;
            if events.len() + found.len() > MAX_EVENTS {
                return Err(EventError::TooMany { most: MAX_EVENTS });
            }
            for event in &mut found {
                event.group = part.group;
                event.is_leader = match (part.group, events.last()) {
                    (Some(_), Some(before)) => Event::group(before) != part.group,
                    _ => true,
                };
                if let Some(letters) = part.group_letters {
                    add_group_letters(event, letters, text)?;
                }
                events.push(event.clone());
            }
        }
        Ok(events)
    }

    /// Parses one event.
    ///
    /// # Errors
    /// Returns the errors of [`parse_list`](Self::parse_list); [`EventError::Syntax`] if the text
    /// means several events, [`EventError::Unknown`] if it means none.
    pub fn parse(&self, text: &str) -> Result<Event, EventError> {
        let mut events = self.parse_list(text)?;
        match (events.pop(), events.is_empty()) {
            (Some(event), true) => Ok(event),
            (None, _) => Err(EventError::Unknown {
                name: text.trim().to_owned(),
                near: Vec::new(),
            }),
            (Some(_), false) => Err(EventError::Syntax {
                event: text.to_owned(),
                why: "it matches several events; give one",
            }),
        }
    }
}

impl Event {
    /// Parses one event, such as `cycles`, `page-faults:u` or `sched:sched_switch`.
    ///
    /// Generic names may have any letter case.
    ///
    /// # Examples
    /// ```
    /// use rprof_events::{Event, EventError};
    ///
    /// assert_eq!(Event::parse("faults:u")?.describe(), "page-faults:u");
    /// let error = Event::parse("cpuclock").unwrap_err();
    /// assert!(error.to_string().contains("did you mean `cpu-clock`"));
    /// # Ok::<(), EventError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`EventError`], with similar names; also if the text means several events or none.
    pub fn parse(text: &str) -> Result<Event, EventError> {
        EventParser::new().parse(text)
    }

    /// Parses a comma-separated list of events. An empty text is an empty list.
    ///
    /// Probes on functions of programs require a [`Resolver`], see [`EventParser`].
    ///
    /// # Errors
    /// Returns [`EventError`] for the first part that fails.
    pub fn parse_list(text: &str) -> Result<Vec<Event>, EventError> {
        EventParser::new().parse_list(text)
    }

    /// Parses a list of events, with `resolver` for functions of probes.
    ///
    /// # Errors
    /// Returns the errors of [`Event::parse_list`].
    pub fn parse_with(text: &str, resolver: &dyn Resolver) -> Result<Vec<Event>, EventError> {
        EventParser::new().resolver(resolver).parse_list(text)
    }
}

impl FromStr for Event {
    type Err = EventError;
    fn from_str(text: &str) -> Result<Event, EventError> {
        Event::parse(text)
    }
}

//! The syntax of `perf record -e`.
//!
//! | module | holds |
//! |---|---|
//! | `list` | commas, braces and slashes: from a list to the text of each event |
//! | `one` | the text of an event: name, terms, letters |
//! | `terms` | terms, and a PMU's among them |

mod list;
mod one;
mod terms;

use crate::modifiers::{BadLetters, Letters};
use crate::sources::Sources;
use crate::{Event, EventError, Resolver};
use std::path::PathBuf;

/// Most events in a list: all tracepoints of a machine, and more.
const MOST_EVENTS: usize = 1 << 14;

/// Reads events, and says where the names are looked up that only a machine knows.
///
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
    /// A parser that looks names up on this machine.
    pub fn new() -> EventParser<'a> {
        EventParser::default()
    }

    /// Who finds functions in programs, for `uprobe:` with a name.
    pub fn resolver(mut self, resolver: &'a dyn Resolver) -> Self {
        self.sources.resolver = Some(resolver);
        self
    }

    /// Another folder of PMUs than `/sys/bus/event_source/devices`.
    pub fn pmus(mut self, folder: impl Into<PathBuf>) -> Self {
        self.sources.pmus = folder.into();
        self
    }

    /// Another tracefs than the one that is mounted.
    pub fn tracefs(mut self, root: impl Into<PathBuf>) -> Self {
        self.sources.tracefs = Some(root.into());
        self
    }

    /// Reads a list of events with commas between them; empty parts are skipped.
    ///
    /// A part can stand for several events: a pattern of tracepoints, or the name of several PMUs.
    ///
    /// # Errors
    /// For the first part that is no event of this machine.
    pub fn parse_list(&self, text: &str) -> Result<Vec<Event>, EventError> {
        let mut events = Vec::new();
        for part in list::split(text)? {
            let mut found = one::parse(part.text, &self.sources)?;
            if events.len() + found.len() > MOST_EVENTS {
                return Err(EventError::TooMany { most: MOST_EVENTS });
            }
            for event in &mut found {
                event.group = part.group;
                event.leads = match (part.group, events.last()) {
                    (Some(_), Some(before)) => Event::group(before) != part.group,
                    _ => true,
                };
                if let Some(letters) = part.group_letters {
                    add_letters(event, letters, text)?;
                }
                events.push(event.clone());
            }
        }
        Ok(events)
    }

    /// Reads one event.
    ///
    /// # Errors
    /// As [`parse_list`](Self::parse_list), and when the text stands for several or none.
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
                why: "it stands for several events, where one is wanted",
            }),
        }
    }
}

/// Adds the letters of a group to an event of it.
fn add_letters(event: &mut Event, letters: &str, text: &str) -> Result<(), EventError> {
    let read = Letters {
        modifiers: event.modifiers,
        qualifiers: event.qualifiers,
    };
    let sum = read
        .add(letters)
        .map_err(|bad| bad_letters(bad, letters, text))?;
    event.modifiers = sum.modifiers;
    event.qualifiers = sum.qualifiers;
    Ok(())
}

fn bad_letters(bad: BadLetters, letters: &str, event: &str) -> EventError {
    let event = event.to_owned();
    match bad {
        BadLetters::Empty => EventError::Modifier {
            event,
            modifier: letters.to_owned(),
        },
        BadLetters::Unknown(letter) => EventError::Modifier {
            event,
            modifier: letter.to_string(),
        },
        BadLetters::Repeated(modifier) => EventError::ModifierRepeated { event, modifier },
    }
}

//! The events of `-e`, and how a list that is none is told.

use rprof_events::{Event, EventError};

use crate::messages::Failure;
use crate::probes::ProgramFunctions;

/// Parses all values of `-e` as one list, so that each group has a number of its own.
pub(crate) fn parse(lists: &[String]) -> Result<Vec<Event>, Failure> {
    Event::parse_with(&lists.join(","), &ProgramFunctions).map_err(|error| match error {
        // The words are right; the machine lacks something.
        EventError::Tracefs { .. } => Failure::from(error),
        EventError::Unknown { .. } => {
            let message = format!("{error}; `rprof list` shows those there are");
            Failure::with_status(2, anyhow::anyhow!(message))
        }
        error => Failure::with_status(2, error),
    })
}

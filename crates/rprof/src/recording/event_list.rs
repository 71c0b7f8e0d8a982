//! Parses `-e`, and explains errors in the list.

use std::collections::BTreeSet;
use std::path::Path;

use rprof_events::{Event, EventError, Resolver};
use rprof_image::ImageFile;
use rprof_symbols::elf::function_offset;

use crate::wording::messages::{Failure, say};

/// Resolver that reads symbol tables of programs.
struct ProgramFunctions;

impl Resolver for ProgramFunctions {
    fn file_offset(&self, program: &Path, function: &str) -> Result<u64, String> {
        let shown = program.display();
        let file = ImageFile::open(program).map_err(|why| format!("cannot use {shown}: {why}"))?;
        function_offset(file.bytes(), function)
            .map_err(|why| format!("cannot set a probe on `{function}` in {shown}: {why}"))
    }
}

/// Parses all values of `-e` as one list, so that group numbers are unique.
pub(crate) fn parse(lists: &[String]) -> Result<Vec<Event>, Failure> {
    let text = lists.join(",");
    if text.trim().is_empty() {
        return Err(usage(
            "-e has no event; `rprof list` shows all events".to_owned(),
        ));
    }
    Event::parse_with(&text, &ProgramFunctions).map_err(|error| match error {
        // The syntax is right; the machine lacks tracefs.
        EventError::Tracefs { .. } => Failure::from(error),
        EventError::Unknown { .. } | EventError::UnknownTracepoint { .. } => {
            let message = format!("{error}; `rprof list` shows all events");
            Failure::with_status(2, anyhow::anyhow!(message))
        }
        error => Failure::with_status(2, error),
    })
}

/// Warns of probes that new threads and processes do not inherit.
pub(crate) fn warn_of_probes(lists: &[String]) -> Result<(), Failure> {
    let events = match lists.is_empty() {
        true => Vec::new(),
        false => parse(lists)?,
    };
    for event in events.iter().filter(|event| !event.is_inherited()) {
        say(format!(
            "event `{event}`: threads and processes that start later are not recorded: the kernel \
             does not inherit probes on a file; -a records all"
        ));
    }
    Ok(())
}

pub(crate) fn add_filter(events: &mut [Event], filter: &str) -> Result<(), Failure> {
    if events.is_empty() {
        return Err(usage(format!(
            "--filter {filter} has no event before it: put it after the -e with its tracepoints"
        )));
    }
    for event in events {
        // A sample must pass both filters.
        let whole = match event.filter() {
            Some(first) => format!("({}) && ({filter})", first.to_string_lossy()),
            None => filter.to_owned(),
        };
        let filtered = event.clone().with_filter(&whole);
        *event = filtered.ok_or_else(|| {
            usage(format!(
                "--filter is for tracepoints, and `{event}` is none; `rprof list tracepoint` lists \
                 them"
            ))
        })?;
    }
    Ok(())
}

/// Warns of event options without effect, once per option.
pub(crate) fn warn_of_ignored(events: &[Event]) {
    let mut warned = BTreeSet::new();
    for event in events {
        for part in event.ignored_when_sampled() {
            if warned.insert(part) {
                say(format!("event `{event}`: {part}"));
            }
        }
    }
}

fn usage(message: String) -> Failure {
    Failure::with_status(2, anyhow::anyhow!(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_know_every_modifier_that_is_accepted() {
        let letters: Vec<char> = ('A'..='z')
            .filter(char::is_ascii_alphabetic)
            .filter(|letter| Event::parse(&format!("page-faults:{letter}")).is_ok())
            .collect();
        assert!(letters.contains(&'u'), "{letters:?}");
        let unknown: Vec<&char> = (letters.iter())
            .filter(|letter| !rprof_profile::is_modifier(**letter))
            .collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}

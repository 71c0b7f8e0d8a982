//! Shell completions for options that also accept other values.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error};

/// Parser of an option's value, with suggestions for completions. Unlike a list of possible values,
/// the suggestions restrict nothing; only the parser rejects values.
#[derive(Clone)]
pub(super) struct Suggested<T> {
    values: &'static [&'static str],
    parse: fn(&str) -> Result<T, String>,
}

/// Creates a parser with suggestions. Hide the possible values of the option, because its help
/// names them in a sentence.
pub(super) const fn suggested<T>(
    values: &'static [&'static str],
    parse: fn(&str) -> Result<T, String>,
) -> Suggested<T> {
    Suggested { values, parse }
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Suggested<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        TypedValueParser::parse_ref(&self.parse, command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(
            self.values.iter().copied().map(PossibleValue::new),
        ))
    }
}

pub(super) fn text<T>(text: &str) -> Result<T, String>
where
    T: std::str::FromStr<Err: ToString>,
{
    text.parse().map_err(|error: T::Err| error.to_string())
}

/// Methods of recording call stacks.
pub(super) const STACKS: &[&str] = &["auto", "fp", "dwarf", "lbr", "none"];

/// Parts of branch filters.
pub(super) const BRANCH_FILTERS: &[&str] = &[
    "any",
    "any_call",
    "any_ret",
    "ind_call",
    "ind_jmp",
    "call",
    "cond",
    "in_tx",
    "no_tx",
    "abort_tx",
    "stack",
    "save_type",
    "u",
    "k",
    "hv",
];

/// Clocks for timestamps of records.
pub(super) const CLOCKS: &[&str] = &["monotonic", "monotonic_raw", "realtime", "boottime", "tai"];

/// Palettes of flame graphs.
pub(super) const PALETTES: &[&str] = &[
    "kind", "hot", "mem", "io", "red", "green", "blue", "aqua", "yellow", "purple", "orange",
    "wakeup", "java", "js", "perl", "python", "rust",
];

/// Events that most kernels have, by perf's names.
pub(super) const EVENTS: &[&str] = &[
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "cpu-clock",
    "task-clock",
    "page-faults",
    "minor-faults",
    "major-faults",
    "context-switches",
    "cpu-migrations",
];

/// Commands with a manual page.
pub(super) const COMMANDS: &[&str] = &[
    "record",
    "annotate",
    "report",
    "top",
    "stat",
    "flamegraph",
    "html",
    "diff",
    "gate",
    "explain",
    "collapse",
    "export",
    "push",
    "script",
    "header",
    "list",
    "doctor",
    "demo",
    "completions",
    "man",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::cli::command;

    #[test]
    fn pages_are_offered_of_every_command_that_is_shown() {
        let rprof = command();
        let shown = rprof.get_subcommands().filter(|sub| !sub.is_hide_set());
        let names: BTreeSet<&str> = shown.map(Command::get_name).collect();
        assert_eq!(names, COMMANDS.iter().copied().collect::<BTreeSet<_>>());
    }

    #[test]
    fn every_value_that_is_offered_is_taken() {
        let takes = |words: &[&str]| {
            let all = [&["rprof"], words].concat();
            let parsed = command().try_get_matches_from(all);
            assert!(parsed.is_ok(), "{words:?}: {parsed:?}");
        };
        for how in STACKS {
            takes(&["record", "--call-graph", how, "--", "true"]);
        }
        for filter in BRANCH_FILTERS {
            takes(&["record", "-j", filter, "--", "true"]);
        }
        for clock in CLOCKS {
            takes(&["record", "-k", clock, "--", "true"]);
        }
        for palette in PALETTES {
            takes(&["flamegraph", "--colors", palette]);
        }
        for event in EVENTS {
            assert!(rprof_events::Event::parse(event).is_ok(), "{event}");
        }
    }
}

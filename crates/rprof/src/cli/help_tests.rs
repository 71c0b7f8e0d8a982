//! Snapshots of the help texts.
//!
//! To accept a change: `INSTA_UPDATE=always cargo test -p rprof help`.

use std::collections::{BTreeMap, BTreeSet};

use super::command;

/// Returns the help of a command, 100 columns wide.
fn help(name: &str) -> String {
    let mut rprof = command().term_width(100);
    rprof.build();
    let found = rprof.find_subcommand_mut(name);
    let found = found.unwrap_or_else(|| panic!("there is no command {name}"));
    let text = found.render_long_help().to_string();
    let lines = text.lines().map(str::trim_end);
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn help_of_every_command_is_the_reviewed_text() {
    let mut rprof = command().term_width(100);
    rprof.build();
    insta::assert_snapshot!("rprof", rprof.render_long_help().to_string());
    let names: Vec<String> = (rprof.get_subcommands())
        .filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
        .map(|sub| sub.get_name().to_owned())
        .collect();
    assert!(names.len() > 10, "{names:?}");
    let texts = names
        .iter()
        .map(|name| format!("{name}\n====\n{}\n", help(name)));
    insta::assert_snapshot!("commands", texts.collect::<Vec<_>>().join("\n"));
}

#[test]
fn messages_for_invalid_numbers_name_the_accepted_ones() {
    for sub in command().get_subcommands() {
        let options = sub.get_arguments().filter_map(clap::Arg::get_long);
        for (option, value) in options.flat_map(|option| ["x", "0"].map(|value| (option, value))) {
            let sub = sub.clone().no_binary_name(true);
            let Err(error) = sub.try_get_matches_from([format!("--{option}={value}")]) else {
                continue;
            };
            let text = error.to_string();
            for words in ["invalid digit", "invalid float", " is not in "] {
                assert!(!text.contains(words), "{text}");
            }
        }
    }
}

#[test]
fn every_visible_option_has_a_help_text_that_begins_with_a_capital() {
    let mut rprof = command();
    rprof.build();
    for sub in rprof.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        for argument in sub.get_arguments().filter(|a| !a.is_hide_set()) {
            let text = argument.get_help().map(ToString::to_string);
            let text = text.unwrap_or_default();
            let first = text.chars().next();
            let place = format!("{} {}: {text:?}", sub.get_name(), argument.get_id());
            assert!(first.is_some_and(char::is_uppercase), "{place}");
            assert!(!text.ends_with('.'), "{place}");
        }
    }
}

#[test]
fn option_takes_the_same_value_in_all_commands() {
    let mut rprof = command();
    rprof.build();
    let mut values: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for sub in rprof.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        for argument in sub.get_arguments().filter(|a| !a.is_hide_set()) {
            let Some(option) = argument.get_long() else {
                continue;
            };
            let takes_value = argument.get_action().takes_values();
            let names = argument.get_value_names().filter(|_| takes_value);
            let names: Vec<&str> = names
                .unwrap_or_default()
                .iter()
                .map(clap::builder::Str::as_str)
                .collect();
            values.entry(option).or_default().insert(names.join(" "));
        }
    }
    let different: Vec<&str> = (values.iter())
        .filter(|(_, names)| names.len() > 1)
        .map(|(option, _)| *option)
        .collect();
    // `call-graph`, `timeout` and `weight` mean two things in perf, too. `--base` takes files of one
    // program or a folder of them, `--fail-above` also names of counts, `--off-cpu` of `record` also
    // a length; `--per` divides a table or a count.
    let accepted = [
        "base",
        "call-graph",
        "fail-above",
        "off-cpu",
        "per",
        "timeout",
        "weight",
    ];
    assert_eq!(different, accepted);
}

//! The list of commands in `rprof --help`, grouped by purpose.

use std::fmt::Write as _;

use super::STYLES;

/// Headings, and the commands below each.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Record", &["record", "stat", "demo"]),
    (
        "Look at a recording",
        &[
            "report",
            "explain",
            "flamegraph",
            "html",
            "annotate",
            "script",
            "header",
        ],
    ),
    ("Compare", &["diff", "gate"]),
    ("Share", &["collapse", "export", "push"]),
    ("Watch live", &["top"]),
    (
        "This machine",
        &["doctor", "list", "completions", "man", "help"],
    ),
];

/// Description of clap's own command, which clap adds later.
const HELP: (&str, &str) = ("help", "Shows this help, or the help of a command");

pub(super) fn with_groups(command: clap::Command) -> clap::Command {
    let shown: Vec<(String, String)> = command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set())
        .map(|sub| {
            let about = sub.get_about().map(ToString::to_string);
            (sub.get_name().to_owned(), about.unwrap_or_default())
        })
        .chain([(HELP.0.to_owned(), HELP.1.to_owned())])
        .collect();
    let width = shown.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let (header, literal) = (STYLES.get_header(), STYLES.get_literal());
    let mut list = String::new();
    for (heading, names) in GROUPS {
        let _ = writeln!(list, "{header}{heading}:{header:#}");
        for name in names {
            let Some((_, about)) = shown.iter().find(|(shown, _)| shown == name) else {
                continue;
            };
            let _ = writeln!(list, "  {literal}{name:width$}{literal:#}  {about}");
        }
        list.push('\n');
    }
    let options = format!("{header}Options:{header:#}\n{{options}}");
    command.help_template(format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{options}{{after-help}}"
    ))
}

#[cfg(test)]
mod tests {
    use super::{GROUPS, HELP};

    #[test]
    fn every_visible_command_is_in_one_group() {
        let command = crate::cli::command();
        let shown = (command.get_subcommands()).filter(|sub| !sub.is_hide_set());
        for name in shown.map(clap::Command::get_name).chain([HELP.0]) {
            let groups = GROUPS.iter().filter(|(_, names)| names.contains(&name));
            assert_eq!(groups.count(), 1, "{name}");
        }
        let text = command.clone().render_long_help().to_string();
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let begin = format!("\n  {} ", sub.get_name());
            assert_eq!(text.matches(&begin).count(), 1, "{begin:?} in {text}");
        }
    }
}

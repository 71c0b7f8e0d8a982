//! The help of `-h`: three examples and the most used options, on one screen. `--help` shows all
//! options.

mod commands;

use std::ffi::OsString;

use clap::Arg;
use commands::SHORT_HELPS;

/// Help of one command for `-h`.
struct ShortHelp {
    command: &'static str,
    /// Command lines with a description of each.
    examples: [(&'static str, &'static str); 3],
    /// Long names of the shown options; empty for all options.
    options: &'static [&'static str],
}

/// Separators at which `-h` cuts a long help text. `--help` shows the rest.
const ENDS: [&str; 4] = ["; ", ": ", ", ", " [default"];

/// Minimum length of a cut text, in bytes.
const MIN_HELP: usize = 12;

/// Maximum length of a help text without a cut, in characters.
const MAX_HELP: usize = 48;

/// Shortens the help if the arguments contain `-h`.
pub(super) fn with_short_help(command: clap::Command, arguments: &[OsString]) -> clap::Command {
    let ours = arguments.iter().take_while(|word| *word != "--");
    match ours.skip(1).any(|word| word == "-h") {
        true => shortened(command),
        false => command,
    }
}

fn shortened(command: clap::Command) -> clap::Command {
    SHORT_HELPS.iter().fold(command, |command, help| {
        match command.find_subcommand(help.command) {
            Some(_) => command.mut_subcommand(help.command, |sub| shorten(sub, help)),
            None => command,
        }
    })
}

fn shorten(command: clap::Command, help: &ShortHelp) -> clap::Command {
    let name = help.command;
    let widest = (help.examples.iter().map(|(line, _)| line.len()))
        .max()
        .unwrap_or(0);
    let examples: Vec<String> = (help.examples.iter())
        .map(|(line, what)| format!("  {line:widest$}  {what}"))
        .collect();
    let rest = match help.options.is_empty() {
        true => String::new(),
        false => format!("\n\n`rprof {name} --help` lists all options."),
    };
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\nExamples:\n{}\n\n{{all-args}}{rest}",
        examples.join("\n")
    );
    command
        .help_template(template)
        .after_help(None::<&str>)
        .mut_args(|arg| shorten_argument(arg, help.options))
}

fn shorten_argument(arg: Arg, options: &[&str]) -> Arg {
    let is_shown = options.is_empty()
        || arg.is_positional()
        || (arg.get_long()).is_some_and(|long| options.contains(&long));
    if !is_shown {
        return arg.hide_short_help(true);
    }
    let Some(text) = arg.get_help().map(ToString::to_string) else {
        return arg;
    };
    let arg = match arg.get_long_help() {
        Some(_) => arg,
        None => arg.long_help(text.clone()),
    };
    let takes_values = arg.get_action().takes_values();
    let arg = arg.help(first_part(&text));
    match takes_values {
        true => arg.hide_possible_values(true),
        false => arg,
    }
}

/// Returns the first part of a help text, which says what the option does, with the default.
fn first_part(text: &str) -> String {
    let default = (text.rfind(" [default")).map_or("", |at| &text[at..]);
    let body = text.strip_suffix(default).unwrap_or(text);
    if text.chars().count() <= MAX_HELP {
        return text.to_owned();
    }
    let ends = ENDS.iter().flat_map(|end| body.match_indices(end));
    let is_in_brackets = |at| body[..at].matches('(').count() > body[..at].matches(')').count();
    let ends = ends.map(|(at, _)| at);
    let ends = ends.filter(|at| *at >= MIN_HELP && !is_in_brackets(*at));
    let end = ends.min().unwrap_or(body.len());
    let short_default = if default.chars().count() <= MAX_HELP / 2 {
        default
    } else {
        ""
    };
    format!("{}{short_default}", &body[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command;

    fn help(name: &str, width: usize) -> String {
        let mut rprof = shortened(command().term_width(width));
        rprof.build();
        let found = rprof.find_subcommand_mut(name).expect("a command");
        found.render_help().to_string()
    }

    #[test]
    fn short_help_of_every_command_fits_on_a_screen_and_begins_with_examples() {
        let mut too_long = Vec::new();
        for sub in command().get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let name = sub.get_name();
            for width in [80, 100] {
                let count = help(name, width).lines().count();
                if count > 50 {
                    too_long.push(format!("{name} at {width}: {count} lines"));
                }
            }
        }
        assert!(too_long.is_empty(), "{}", too_long.join("\n"));
        let commands = command();
        let names = (commands.get_subcommands())
            .filter(|sub| !sub.is_hide_set())
            .map(clap::Command::get_name);
        for name in names.filter(|name| *name != "help") {
            let text = help(name, 80);
            let examples = text.lines().skip_while(|line| *line != "Examples:").skip(1);
            let examples: Vec<&str> = examples.take_while(|line| !line.is_empty()).collect();
            assert_eq!(examples.len(), 3, "{text}");
            for line in &examples {
                assert!(line.len() <= 80, "{line}");
            }
            let (before, _) = text.split_once("Examples:").expect("examples");
            assert!(
                !before.contains("  -"),
                "options before examples in\n{text}"
            );
        }
    }

    #[test]
    fn positional_arguments_have_no_heading() {
        for sub in command().get_subcommands() {
            for argument in sub.get_positionals() {
                let heading = argument.get_help_heading();
                assert_eq!(heading, None, "{} {}", sub.get_name(), argument.get_id());
            }
        }
    }

    #[test]
    fn options_of_short_helps_exist() {
        let command = command();
        for short in SHORT_HELPS {
            let sub = command.find_subcommand(short.command).expect("a command");
            for option in short.options {
                let mut arguments = sub.get_arguments();
                let has_it = arguments.any(|arg| arg.get_long() == Some(*option));
                assert!(has_it, "rprof {} has no --{option}", short.command);
            }
        }
    }

    #[test]
    fn long_texts_are_cut_where_a_part_of_them_ends() {
        assert_eq!(
            first_part("Record the whole system"),
            "Record the whole system"
        );
        assert_eq!(
            first_part(
                "Samples per second on each CPU, or `max`; lowered to the kernel's limit [default: 999]"
            ),
            "Samples per second on each CPU [default: 999]"
        );
        assert_eq!(
            first_part(
                "Record only on these CPUs, such as `0-3,8`; without another target, all processes there"
            ),
            "Record only on these CPUs"
        );
        assert_eq!(
            first_part("Record when each thread runs (switches, without stacks), for `report`"),
            "Record when each thread runs (switches, without stacks)"
        );
    }
}

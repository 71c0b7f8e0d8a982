//! Options of perf, samply, flamegraph.pl, inferno, cargo-flamegraph, py-spy, async-profiler and
//! pprof with another name in rprof. Accepted if the meaning is the same, otherwise answered with
//! the rprof equivalent.

mod perf;
mod profilers;

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Arg, ArgAction};
use rprof_export::clean::brief;

use super::file_in;

/// Answer to an option of another tool.
#[derive(Clone, Copy)]
enum Answer {
    /// Accepted as an alias of the option with this long name.
    Same(&'static str),
    /// Accepted without effect: rprof always does this.
    Always,
    /// Rejected with this answer; `FILE` stands for the recording, `THEIRS` for the option.
    Instead(&'static str),
}

use Answer::{Always, Instead, Same};

/// Options with one answer: commands, names of the options, answer.
type Row = (&'static [&'static str], &'static [&'static str], Answer);

const RECORD: &[&str] = &["record"];
const REPORT: &[&str] = &["report"];
const ANNOTATE: &[&str] = &["annotate"];
const SCRIPT: &[&str] = &["script"];
const FLAMEGRAPH: &[&str] = &["flamegraph"];
const STAT: &[&str] = &["stat"];
const TOP: &[&str] = &["top"];
const DIFF: &[&str] = &["diff"];
/// Commands that draw a recording or record first.
const DRAW: &[&str] = &["flamegraph", "html"];
/// Commands that sample.
const SAMPLE: &[&str] = &["record", "flamegraph", "html", "top"];
/// Commands that read.
const READ: &[&str] = &[
    "report",
    "annotate",
    "script",
    "collapse",
    "export",
    "push",
    "diff",
    "flamegraph",
    "html",
];
/// Commands with filters.
const FILTER: &[&str] = &[
    "report",
    "annotate",
    "script",
    "collapse",
    "export",
    "push",
    "diff",
    "flamegraph",
    "html",
    "gate",
];
/// Commands that print, without -o.
const PRINT: &[&str] = &["report", "annotate", "script"];

fn all() -> impl Iterator<Item = &'static Row> {
    perf::OPTIONS.iter().chain(profilers::OPTIONS)
}

fn rows_of(command: &str) -> impl Iterator<Item = &'static Row> {
    all().filter(move |row| row.0.contains(&command))
}

/// Parses an option into its letter or long name.
fn spelled(theirs: &str) -> Option<Spelled<'_>> {
    if let Some(long) = theirs.strip_prefix("--") {
        return Some(Spelled::Long(long));
    }
    let mut letters = theirs.strip_prefix('-')?.chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) => Some(Spelled::Short(letter)),
        // Not an option of rprof.
        _ => None,
    }
}

enum Spelled<'t> {
    Long(&'t str),
    Short(char),
}

/// Adds hidden aliases for options of other tools with the same meaning.
pub(in crate::cli) fn with_options(command: clap::Command) -> clap::Command {
    command.mut_subcommands(|mut command| {
        let name = command.get_name().to_owned();
        for (_, theirs, answer) in rows_of(&name) {
            command = match answer {
                Same(ours) => with_aliases(command, theirs, ours),
                Always => with_flags(command, theirs),
                Instead(_) => command,
            };
        }
        command
    })
}

fn with_aliases(command: clap::Command, theirs: &[&'static str], ours: &str) -> clap::Command {
    let ours = (command.get_arguments())
        .find(|arg| arg.get_long() == Some(ours))
        .map(|arg| arg.get_id().clone());
    let Some(id) = ours else {
        return command;
    };
    command.mut_arg(id, |arg| {
        theirs
            .iter()
            .fold(arg, |arg, theirs| match spelled(theirs) {
                Some(Spelled::Long(long)) => arg.alias(long),
                Some(Spelled::Short(letter)) => arg.short_alias(letter),
                None => arg,
            })
    })
}

fn with_flags(command: clap::Command, theirs: &[&'static str]) -> clap::Command {
    theirs.iter().fold(command, |command, theirs| {
        let flag = Arg::new(*theirs).hide(true).action(ArgAction::SetTrue);
        match spelled(theirs) {
            Some(Spelled::Long(long)) => command.arg(flag.long(long)),
            Some(Spelled::Short(letter)) => command.arg(flag.short(letter)),
            None => command,
        }
    })
}

/// Returns the answer for a word with one dash, as in Go tools. clap would parse its letters as
/// flags, possibly without an error. Skips commands that record, because the word may belong to
/// their COMMAND.
pub(in crate::cli) fn answer_to_word(arguments: &[OsString]) -> Option<String> {
    let command = arguments.get(1)?.to_str()?;
    let theirs = word_with_one_dash(command, &arguments[2..])?;
    let only_reads = READ.contains(&command) && !DRAW.contains(&command);
    only_reads.then(|| instead_of(&theirs, command, arguments))?
}

/// Returns the answer for the option of a parse error; `None` if the table lacks it, or for other
/// errors.
pub(in crate::cli) fn answer(error: &Error, arguments: &[OsString]) -> Option<String> {
    let command = arguments.get(1)?.to_str()?;
    if let Some(theirs) = word_with_one_dash(command, &arguments[2..]) {
        return instead_of(&theirs, command, arguments);
    }
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(theirs))) => {
            let theirs = theirs.split('=').next().unwrap_or_default();
            let file = file_with_dash(&arguments[2..]);
            file.or_else(|| instead_of(theirs, command, arguments))
        }
        (ErrorKind::InvalidValue, _) => {
            let file = file_with_dash(&arguments[2..]);
            file.or_else(|| other_meaning(command, &arguments[2..]))
        }
        (ErrorKind::ValueValidation, _) => other_meaning(command, &arguments[2..]),
        _ => None,
    }
}

/// Returns the answer for a letter that selects by number here and has another meaning in perf, if
/// its value is no number; `None` without one.
fn other_meaning(command: &str, arguments: &[OsString]) -> Option<String> {
    let ours = arguments.iter().take_while(|word| *word != "--");
    let words: Vec<_> = ours.map(|word| word.to_string_lossy()).collect();
    let is_number = |text: &str| text.split(',').all(|part| part.parse::<i64>().is_ok());
    perf::LETTERS.iter().find_map(|(commands, letter, answer)| {
        let mut values = words.iter().enumerate().filter_map(|(at, word)| {
            let attached = word.strip_prefix(letter)?;
            match attached.is_empty() {
                true => Some(words.get(at + 1).map_or("", |next| next)),
                false => Some(attached),
            }
        });
        let is_other = commands.contains(&command) && values.any(|value| !is_number(value));
        is_other.then(|| format!("{letter} {answer}"))
    })
}

/// Returns the answer for the name of a file that begins with a dash; `None` without one.
fn file_with_dash(arguments: &[OsString]) -> Option<String> {
    const OPTIONS: [&str; 4] = ["-o", "--output", "-i", "--input"];
    let ours = arguments.iter().take_while(|word| *word != "--");
    let words: Vec<_> = ours.map(|word| word.to_string_lossy()).collect();
    words.windows(2).find_map(|pair| {
        let is_named = OPTIONS.contains(&&*pair[0]) && pair[1].len() > 1;
        let option = &pair[0];
        (is_named && pair[1].starts_with('-')).then(|| {
            let name = brief(&pair[1]);
            format!("{option} needs a file; a name that begins with a dash is `{option} ./{name}`")
        })
    })
}

fn instead_of(theirs: &str, command: &str, arguments: &[OsString]) -> Option<String> {
    let file = brief(&file_in(&arguments[2..]).to_string_lossy());
    rows_of(command).find_map(|(_, names, answer)| match answer {
        Instead(instead) if names.contains(&theirs) => {
            let instead = instead
                .replace("FILE", &file)
                .replace("THEIRS", theirs)
                .replace("perf COMMAND", &format!("perf {command}"));
            Some(format!("rprof {command} has no {theirs}: {instead}"))
        }
        _ => None,
    })
}

/// Returns the first word with one dash and several letters in the table.
fn word_with_one_dash(command: &str, arguments: &[OsString]) -> Option<String> {
    let ours = arguments.iter().take_while(|word| *word != "--");
    let mut listed = ours.filter_map(|word| {
        let word = word.to_str()?.split('=').next()?;
        let is_listed = rows_of(command).any(|(_, names, _)| names.contains(&word));
        (is_listed && spelled(word).is_none()).then(|| word.to_owned())
    });
    listed.next()
}

/// Removes clap's advice to pass an unknown option as a value, which is rarely useful.
pub(in crate::cli) fn without_advice_on_values(mut error: Error) -> Error {
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::StyledStrs(tips)) = error.remove(ContextKind::Suggested)
    {
        let tips: Vec<_> = (tips.into_iter())
            .filter(|tip| !tip.to_string().contains("as a value"))
            .collect();
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use rprof_testing::needs;

    use super::*;

    #[test]
    fn no_option_of_another_tool_hides_one_of_ours() {
        let command = crate::cli::command();
        for (commands, theirs, answer) in all() {
            for name in *commands {
                let Some(command) = command.find_subcommand(name) else {
                    panic!("there is no command {name}");
                };
                for theirs in *theirs {
                    let is_ours = command.get_arguments().any(|arg| match spelled(theirs) {
                        Some(Spelled::Long(long)) => {
                            arg.get_long_and_visible_aliases()
                                .is_some_and(|names| names.contains(&long))
                                || arg.get_all_aliases().is_some_and(|all| all.contains(&long))
                        }
                        Some(Spelled::Short(letter)) => arg
                            .get_short_and_visible_aliases()
                            .is_some_and(|names| names.contains(&letter)),
                        None => false,
                    });
                    assert!(!is_ours, "rprof {name} has {theirs}");
                }
                if let Same(ours) = answer {
                    let mut arguments = command.get_arguments();
                    let has_it = arguments.any(|arg| arg.get_long() == Some(*ours));
                    assert!(has_it, "rprof {name} has no --{ours}");
                }
            }
        }
    }

    #[test]
    fn an_option_has_one_answer_in_each_command() {
        for name in crate::cli::command().get_subcommands() {
            let mut seen = std::collections::BTreeSet::new();
            for (_, theirs, _) in rows_of(name.get_name()) {
                for theirs in *theirs {
                    assert!(seen.insert(theirs), "{} {theirs}", name.get_name());
                }
            }
        }
    }

    fn error(line: &str) -> (Error, Vec<OsString>) {
        let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
        let command = with_options(crate::cli::command());
        (command.try_get_matches_from(&words).unwrap_err(), words)
    }

    #[test]
    fn options_of_other_tools_are_answered_with_ours() {
        for (line, ours) in [
            (
                "rprof script --header -i x.data",
                "`rprof header -i x.data`",
            ),
            ("rprof report --header-only", "`rprof header -i perf.data`"),
            ("rprof flamegraph --notes=x", "--subtitle"),
            ("rprof flamegraph --flamechart", "rprof html"),
            ("rprof report -top x.pb.gz", "most self"),
            ("rprof report -http=:8080", "rprof html"),
            ("rprof record --bin x", "cargo rprof"),
            ("rprof report --itrace=i1us", "`perf report --itrace"),
        ] {
            let (error, words) = error(line);
            let told = answer(&error, &words).unwrap_or_default();
            assert!(told.contains(ours), "{line}: {told}");
        }
        for (line, ours) in [
            ("rprof report -t ,", "--format csv"),
            ("rprof report -t; x.data", "--format csv"),
            ("rprof report -p sys_open", "--focus"),
            ("rprof diff -p old.data new.data", "always shown"),
            ("rprof report -w 10,20", "--wide"),
            ("rprof diff -w 10", "as wide as the terminal"),
        ] {
            let (error, words) = error(line);
            let told = answer(&error, &words).unwrap_or_default();
            assert!(told.contains(ours), "{line}: {told}");
        }
        for line in ["rprof record -o -x.data -- true", "rprof report -i -x.data"] {
            let (error, words) = error(line);
            let told = answer(&error, &words).unwrap_or_default();
            assert!(told.contains("./-x.data"), "{line}: {told}");
        }
        for line in [
            "rprof report --nonsense",
            "rprof report -t 5 --sort x",
            "rprof report --sort x",
            "rprof report --sort",
        ] {
            let (error, words) = error(line);
            assert_eq!(answer(&error, &words), None, "{line}");
        }
    }

    #[test]
    fn every_option_of_perf_is_taken_or_answered() {
        needs!(Perf);
        for name in [
            "record", "report", "annotate", "script", "diff", "top", "stat",
        ] {
            let help = std::process::Command::new("perf")
                .args([name, "-h"])
                .output();
            let help = help.expect("perf runs");
            let text = [help.stdout, help.stderr].concat();
            let text = String::from_utf8_lossy(&text).into_owned();
            let options = text
                .lines()
                .filter(|line| line.trim_start().starts_with('-'));
            let names = options.flat_map(|line| {
                let words = line.split_whitespace().take(2);
                words.filter(|word| word.starts_with('-'))
            });
            let names: Vec<&str> = (names.flat_map(|word| word.split(['[', '=', ','])))
                .filter(|word| word.starts_with('-'))
                .collect();
            assert!(names.len() > 20, "{name}: {names:?}");
            for theirs in names {
                let words = ["rprof", name, theirs].map(OsString::from);
                let command = with_options(crate::cli::command());
                let Err(error) = command.try_get_matches_from(&words) else {
                    continue;
                };
                let is_unknown = error.kind() == ErrorKind::UnknownArgument;
                let told = answer(&error, &words);
                assert!(
                    !is_unknown || told.is_some(),
                    "rprof {name} {theirs}: {error}"
                );
            }
        }
    }

    #[test]
    fn what_means_the_same_is_taken() {
        for line in [
            "rprof report -S main -c x -d libc --stdio2 -f -F overhead,sym",
            "rprof report --sort overhead,sym",
            "rprof annotate --stdio -s main -l",
            "rprof gate -r 8 --base x -- y",
            "rprof flamegraph --palette hot --image-width 900 --minwidth 1 --hash --deterministic -i x",
            "rprof record --wall --rate 100 --native --iteration-count 2 -- x",
            "rprof top --stdio",
            "rprof stat --runs 3 -- x",
        ] {
            let words = line.split(' ');
            let command = with_options(crate::cli::command());
            let parsed = command.try_get_matches_from(words);
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }
}

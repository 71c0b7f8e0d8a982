//! What `-h` prints: three examples and the options that are used most, on one screen. `--help` has everything.

use std::ffi::OsString;

use clap::Arg;

/// Help of one command for `-h`.
struct ShortHelp {
    command: &'static str,
    /// Command lines, and what each does.
    examples: [(&'static str, &'static str); 3],
    /// Long names, or letters, of the options that are shown; all where there are none.
    options: &'static [&'static str],
}

static SHORT_HELPS: &[ShortHelp] = &[
    ShortHelp {
        command: "record",
        examples: [
            (
                "rprof record -- ./server --port 80",
                "a command and its children",
            ),
            (
                "rprof record -p 1234 -d 10",
                "a running process, for 10 seconds",
            ),
            (
                "rprof record -a --off-cpu -- make",
                "the machine, waits included",
            ),
        ],
        options: &[
            "all-cpus",
            "pid",
            "with-children",
            "tid",
            "cpu",
            "cgroup",
            "uid",
            "freq",
            "count",
            "event",
            "call-graph",
            "mmap-pages",
            "duration",
            "runtimes",
            "off-cpu",
            "output",
            "switch-output",
            "runs",
            "keep",
            "quiet",
            "verbose",
        ],
    },
    ShortHelp {
        command: "report",
        examples: [
            ("rprof report", "functions with most self, of perf.data"),
            ("rprof report -g", "with the callers of each"),
            ("rprof report --tui x.data", "on the whole screen"),
        ],
        options: &[
            "input",
            "quiet",
            "event",
            "comm",
            "pid",
            "tid",
            "cpu",
            "dso",
            "symbol",
            "focus",
            "callers",
            "time",
            "sort",
            "children",
            "rows",
            "call-graph",
            "off-cpu",
            "wall",
            "reason",
            "format",
            "tui",
        ],
    },
    ShortHelp {
        command: "annotate",
        examples: [
            ("rprof annotate", "the hottest functions, by lines"),
            ("rprof annotate parse_line", "of one function"),
            ("rprof annotate --by source 'json::*'", "source lines alone"),
        ],
        options: &[
            "input",
            "quiet",
            "event",
            "comm",
            "pid",
            "tid",
            "cpu",
            "dso",
            "symbol",
            "time",
            "by",
            "syntax",
            "functions",
            "format",
            "debuginfod",
        ],
    },
    ShortHelp {
        command: "top",
        examples: [
            ("rprof top", "the whole system, on the screen"),
            (
                "rprof top -p 1234 --window 60",
                "a process, with the last minute",
            ),
            (
                "rprof top --batch -d 5 -n 3",
                "three tables, 5 seconds apart",
            ),
        ],
        options: &[
            "all-cpus",
            "pid",
            "tid",
            "cpu",
            "cgroup",
            "uid",
            "freq",
            "count",
            "event",
            "call-graph",
            "duration",
            "refresh",
            "window",
            "batch",
            "intervals",
            "format",
            "entries",
            "children",
            "output",
            "quiet",
            "verbose",
        ],
    },
    ShortHelp {
        command: "stat",
        examples: [
            (
                "rprof stat -- ./app",
                "time, memory, faults and switches of a command",
            ),
            (
                "rprof stat -r 10 -- ./app",
                "ten runs, and how much they differ",
            ),
            ("rprof stat -- ./old ::: ./new", "two commands, compared"),
        ],
        options: &[
            "event",
            "metrics",
            "all-user",
            "all-kernel",
            "timeout",
            "interval-print",
            "per",
            "repeat",
            "time",
            "warmup",
            "fail-above",
            "format",
            "output",
            "quiet",
            "verbose",
            "all-cpus",
            "pid",
            "tid",
            "cpu",
            "cgroup",
            "uid",
        ],
    },
    ShortHelp {
        command: "flamegraph",
        examples: [
            (
                "rprof flamegraph -- make test",
                "records a command and draws it",
            ),
            (
                "rprof flamegraph -p 1234 -d 10",
                "records a process for 10 seconds",
            ),
            ("rprof flamegraph -o a.svg a.data", "draws a recording"),
        ],
        options: &[
            "output",
            "input",
            "open",
            "title",
            "no-inverted",
            "reverse",
            "colors",
            "off-cpu",
            "wall",
            "comm",
            "dso",
            "symbol",
            "time",
            "all-cpus",
            "pid",
            "tid",
            "cpu",
            "uid",
            "freq",
            "event",
            "call-graph",
            "duration",
            "quiet",
        ],
    },
    ShortHelp {
        command: "html",
        examples: [
            ("rprof html --open", "a page of perf.data, in the browser"),
            ("rprof html -o tests.html -- make test", "records a command"),
            ("rprof html --diff old.data new.data", "with what changed"),
        ],
        options: &[
            "output",
            "input",
            "open",
            "title",
            "diff",
            "annotate",
            "max-size",
            "off-cpu",
            "wall",
            "comm",
            "dso",
            "symbol",
            "time",
            "all-cpus",
            "pid",
            "tid",
            "cpu",
            "uid",
            "freq",
            "event",
            "call-graph",
            "duration",
            "quiet",
        ],
    },
    ShortHelp {
        command: "diff",
        examples: [
            ("rprof diff", "perf.data.old against perf.data"),
            ("rprof diff old.data new.data -o diff.svg", "with a picture"),
            (
                "rprof diff --base a/ --new b/ --fail-above 5%",
                "several runs a side",
            ),
        ],
        options: &[
            "base",
            "new",
            "quiet",
            "event",
            "comm",
            "dso",
            "symbol",
            "focus",
            "per",
            "fail-above",
            "strict",
            "output",
            "format",
            "sort",
            "all",
            "rows",
            "markdown",
            "github",
            "off-cpu",
            "wall",
        ],
    },
    ShortHelp {
        command: "gate",
        examples: [
            (
                "rprof gate -- ./old ::: ./new",
                "five runs of each, in turns",
            ),
            (
                "rprof gate --save base -- ./bench",
                "keeps runs before a change",
            ),
            (
                "rprof gate --base base -- ./bench",
                "compares with them after it",
            ),
        ],
        options: &[
            "runs",
            "base",
            "baseline-dir",
            "save",
            "calibrate",
            "quiet",
            "freq",
            "event",
            "noise",
            "fail-above",
            "strict",
            "only",
            "allow",
            "output",
            "format",
            "all",
            "rows",
            "markdown",
            "github",
            "symbol",
            "dso",
        ],
    },
    ShortHelp {
        command: "collapse",
        examples: [
            ("rprof collapse", "stacks of perf.data"),
            (
                "rprof collapse --comm worker -o w.folded",
                "of one thread name",
            ),
            (
                "rprof collapse x.data | grep -v idle | rprof report -",
                "without some",
            ),
        ],
        options: &[
            "input",
            "quiet",
            "event",
            "comm",
            "pid",
            "tid",
            "cpu",
            "dso",
            "symbol",
            "focus",
            "callers",
            "time",
            "weight",
            "no-inline",
            "off-cpu",
            "wall",
            "output",
        ],
    },
    ShortHelp {
        command: "export",
        examples: [
            (
                "rprof export -o profile.pb.gz",
                "for pprof, Pyroscope and Go's PGO",
            ),
            (
                "rprof export -o profile.speedscope.json",
                "for speedscope.app",
            ),
            (
                "rprof export -o profile.firefox.json.gz",
                "for profiler.firefox.com",
            ),
        ],
        options: &[
            "output", "format", "labels", "unit", "input", "quiet", "event", "comm", "pid", "tid",
            "cpu", "dso", "symbol", "focus", "time", "weight", "off-cpu", "wall",
        ],
    },
    ShortHelp {
        command: "push",
        examples: [
            (
                "rprof push --to pyroscope http://localhost:4040",
                "sends perf.data",
            ),
            (
                "rprof push --to otlp http://localhost:4318 --dry-run",
                "sends nothing",
            ),
            (
                "rprof push --to parca URL --follow x.data",
                "what a recorder writes",
            ),
        ],
        options: &[
            "to",
            "follow",
            "dry-run",
            "label",
            "labels",
            "token-file",
            "basic-auth-file",
            "plain-http",
            "retry-for",
            "timeout",
            "input",
            "quiet",
            "event",
            "comm",
            "pid",
            "tid",
        ],
    },
    ShortHelp {
        command: "script",
        examples: [
            ("rprof script", "every sample, as by perf script"),
            ("rprof script -F comm,tid,time,ip,sym", "chosen fields"),
            ("rprof script | stackcollapse-perf.pl", "for other programs"),
        ],
        options: &[
            "input",
            "quiet",
            "event",
            "comm",
            "pid",
            "tid",
            "cpu",
            "dso",
            "symbol",
            "focus",
            "time",
            "fields",
            "ns",
            "max-stack",
            "hide-call-graph",
            "show-lost-events",
            "show-task-events",
            "show-mmap-events",
            "show-switch-events",
            "no-inline",
        ],
    },
    ShortHelp {
        command: "header",
        examples: [
            ("rprof header", "machine, command and events of perf.data"),
            ("rprof header x.data", "of another recording"),
            ("rprof header --format json", "for a script"),
        ],
        options: &[],
    },
    ShortHelp {
        command: "list",
        examples: [
            ("rprof list", "events that can be recorded here"),
            ("rprof list sched", "events whose names have this in them"),
            ("rprof list 'syscalls:*'", "events that a pattern matches"),
        ],
        options: &[],
    },
];

/// Characters at which a long help text is cut: what follows is for `--help`.
const ENDS: [&str; 4] = ["; ", ": ", ", ", " [default"];

/// Minimum number of bytes in front of a cut.
const MIN_HELP: usize = 12;

/// Maximum number of characters of a help text that is not cut.
const MAX_HELP: usize = 48;

/// Makes `-h` short, if the arguments ask for it.
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

/// Returns the part of a help text that says what an option does, with the default that the text names.
fn first_part(text: &str) -> String {
    let default = (text.rfind(" [default")).map_or("", |at| &text[at..]);
    let body = text.strip_suffix(default).unwrap_or(text);
    if text.chars().count() <= MAX_HELP {
        return text.to_owned();
    }
    let ends = ENDS.iter().flat_map(|end| body.match_indices(end));
    let ends = ends.map(|(at, _)| at).filter(|at| *at >= MIN_HELP);
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
        for short in SHORT_HELPS {
            let text = help(short.command, 80);
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
                "Samples per second on each CPU, or `max`; lowered to the system's limit [default: 999]"
            ),
            "Samples per second on each CPU [default: 999]"
        );
        assert_eq!(
            first_part(
                "Record only on these CPUs, such as `0-3,8`; the whole system there, unless another target is given"
            ),
            "Record only on these CPUs"
        );
    }
}

//! The help of `-h`: three examples and the most used options, on one screen. `--help` shows all
//! options.

use std::ffi::OsString;

use clap::Arg;

/// Help of one command for `-h`.
struct ShortHelp {
    command: &'static str,
    /// Command lines with a description of each.
    examples: [(&'static str, &'static str); 3],
    /// Long names of the shown options; empty for all options.
    options: &'static [&'static str],
}

static SHORT_HELPS: &[ShortHelp] = &[
    ShortHelp {
        command: "record",
        examples: [
            (
                "rprof record -- ./server --port 80",
                "profile a command and its children",
            ),
            (
                "rprof record -p 1234 -d 10",
                "profile a running process for 10 seconds",
            ),
            (
                "rprof record -a --off-cpu -- make",
                "profile the machine with waits",
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
            "latency",
            "memory",
            "alloc",
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
            ("rprof report", "list the hottest functions of perf.data"),
            ("rprof report -g", "also show the callers of each function"),
            ("rprof report --tui x.data", "explore on the whole screen"),
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
            "latency",
            "reason",
            "format",
            "tui",
        ],
    },
    ShortHelp {
        command: "annotate",
        examples: [
            ("rprof annotate", "show the hottest functions"),
            ("rprof annotate parse_line", "show one function"),
            (
                "rprof annotate --by source 'json::*'",
                "show source lines only",
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
            ("rprof top", "watch the whole system"),
            (
                "rprof top -p 1234 --window 60",
                "watch the last minute of a process",
            ),
            (
                "rprof top --batch -d 5 -n 3",
                "print three tables, 5 seconds apart",
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
                "count time, memory, faults and switches",
            ),
            (
                "rprof stat -r 10 -- ./app",
                "run ten times, and show how much runs differ",
            ),
            ("rprof stat -- ./old ::: ./new", "compare two commands"),
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
            ("rprof flamegraph -- make test", "record and draw a command"),
            (
                "rprof flamegraph -p 1234 -d 10",
                "record and draw a process for 10 seconds",
            ),
            ("rprof flamegraph -o a.svg a.data", "draw a recording"),
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
            ("rprof html --open", "open perf.data in the browser"),
            (
                "rprof html -o tests.html -- make test",
                "record a command first",
            ),
            (
                "rprof html --diff old.data new.data",
                "compare with an old recording",
            ),
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
            ("rprof diff", "compare with perf.data.old"),
            (
                "rprof diff old.data new.data -o diff.svg",
                "also draw the changes",
            ),
            (
                "rprof diff --base a/ --new b/ --fail-above 5%",
                "compare several runs",
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
                "compare five alternating runs of each",
            ),
            (
                "rprof gate --save base -- ./bench",
                "save runs before a change",
            ),
            (
                "rprof gate --base base -- ./bench",
                "compare with them after the change",
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
        command: "explain",
        examples: [
            ("rprof explain", "perf.data in some sentences"),
            (
                "rprof explain --budget 120 x.data",
                "the most important ones",
            ),
            ("rprof explain old.data new.data", "what changed"),
        ],
        options: &["input", "budget", "quiet", "event", "comm", "pid", "time"],
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
                "drop some stacks",
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
                "send perf.data",
            ),
            (
                "rprof push --to otlp http://localhost:4318 --dry-run",
                "show what would be sent",
            ),
            (
                "rprof push --to parca URL --follow x.data",
                "send rotated files",
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
            ("rprof script", "print every sample, as perf script"),
            ("rprof script -F comm,tid,time,ip,sym", "print these fields"),
            (
                "rprof script | stackcollapse-perf.pl",
                "feed other programs",
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
            (
                "rprof header",
                "show machine, command and events of perf.data",
            ),
            ("rprof header x.data", "show another recording"),
            ("rprof header --format json", "print JSON for a script"),
        ],
        options: &[],
    },
    ShortHelp {
        command: "list",
        examples: [
            ("rprof list", "list all events"),
            ("rprof list sched", "list events with `sched` in the name"),
            (
                "rprof list 'syscalls:*'",
                "list events that match a pattern",
            ),
        ],
        options: &[],
    },
];

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
    }
}

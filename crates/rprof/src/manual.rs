//! Sections of the manual pages that the arguments do not have: examples, environment, files, what else to read.

use std::fmt::Write;

/// Examples of each command: what it does, and the line.
const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    (
        "rprof",
        &[
            ("A first try, with a program of its own:", "rprof demo"),
            (
                "A command, and where it spent its time:",
                "rprof record -- ./app --its-arguments\nrprof report\nrprof flamegraph",
            ),
            (
                "What may stand in the way of recording here:",
                "rprof doctor",
            ),
        ],
    ),
    (
        "stat",
        &[
            (
                "What a command takes:",
                "rprof stat -- ./app --its-arguments",
            ),
            (
                "Ten runs of it, and how much they differ:",
                "rprof stat -r 10 -- ./app",
            ),
            (
                "Two commands in turns, and a failure if the second takes more than 5 % more CPU time:",
                "rprof stat -r 20 --fail-above 5% -- ./old ::: ./new",
            ),
            (
                "Every second, for each CPU:",
                "rprof stat -a -I 1000 --per cpu",
            ),
            (
                "One document for a script:",
                "rprof stat --format json -o counts.json -- ./app",
            ),
        ],
    ),
    (
        "top",
        &[
            (
                "The whole system, on the screen; `?` lists the keys:",
                "rprof top",
            ),
            (
                "A process, with the last minute in view:",
                "rprof top -p 1234 --window 60",
            ),
            (
                "A table each five seconds, three times:",
                "rprof top --batch -d 5 -n 3",
            ),
            (
                "For a script, a line of JSON each second:",
                "rprof top -a -d 1 --format json",
            ),
        ],
    ),
    (
        "record",
        &[
            ("A command:", "rprof record -- ./app --its-arguments"),
            (
                "A process that runs, for ten seconds, with the workers that it has started:",
                "rprof record -p 1234 --with-children -d 10",
            ),
            (
                "The whole system, while a command runs:",
                "rprof record -a -- sleep 10",
            ),
            ("Many short processes:", "rprof record -F 20000 -- make"),
            ("No stacks:", "rprof record --call-graph none -- ./app"),
            (
                "The last ten minutes, at any time:",
                "rprof record -p 1234 --switch-output=1m --switch-max-files 10",
            ),
            (
                "Through a pipe:",
                "rprof record -o - -- ./app | rprof report -i -",
            ),
        ],
    ),
    (
        "report",
        &[
            ("Top functions:", "rprof report"),
            ("With their callers:", "rprof report -g"),
            (
                "On the whole screen; `?` lists the keys:",
                "rprof report --tui",
            ),
            (
                "Of one thread name, with source lines, as CSV:",
                "rprof report --comm worker -s symbol,srcline --format csv",
            ),
        ],
    ),
    (
        "annotate",
        &[
            ("The hottest functions:", "rprof annotate"),
            (
                "One of them, by lines of source:",
                "rprof annotate --by source parse_line",
            ),
            (
                "Sources that were compiled elsewhere:",
                "rprof annotate --source-path /build/app=/home/me/app",
            ),
            (
                "As perf shows it:",
                "rprof annotate --by asm --percent-type local --all parse_line",
            ),
        ],
    ),
    (
        "flamegraph",
        &[
            ("Of perf.data:", "rprof flamegraph -o flamegraph.svg"),
            (
                "Recorded at once; the exit status is that of the command:",
                "rprof flamegraph -- make test",
            ),
        ],
    ),
    (
        "html",
        &[
            ("Of perf.data:", "rprof html"),
            (
                "Recorded at once; the exit status is that of the command:",
                "rprof html -o tests.html -- make test",
            ),
            (
                "With what changed since another recording:",
                "rprof html --diff old.data new.data",
            ),
        ],
    ),
    (
        "diff",
        &[
            (
                "The recording before against the one after, with a picture:",
                "rprof diff old.data new.data -o diff.svg",
            ),
            (
                "Three runs of each, failing if anything takes 5 % more:",
                "rprof diff --base old1.data old2.data old3.data --new new1.data new2.data new3.data --fail-above 5%",
            ),
            (
                "Shares, where the one ran for longer, as Markdown:",
                "rprof diff old.data new.data --per total --format markdown",
            ),
        ],
    ),
    (
        "gate",
        &[
            (
                "Five runs of each in turns, failing if anything takes 5 % more:",
                "rprof gate -- ./old/bench ::: ./new/bench",
            ),
            (
                "Runs kept before a change, and compared with after it:",
                "rprof gate --save base -- ./bench\nrprof gate --base base -- ./bench",
            ),
        ],
    ),
    (
        "collapse",
        &[(
            "Two recordings compared by inferno:",
            "rprof collapse -i old.data -o old\nrprof collapse -i new.data -o new\ninferno-diff-folded old new | inferno-flamegraph >diff.svg",
        )],
    ),
    (
        "export",
        &[
            (
                "For pprof, whose pages show graphs, sources and differences:",
                "rprof export -o profile.pb.gz\ngo tool pprof -http :8080 profile.pb.gz",
            ),
            (
                "For speedscope.app, by threads in order of time:",
                "rprof export -o profile.speedscope.json",
            ),
        ],
    ),
    (
        "push",
        &[
            (
                "Into Pyroscope, under the name of the service:",
                "rprof push --to pyroscope http://localhost:4040 --label service_name=checkout perf.data",
            ),
            (
                "What would be sent to a collector, and with what:",
                "rprof push --to otlp http://localhost:4318 --dry-run",
            ),
            (
                "A minute at a time, for as long as both run:",
                "rprof record -a -F 19 --switch-output=1m --switch-max-files 60 -o /var/tmp/rprof.data &\nrprof push --to parca https://parca.example --token-file token --follow /var/tmp/rprof.data",
            ),
        ],
    ),
    (
        "agent",
        &[
            (
                "Whether it would work here, and whose the processes are, without sending anything:",
                "rprof agent check --config /etc/rprof/agent.toml",
            ),
            (
                "For good, and how it is doing:",
                "rprof agent --config /etc/rprof/agent.toml &\nrprof agent status",
            ),
        ],
    ),
    (
        "script",
        &[(
            "Sample by sample, for a program that reads the text of perf script:",
            "rprof script | stackcollapse-perf.pl",
        )],
    ),
    (
        "header",
        &[(
            "When, where and how it was recorded:",
            "rprof header -i perf.data",
        )],
    ),
    ("list", &[("Events that there are here:", "rprof list")]),
    ("doctor", &[("May this user record?", "rprof doctor")]),
    (
        "demo",
        &[("Half a second for each thread:", "rprof demo --seconds 0.5")],
    ),
    (
        "completions",
        &[(
            "For this session of bash, and for all of fish:",
            "source <(rprof completions bash)\nrprof completions fish >~/.config/fish/completions/rprof.fish",
        )],
    ),
    (
        "man",
        &[(
            "To read, and to install:",
            "rprof man record\nrprof man record >/usr/local/share/man/man1/rprof-record.1",
        )],
    ),
];

const ENVIRONMENT: &[(&str, &str)] = &[
    (
        "PAGER",
        "Program through which tables are shown on a terminal.",
    ),
    (
        "NO_COLOR, CLICOLOR, CLICOLOR_FORCE, TERM",
        "Whether tables are coloured.",
    ),
    (
        "DEBUGINFOD_URLS, DEBUGINFOD_CACHE_PATH",
        "Servers of debug files, asked with --debuginfod only, and the folder of what they sent.",
    ),
    ("TMPDIR", "Folder of what is recorded only to be drawn."),
    (
        "XDG_CACHE_HOME",
        "Parent of the cache of debug files, and of rprof's own; ~/.cache without it. Nothing of rprof's own is kept where there is no \
         such folder.",
    ),
];

const FILES: &[(&str, &str)] = &[
    (
        "perf.data",
        "The recording, in the format of perf; the one before is kept as perf.data.old.",
    ),
    ("flamegraph.svg", "The flame graph."),
    ("profile.html", "The page of `rprof html`."),
    ("/usr/lib/debug/.build-id", "Debug files, by build-id."),
    (
        "~/.cache/rprof/kernel-symbols",
        "What /proc/kallsyms says of this start of the machine, for this user alone; may be deleted.",
    ),
    (
        "~/.cache/rprof/debug-info-*",
        "What debug information said of addresses that were asked for, for this user alone; may be deleted.",
    ),
    (
        "/tmp/perf-PID.map",
        "Names of code that a process made at run time; kept in the recording.",
    ),
    (
        "/proc/sys/kernel/perf_event_paranoid",
        "Who may record what.",
    ),
    (
        "/proc/sys/kernel/perf_event_max_sample_rate",
        "Most samples a second.",
    ),
];

/// Returns the sections for the page of a command, or of `rprof`, in the language of man(7).
pub(crate) fn sections(command: &str) -> String {
    let mut page = String::new();
    let known = EXAMPLES.iter().find(|(name, _)| *name == command);
    if let Some((_, examples)) = known {
        page.push_str(".SH EXAMPLES\n");
        for (what, lines) in *examples {
            let (what, lines) = (escaped(what), escaped(lines));
            let _ = write!(page, ".PP\n{what}\n.PP\n.RS 4\n.nf\n{lines}\n.fi\n.RE\n");
        }
    }
    for (heading, entries) in [("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)] {
        let _ = writeln!(page, ".SH {heading}");
        for (name, what) in entries {
            let (name, what) = (escaped(name), escaped(what));
            let _ = write!(page, ".TP\n\\fB{name}\\fR\n{what}\n");
        }
    }
    page.push_str(".SH SEE ALSO\n");
    let others = EXAMPLES.iter().filter(|(name, _)| *name != command);
    let others: Vec<String> = others
        .map(|(name, _)| match *name {
            "rprof" => "\\fBrprof\\fR(1)".to_owned(),
            name => format!("\\fBrprof\\-{name}\\fR(1)"),
        })
        .chain([
            "\\fBperf\\fR(1)".to_owned(),
            "\\fBperf_event_open\\fR(2)".to_owned(),
        ])
        .collect();
    page.push_str(&others.join(", "));
    page.push('\n');
    page
}

/// Text in which nothing is a request or an escape.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = text
        .lines()
        .map(|line| match line.starts_with(['.', '\'']) {
            true => format!("\\&{line}"),
            false => line.to_owned(),
        });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    #[test]
    fn every_example_is_a_command_line_that_rprof_takes() {
        for (command, examples) in EXAMPLES {
            assert!(sections(command).contains(".SH EXAMPLES"));
            for line in examples.iter().flat_map(|(_, lines)| lines.lines()) {
                // What a shell would take out of it.
                let line = line.strip_prefix("source <(").unwrap_or(line);
                let end = line.find([')', '|', '>', '&']).unwrap_or(line.len());
                let words: Vec<&str> = line[..end].split_whitespace().collect();
                if words.first() != Some(&"rprof") {
                    continue;
                }
                let parsed = cli::command().try_get_matches_from(&words);
                assert!(parsed.is_ok(), "{words:?}: {parsed:?}");
            }
        }
    }

    #[test]
    fn every_command_has_examples() {
        let rprof = cli::command();
        for sub in rprof.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let name = sub.get_name();
            assert!(EXAMPLES.iter().any(|(known, _)| *known == name), "{name}");
        }
    }

    #[test]
    fn nothing_in_an_example_is_an_escape_or_a_request() {
        assert_eq!(escaped("a\\b -c\n.d"), "a\\eb \\-c\n\\&.d");
    }
}

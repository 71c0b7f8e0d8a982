//! Manual page sections beyond the arguments: examples, environment, files, see also.

use std::fmt::Write;

/// Examples of each command: description and command line.
const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    (
        "rprof",
        &[
            ("A first try, with a built-in program:", "rprof demo"),
            (
                "Record a command, and show where it spent its time:",
                "rprof record -- ./app --its-arguments\nrprof report\nrprof flamegraph",
            ),
            ("Check what limits recording here:", "rprof doctor"),
        ],
    ),
    (
        "stat",
        &[
            (
                "Count events, time and memory of a command:",
                "rprof stat -- ./app --its-arguments",
            ),
            (
                "Ten runs, and how much they vary:",
                "rprof stat -r 10 -- ./app",
            ),
            (
                "Two commands in turns; fail if the second takes over 5 % more CPU time:",
                "rprof stat -r 20 --fail-above 5% -- ./old ::: ./new",
            ),
            (
                "Counts of each CPU, every second:",
                "rprof stat -a -I 1000 --per cpu",
            ),
            (
                "JSON for a script:",
                "rprof stat --format json -o counts.json -- ./app",
            ),
        ],
    ),
    (
        "top",
        &[
            (
                "The whole system in the terminal; `?` lists the keys:",
                "rprof top",
            ),
            (
                "A process, over the last minute:",
                "rprof top -p 1234 --window 60",
            ),
            (
                "Three tables, one every five seconds:",
                "rprof top --batch -d 5 -n 3",
            ),
            (
                "For a script, one line of JSON per second:",
                "rprof top -a -d 1 --format json",
            ),
        ],
    ),
    (
        "record",
        &[
            ("A command:", "rprof record -- ./app --its-arguments"),
            (
                "A running process and its children, for ten seconds:",
                "rprof record -p 1234 --with-children -d 10",
            ),
            (
                "The whole system, while a command runs:",
                "rprof record -a -- sleep 10",
            ),
            ("Many short processes:", "rprof record -F 20000 -- make"),
            ("No stacks:", "rprof record --call-graph none -- ./app"),
            (
                "Continuously, keeping the last ten minutes:",
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
            ("In the terminal; `?` lists the keys:", "rprof report --tui"),
            (
                "Functions and source lines of threads with one name, as CSV:",
                "rprof report --comm worker -s symbol,srcline --format csv",
            ),
        ],
    ),
    (
        "annotate",
        &[
            ("The hottest functions:", "rprof annotate"),
            (
                "Source lines of one function:",
                "rprof annotate --show source parse_line",
            ),
            (
                "Map the build path of sources to another folder:",
                "rprof annotate --source-path /build/app=/home/me/app",
            ),
            (
                "The same listing as perf:",
                "rprof annotate --show asm --percent-type local --all parse_line",
            ),
        ],
    ),
    (
        "flamegraph",
        &[
            ("Of perf.data:", "rprof flamegraph -o flamegraph.svg"),
            (
                "Record and draw a command; rprof exits with its status:",
                "rprof flamegraph -- make test",
            ),
        ],
    ),
    (
        "html",
        &[
            ("Of perf.data:", "rprof html"),
            (
                "Record and draw a command; rprof exits with its status:",
                "rprof html -o tests.html -- make test",
            ),
            (
                "With the changes since another recording:",
                "rprof html --diff old.data new.data",
            ),
        ],
    ),
    (
        "diff",
        &[
            (
                "Compare an old and a new recording, and draw the difference:",
                "rprof diff old.data new.data -o diff.svg",
            ),
            (
                "Three runs of each; fail if anything takes 5 % more:",
                "rprof diff --base old1.data old2.data old3.data --new new1.data new2.data new3.data --fail-above 5%",
            ),
            (
                "Compare shares if one recording is longer, as Markdown:",
                "rprof diff old.data new.data --per total --format markdown",
            ),
        ],
    ),
    (
        "gate",
        &[
            (
                "Five runs of each in turns; fail if anything takes 5 % more:",
                "rprof gate -- ./old/bench ::: ./new/bench",
            ),
            (
                "Save runs before a change, and compare after it:",
                "rprof gate --save base -- ./bench\nrprof gate --base base -- ./bench",
            ),
        ],
    ),
    (
        "explain",
        &[
            (
                "The last recording, in at most 200 words:",
                "rprof explain --budget 200",
            ),
            (
                "What changed from one recording to the next:",
                "rprof explain old.data new.data",
            ),
        ],
    ),
    (
        "collapse",
        &[(
            "Compare two recordings with inferno:",
            "rprof collapse -i old.data -o old\nrprof collapse -i new.data -o new\ninferno-diff-folded old new | inferno-flamegraph >diff.svg",
        )],
    ),
    (
        "export",
        &[
            (
                "For pprof, with graphs, sources and differences in a browser:",
                "rprof export -o profile.pb.gz\ngo tool pprof -http :8080 profile.pb.gz",
            ),
            (
                "For speedscope.app, each thread in order of time:",
                "rprof export -o profile.speedscope.json",
            ),
        ],
    ),
    (
        "push",
        &[
            (
                "Send to Pyroscope, under a service name:",
                "rprof push --to pyroscope http://localhost:4040 --label service_name=checkout perf.data",
            ),
            (
                "Print the requests to a collector without sending them:",
                "rprof push --to otlp http://localhost:4318 --dry-run",
            ),
            (
                "Continuously, one minute at a time:",
                "rprof record -a -F 19 --switch-output=1m --switch-max-files 60 -o /var/tmp/rprof.data &\nrprof push --to parca https://parca.example --token-file token --follow /var/tmp/rprof.data",
            ),
        ],
    ),
    (
        "script",
        &[(
            "All samples, for a program that reads the output of perf script:",
            "rprof script | stackcollapse-perf.pl",
        )],
    ),
    (
        "header",
        &[(
            "Time, machine and settings of the recording:",
            "rprof header -i perf.data",
        )],
    ),
    ("list", &[("Events of this machine:", "rprof list")]),
    (
        "doctor",
        &[("Check whether this user may record:", "rprof doctor")],
    ),
    (
        "demo",
        &[("Half a second for each thread:", "rprof demo --seconds 0.5")],
    ),
    (
        "completions",
        &[(
            "For this bash session, and for fish permanently:",
            "source <(rprof completions bash)\nrprof completions fish >~/.config/fish/completions/rprof.fish",
        )],
    ),
    (
        "man",
        &[(
            "Read a page, and install it:",
            "rprof man record\nrprof man record >/usr/local/share/man/man1/rprof-record.1",
        )],
    ),
];

const ENVIRONMENT: &[(&str, &str)] = &[
    ("PAGER", "Pager for tables on a terminal."),
    (
        "NO_COLOR, CLICOLOR, CLICOLOR_FORCE, TERM",
        "Control the colours of tables.",
    ),
    (
        "DEBUGINFOD_URLS, DEBUGINFOD_CACHE_PATH",
        "Servers of debug files, used only with --debuginfod, and the folder for downloads.",
    ),
    ("TMPDIR", "Folder for temporary recordings."),
    (
        "XDG_CACHE_HOME",
        "Parent folder of the debuginfod cache and of rprof's own caches; default ~/.cache. rprof \
         keeps no caches of its own if the folder does not exist.",
    ),
];

const FILES: &[(&str, &str)] = &[
    (
        "perf.data",
        "The recording, in perf's format. An existing file is renamed to perf.data.old.",
    ),
    ("flamegraph.svg", "The flame graph."),
    ("profile.html", "The page of `rprof html`."),
    ("/usr/lib/debug/.build-id", "Debug files, by build-id."),
    (
        "~/.cache/rprof/kernel-symbols",
        "Cache of /proc/kallsyms for this boot, private to this user; may be deleted.",
    ),
    (
        "~/.cache/rprof/debug-info-*",
        "Cache of lookups in debug information, private to this user; may be deleted.",
    ),
    (
        "/tmp/perf-PID.map",
        "Symbols of code that a process generated at run time; embedded in the recording.",
    ),
    (
        "/proc/sys/kernel/perf_event_paranoid",
        "Limits what unprivileged users may record.",
    ),
    (
        "/proc/sys/kernel/perf_event_max_sample_rate",
        "Maximum number of samples per second and CPU.",
    ),
];

/// Returns the extra sections of a command's page, in man(7) markup.
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
                // Cut shell syntax.
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

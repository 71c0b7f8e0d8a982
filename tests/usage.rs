//! Help, manual pages and completions.

use crate::support::Here;

const COMMANDS: [&str; 11] = [
    "record",
    "report",
    "flamegraph",
    "collapse",
    "script",
    "header",
    "list",
    "doctor",
    "demo",
    "completions",
    "man",
];

/// Flags that the fingers of perf's users know, and rprof's own.
const FLAGS: [(&str, &[&str]); 5] = [
    (
        "record",
        &[
            "-F, --freq",
            "-c, --count",
            "-e, --event",
            "-g",
            "--call-graph",
            "-o, --output",
            "-q, --quiet",
            "-i, --no-inherit",
            "-m, --mmap-pages",
            "--strict-freq",
            "--all-user",
            "--all-kernel",
            "-a, --all-cpus",
            "-p, --pid",
            "-t, --tid",
            "-C, --cpu",
            "-G, --cgroup",
            "-u, --uid",
            "-D, --delay",
            "-d, --duration",
            "-z, --compression-level",
            "--max-size",
            "--switch-output",
            "--switch-max-files",
            "--exclude-perf",
            "--realtime",
            "-v, --verbose",
        ],
    ),
    (
        "report",
        &[
            "-i, --input",
            "-s, --sort",
            "--children",
            "--no-children",
            "--percent-limit",
            "-n",
            "--format",
            "--comm",
            "--pid",
            "--tid",
            "--cpu",
            "--event",
            "--dso",
            "--symbol",
            "--time",
            "--weight",
        ],
    ),
    (
        "flamegraph",
        &[
            "-o, --output",
            "-i, --input",
            "--title",
            "--subtitle",
            "--inverted",
            "--reverse",
            "--colors",
            "--min-width",
            "--width",
        ],
    ),
    ("collapse", &["-i, --input", "-o, --output", "--weight"]),
    ("header", &["-i, --input", "--format"]),
];

#[test]
fn help_has_every_command_and_flag() {
    let here = Here::new();
    let help = here.rprof("--help").ok();
    for command in COMMANDS {
        help.prints(command);
        here.rprof(command)
            .words("--help")
            .ok()
            .prints("Usage: rprof");
        here.rprof("help").arg(command).ok();
    }
    for (command, flags) in FLAGS {
        for help in ["-h", "--help"] {
            let help = here.rprof(command).arg(help).ok();
            for flag in flags {
                help.prints(flag);
            }
        }
    }
    assert!(
        !help.out().contains("demo-workload"),
        "what is not for users in\n{help}"
    );
    here.rprof("--version").ok().prints("rprof ");
}

#[test]
fn man_has_every_flag_of_help() {
    let here = Here::new();
    here.rprof("man").ok().prints(".TH rprof");
    for command in COMMANDS {
        let page = here.rprof("man").arg(command).ok();
        page.prints(".TH rprof-").prints(".SH NAME");
        // In the source of a page every hyphen has a backslash.
        let page = page.out().replace("\\-", "-");
        let help = here.rprof(command).arg("--help").ok();
        let help = help.out();
        let words = help.split(|c: char| c.is_whitespace() || ",.[]<>`".contains(c));
        for flag in words.filter(|w| w.len() > 2 && w.starts_with("--")) {
            assert!(
                page.contains(flag),
                "{flag} is missing in the page of {command}"
            );
        }
    }
}

#[test]
fn completions_have_the_commands() {
    let here = Here::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = here.rprof("completions").arg(shell).ok();
        for text in ["record", "flamegraph", "call-graph", "percent-limit"] {
            script.prints(text);
        }
        // The shell itself must be able to read it, where there is one.
        std::fs::write(here.path(shell), script.bytes()).unwrap();
        let check = format!("command -v {shell} >/dev/null || exit 0; {shell} -n {shell}");
        here.sh(&check).ok().says_nothing();
    }
}

#[test]
fn an_event_nearly_right_gets_a_suggestion() {
    let here = Here::new();
    for (wrong, right) in [
        ("cycels", "cycles"),
        ("page-fault", "page-faults"),
        ("cpu-clok:u", "cpu-clock"),
    ] {
        here.rprof("record -e")
            .arg(wrong)
            .arg("true")
            .exits(2)
            .says(right);
    }
}

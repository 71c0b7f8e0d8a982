//! Help, man pages and completions.

use crate::support::{Here, c, needs};

/// The message names a replacement.
#[test]
fn commands_of_perf_are_answered_with_what_to_type() {
    let here = Here::new();
    for (args, said) in [
        ("lock report", "`perf lock record -- COMMAND`"),
        ("trace ls", "`strace -f COMMAND`"),
        ("evlist", "`rprof header -i perf.data`"),
    ] {
        let run = here.rprof(args).exits(2);
        run.says(said).is_clean();
        assert!(run.bytes().is_empty(), "stdout of\n{run}");
    }
    here.rprof("annotat")
        .exits(2)
        .says("unrecognized subcommand");
}

#[test]
fn options_of_other_profilers_are_taken_or_answered_with_ours() {
    let here = Here::new();
    std::fs::write(here.path("x.folded"), "main;work 12\nmain;idle 3\n").expect("cannot write");
    for line in [
        "report --stdio --sort overhead,sym x.folded",
        "report -S work -F overhead,sym --force -v -i x.folded",
        "flamegraph --palette hot --image-width 900 --minwidth 0.1 --hash --deterministic -o x.svg -i x.folded",
        "flamegraph x.folded --icicle --color aqua -o x.svg",
        "collapse --symbols work x.folded",
    ] {
        here.rprof(line).ok();
    }
    for (line, ours) in [
        ("script --header -i x.data", "`rprof header -i x.data`"),
        ("report --header", "`rprof header -i perf.data`"),
        ("report -T", "`--sort comm,tid`"),
        ("report --no-demangle", "`--demangle none`"),
        ("report -o out.txt", "`> OUT`"),
        ("report -top x.folded", "most self"),
        ("report -cum x.folded", "--children"),
        ("report -http=:8080 x.folded", "rprof html"),
        ("report -t , x.folded", "`--format csv`"),
        ("annotate --objdump objdump", "without objdump"),
        ("annotate --prefix /src", "--source-path FROM=TO"),
        ("flamegraph --notes text -i x.folded", "--subtitle"),
        ("flamegraph --flamechart -i x.folded", "rprof html"),
        ("flamegraph --root -- true", "sudo"),
        (
            "flamegraph --fontsize 3 -i x.folded",
            "inferno-flamegraph --fontsize",
        ),
        ("flamegraph --bin app", "cargo rprof"),
        ("record --per-thread -- true", "-t TID"),
        ("record -r 50 -- true", "`-F N`"),
        ("record --format speedscope -- true", "speedscope.json"),
        ("record --interval 1ms -- true", "-F N"),
        ("stat -d -- true", "--topdown"),
        ("stat --nonsense -- true", "unexpected argument"),
        (
            "report -g dwarf x.folded",
            "`rprof record --call-graph dwarf`",
        ),
        ("diff -o 1 x.folded x.folded", "-s delta"),
        ("load x.data", "rprof html -i"),
        ("dump", "--off-cpu"),
    ] {
        let run = here.rprof(line).exits(2);
        run.says(ours).is_clean();
        assert!(run.bytes().is_empty(), "stdout of\n{run}");
        assert!(!run.err().contains("as a value"), "advice of\n{run}");
    }
}

/// Lost output must not give exit status 0.
#[test]
fn commands_fail_where_standard_output_is_closed() {
    let here = Here::new();
    std::fs::write(here.path("x.folded"), "main;work 12\n").expect("cannot write");
    let rprof = env!("CARGO_BIN_EXE_rprof");
    for command in [
        "report x.folded",
        "report --format json x.folded",
        "collapse x.folded",
        "flamegraph -o - x.folded",
        "export --format folded -o - x.folded",
        "diff x.folded x.folded",
        "list",
        "completions bash",
        "man",
        "stat --format json -o - -- true",
        "--version",
        "--help",
        "report -h",
        "help report",
    ] {
        let run = here.sh(&format!("{rprof} {command} >&-")).exits(1);
        run.says("cannot write to standard output: it is closed");
        here.sh(&format!("{rprof} {command} >/dev/null")).ok();
    }
    here.sh(&format!("{rprof} flamegraph -o x.svg x.folded >&-"))
        .ok();
}

const COMMANDS: [&str; 13] = [
    "record",
    "report",
    "explain",
    "flamegraph",
    "html",
    "collapse",
    "script",
    "header",
    "list",
    "doctor",
    "demo",
    "completions",
    "man",
];

/// Flags that perf users know, and rprof's own.
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
            "--no-inverted",
            "--reverse",
            "--colors",
            "--merge-threads",
            "--no-merge-threads",
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
        let help = here.rprof(command).arg("--help").ok();
        for flag in flags {
            help.prints(flag);
        }
        let short = here.rprof(command).arg("-h").ok();
        short.prints("Examples:\n  rprof ").prints(flags[0]);
        assert!(short.out().lines().count() <= 50, "{short}");
    }
    assert!(
        !help.out().contains("demo-workload"),
        "what is not for users in\n{help}"
    );
    here.rprof("--version").ok().prints("rprof ");
}

#[test]
fn manual_pages_have_every_flag_of_help() {
    let here = Here::new();
    here.rprof("man").ok().prints(".TH rprof");
    for command in COMMANDS {
        let page = here.rprof("man").arg(command).ok();
        page.prints(".TH rprof-").prints(".SH NAME");
        for section in ["EXAMPLES", "ENVIRONMENT", "FILES", "SEE ALSO"] {
            page.prints(&format!(".SH {section}"));
        }
        // Man page sources escape hyphens.
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
fn a_manual_page_on_a_terminal_is_a_page_and_no_source() {
    needs!(Terminal, Tool("man"));
    let here = Here::new();
    let rprof = env!("CARGO_BIN_EXE_rprof");
    let line = format!("MANPAGER=cat script -qec '{rprof} man record' /dev/null </dev/null");
    let page = here.sh(&line).ok().out();
    assert!(
        page.contains("Many short processes:") && !page.contains(".SH"),
        "{page}"
    );
}

#[test]
fn completions_have_every_command_and_values_and_events() {
    let here = Here::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = here.rprof("completions").arg(shell).ok();
        for text in [
            "record",
            "flamegraph",
            "call-graph",
            "percent-limit",
            "lbr",
            "aqua",
            "context-switches",
        ] {
            script.prints(text);
        }
        // Parsed by the shell, if installed.
        std::fs::write(here.path(shell), script.bytes()).unwrap();
        let check = format!("command -v {shell} >/dev/null || exit 0; {shell} -n {shell}");
        here.sh(&check).ok().says_nothing();
    }
}

#[test]
fn a_mistyped_event_gets_a_suggestion() {
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

#[test]
fn empty_parts_of_lists_are_errors() {
    let here = Here::new();
    for (options, said) in [
        ("record -e ,", "an event is missing beside a comma"),
        (
            "record -e page-faults,",
            "an event is missing beside a comma",
        ),
        (
            "record -e {cs,,faults}",
            "an event is missing beside a comma",
        ),
        ("stat -e cs,,faults", "an event is missing beside a comma"),
        ("record -G ,", "a value is required for '--cgroup <CGROUP>'"),
    ] {
        here.rprof(options)
            .words("-- touch ran")
            .exits(2)
            .says(said);
    }
    here.rprof("record -e")
        .arg("")
        .words("-- touch ran")
        .exits(2)
        .says("-e has no event");
    here.rprof("script -F ,").exits(2).says("no field is given");
    assert!(!here.path("ran").exists());
}

#[test]
fn names_that_look_like_options_or_sizes_are_explained() {
    needs!(PerfEvents);
    let here = Here::new();
    here.rprof("record -o -x.data -- true")
        .exits(2)
        .says("`-o ./-x.data`");
    here.rprof("report --memory 512M")
        .exits(1)
        .says("`--memory-limit 512M`");
    here.rprof("record -o /dev/full -e cpu-clock -- true")
        .exits(1)
        .says("cannot write /dev/full: No space left on device (ENOSPC)");
    for writing in ["record", "flamegraph", "html", "stat"] {
        here.rprof(&format!("{writing} -o /no/where/x -- true"))
            .exits(1)
            .says("cannot create /no/where/x: the folder /no/where does not exist");
    }
    // Two -v are one, as in perf.
    here.rprof("record -vv -e cpu-clock -- true").ok();
}

#[test]
fn contradicting_options_are_refused_before_the_command_runs() {
    let here = Here::new();
    for (wrong, said) in [
        (
            "flamegraph --colors octarine",
            "unknown palette \"octarine\"",
        ),
        ("flamegraph --width 0", "--width"),
        ("flamegraph --min-width nan", "from 0 to 100"),
        ("flamegraph -i some.data", "cannot be used with"),
        ("record -z99", "from 1 to 22"),
        ("record -p 0", "ps -eLf"),
    ] {
        let run = here.rprof(wrong).words("-- touch ran").exits(2);
        run.says(said);
        assert!(!here.path("ran").exists(), "it ran in spite of\n{run}");
    }
    for (wrong, said) in [
        ("flamegraph -F 99", "give a COMMAND"),
        (
            "flamegraph -o x.html",
            "did you mean `rprof html -o x.html`?",
        ),
        ("html -o x.svg", "did you mean `rprof flamegraph -o x.svg`?"),
        ("html -F 99", "give a COMMAND"),
        ("report --percent-limit 101", "from 0 to 100"),
        ("report --cpu x", "such as 0-3,8"),
        ("report --pid x", "not a process or thread ID"),
        ("script --max-stack 0", "--max-stack"),
    ] {
        here.rprof(wrong).exits(2).says(said);
    }
}

/// The cpu-clock event has no LBR on any machine.
#[test]
fn unavailable_call_graphs_are_refused_with_an_alternative() {
    needs!(PerfEvents);
    let here = Here::new();
    here.rprof("record -e cpu-clock --call-graph lbr -- touch ran")
        .exits(1)
        .says("--call-graph auto");
    assert!(!here.path("ran").exists());
}

/// Arguments of the command are not changed.
#[test]
fn a_compression_level_may_stand_at_its_flag() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here.rprof("record -q -z3 -F 99 -- echo -z9").ok();
    assert_eq!(run.out(), "-z9\n");
    here.rprof("header").ok().prints("COMPRESSED");
    here.rprof("record -q -F 99 echo -z9").ok();
    let header = here.rprof("header").ok();
    let features = header.out();
    let features = features.lines().find(|l| l.starts_with("features"));
    assert!(!features.unwrap().contains("COMPRESSED"), "{header}");
}

/// The kernel stops events when a program changes its credentials or is unreadable.
#[test]
fn a_process_of_another_user_is_refused_by_name() {
    needs!(PerfEvents);
    let here = Here::new();
    let program = here.path("private");
    std::fs::copy(c("shares.c"), &program).unwrap();
    let run = match rustix::process::geteuid().is_root() {
        // Root can read every program.
        true => {
            here.sh("chown 65534 private && chmod 4711 private").ok();
            here.rprof("record -- ./private 0.1").ok()
        }
        false => {
            here.sh("chmod 111 private").ok();
            here.rprof("record -- ./private 0.1").ok()
        }
    };
    run.says("0 samples")
        .says("./private")
        .says("the kernel then stops recording it");
}

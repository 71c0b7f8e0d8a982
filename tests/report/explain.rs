//! Explanations of programs with one planted cause each.

use std::path::Path;

use crate::support::{Here, c_with, check, cxx_with, measured, needs};

const WORDS: usize = 400;

/// Argument, words of its cause, and function.
type Cause = (&'static str, &'static str, &'static str);

/// A text must have no other label with a large share.
const LABELS: [&str; 17] = [
    "page faults",
    "starting and ending processes",
    "compiling regular expressions",
    "logging",
    "throwing and catching exceptions",
    "formatting and writing text",
    "memory allocation",
    "locks",
    "yielding the CPU",
    "asking for the time",
    "sorting",
    "copying memory",
    "setting memory",
    "scanning or comparing strings",
    "reading numbers from text",
    "random numbers",
    "built without optimization",
];

const C: [Cause; 26] = [
    ("quadratic", "itself", "remove_duplicates"),
    ("churn", "memory allocation", "build_list"),
    ("copy", "copying memory", "copy_frames"),
    ("clear", "setting memory", "clear_frames"),
    ("strlen", "scanning or comparing strings", "count_letters"),
    ("strcmp", "scanning or comparing strings", "find_name"),
    ("log", "formatting and writing text", "log_line"),
    ("write", "system calls (write", "write_bytes"),
    ("read", "system calls (read", "read_bytes"),
    ("faults", "page faults", "touch_pages"),
    ("syscall", "system calls (getppid", "ask_parent"),
    ("clock", "asking for the time", "now"),
    ("stamp", "asking for the time", "stamp_line"),
    ("sort", "sorting", "sort_all"),
    ("regex", "compiling regular expressions", "match_line"),
    ("numbers", "reading numbers from text", "parse_numbers"),
    ("random", "random numbers", "shuffle"),
    ("math", "mathematical functions", "wave_table"),
    ("mutex", "locks", "bump_counter"),
    ("yield", "yielding the CPU", "spin_wait"),
    (
        "children",
        "starting and ending processes",
        "processes have samples",
    ),
    ("recursion", "itself", "fib"),
    ("stat", "system calls (", "scan_folder"),
    ("open", "system calls (openat", "reopen_file"),
    ("append", "memory allocation", "append_items"),
    ("concatenate", "scanning or comparing strings", "join_words"),
];

/// Causes that names show only together with system calls or instructions.
const INSTRUCTIONS: [Cause; 6] = [
    ("turns", "waits for another thread", "take_turn"),
    ("counts", "atomic instruction `lock", "count_up"),
    ("naps", "again and again (polling)", "wait_ready"),
    ("watch", "reads memory and changes nothing", "await_flag"),
    ("divide", "at divisions such as `div", "pick_buckets"),
    ("walk", "result of the round before", "walk_list"),
];

/// Causes that only waits show.
const WAITS: [Cause; 5] = [
    ("convoy", "for other threads", "hold_lock"),
    ("sleep", "asked to sleep", "nap"),
    ("poll", "in poll, select or epoll", "wait_event"),
    ("pipe", "for a pipe", "read_reply"),
    ("child", "asked to sleep", "wait_child"),
];

const CXX: [Cause; 7] = [
    (
        "exceptions",
        "throwing and catching exceptions",
        "parse_field",
    ),
    ("regex", "compiling regular expressions", "match_text"),
    ("stream", "formatting and writing text", "print_rows"),
    ("map", "memory allocation", "fill_map"),
    ("casts", "type checks at run time", "count_squares"),
    ("collisions", "hash tables", "index_points"),
    ("join", "joining strings", "build_text"),
];

const PYTHON: [Cause; 3] = [
    ("regex", "compiling regular expressions", ""),
    ("logging", "logging", "write_log"),
    ("loops", "itself", "nested_loops"),
];

fn explained(here: &Here, options: &str, program: &Path, words: &str) -> String {
    here.record(&format!("-g -F 1999 {options}"), program, words);
    here.rprof("explain").ok().out()
}

fn kinds(text: &str) -> Vec<(f64, &str)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("- "));
    let shares = lines.filter_map(|line| {
        let (share, rest) = line.split_once("% of the CPU time is ")?;
        Some((share.parse().ok()?, rest))
    });
    shares.collect()
}

fn check_cause(text: &str, (mode, cause, function): Cause) -> Result<(), String> {
    let lines: Vec<&str> = text.lines().collect();
    let names = |line: &&&str| line.contains(cause) && line.contains(function);
    let is_named =
        lines.iter().any(|line| names(&line)) || mode == "children" && text.contains(cause);
    check(is_named, || {
        format!("{mode}: {cause} in {function} is not named:\n{text}")
    })?;
    let words = text.split_whitespace().count();
    check(words <= WORDS + 12, || format!("{mode}: {words} words"))?;
    for (share, rest) in kinds(text) {
        let other = LABELS
            .iter()
            .find(|label| rest.starts_with(**label) && !cause.starts_with(**label));
        check(share < 60.0 || other.is_none(), || {
            format!("{mode}: {share}% is said to be {rest}")
        })?;
    }
    Ok(())
}

fn check_all(causes: &[Cause], options: &str, program: &Path, seconds: &str) {
    for cause in causes {
        measured(|| {
            let here = Here::new();
            let text = explained(&here, options, program, &format!("{} {seconds}", cause.0));
            check_cause(&text, *cause)
        });
    }
}

#[test]
fn causes_in_c_are_named() {
    needs!(PerfEvents);
    let program = c_with("causes/causes.c", &["-g", "-w", "-lm"]);
    check_all(&C, "", &program, "0.25");
}

#[test]
fn causes_that_instructions_show_are_named() {
    needs!(PerfEvents, X86_64);
    let program = c_with("causes/causes.c", &["-g", "-w", "-lm"]);
    check_all(&INSTRUCTIONS, "", &program, "0.25");
    let here = Here::new();
    here.record("-g", &program, "naps 0.2");
    let whole = here.rprof("explain").ok().out();
    assert!(whole.contains("the program used"), "{whole}");
    let part = here.rprof("explain --time 10%,60%").ok().out();
    assert!(!part.contains("the program used"), "{part}");
}

#[test]
fn causes_of_waits_are_named() {
    needs!(PerfEvents);
    let program = c_with("causes/causes.c", &["-g", "-w", "-lm"]);
    check_all(&WAITS, "--off-cpu", &program, "0.4");
}

#[test]
fn causes_in_cpp_are_named() {
    needs!(PerfEvents, Cxx);
    let optimized = cxx_with("causes/causes.cpp", &["-g", "-O2"]);
    check_all(&CXX, "", &optimized, "0.25");
    let debug = [("debug", "built without optimization", "sum_all")];
    let plain = cxx_with("causes/causes.cpp", &["-g", "-O0"]);
    check_all(&debug, "", &plain, "0.25");
    measured(|| {
        let text = explained(&Here::new(), "", &optimized, "debug 0.25");
        check(!text.contains("built without optimization"), || text)
    });
}

#[test]
fn causes_in_python_are_named() {
    needs!(PerfEvents, X86_64, File("/usr/bin/python3"));
    const SCRIPT: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/causes/causes.py"
    );
    let script = format!("{SCRIPT} ");
    for cause in PYTHON {
        measured(|| {
            let here = Here::new();
            let words = format!("{script}{} 0.6", cause.0);
            let text = explained(&here, "", "/usr/bin/python3".as_ref(), &words);
            check_cause(&text, cause)
        });
    }
}

/// Interpreter code tells the cause, although views fold it into the program's functions.
#[test]
fn causes_in_interpreter_code_are_named() {
    needs!(PerfEvents, X86_64, Node);
    const JSON: &str = "const rows = [];
        for (let i = 0; i < 300; i++) rows.push({ id: i, tags: ['a', 'b'] });
        function cloneState() { return JSON.parse(JSON.stringify(rows)); }
        const end = Date.now() + 700;
        while (Date.now() < end) cloneState();";
    const REGEX: &str = "let n = 0;
        function isMail(text) { return RegExp('^[a-z]+' + n++ + '@x').test(text); }
        const end = Date.now() + 700;
        while (Date.now() < end) isMail('someone12@example.com');";
    for (script, cause) in [
        (JSON, ("json", "reading and writing JSON", "cloneState")),
        // The compiler may inline `isMail`.
        (
            REGEX,
            ("regex", "compiling regular expressions", "cause.js:"),
        ),
    ] {
        measured(|| {
            let here = Here::new();
            std::fs::write(here.path("cause.js"), script).expect("written");
            let text = explained(&here, "", "node".as_ref(), "cause.js");
            check_cause(&text, cause)
        });
    }
}

#[test]
fn an_explanation_keeps_to_its_budget() {
    let here = Here::new();
    let stacks: String = (0..40)
        .map(|nth| format!("main;caller_{nth};function_{nth} {}\n", 100 + nth))
        .collect();
    std::fs::write(here.path("x.folded"), stacks + "main;parse;malloc 900\n").expect("written");
    for budget in [40, 100, 400] {
        let text = here
            .rprof(&format!("explain --budget {budget} x.folded"))
            .ok()
            .out();
        let words = text.split_whitespace().count();
        assert!(words <= budget + 12, "{budget}: {words}\n{text}");
        assert!(text.contains("samples"), "{text}");
    }
    let text = here.rprof("explain x.folded").ok();
    text.prints("memory allocation (malloc), all of it for parse");
    text.prints("rprof report --callers malloc -i x.folded");
}

#[test]
fn two_files_are_compared() {
    let here = Here::new();
    std::fs::write(here.path("old"), "main;parse 9000\nmain;work 9000\n").expect("written");
    std::fs::write(here.path("new"), "main;parse 18000\nmain;work 9000\n").expect("written");
    let text = here.rprof("explain old new").ok();
    text.prints("went from 18000 to 27000 (+50%)");
    text.prints("parse itself went from 9000 to 18000 (+100%)");
    text.prints("rprof diff old new");
    here.rprof("explain old new old")
        .exits(2)
        .says("one file, or two");
}

#[test]
fn every_command_of_an_explanation_works() {
    needs!(PerfEvents);
    let here = Here::new();
    let program = c_with("causes/causes.c", &["-g", "-w", "-lm"]);
    let text = explained(&here, "--off-cpu", &program, "churn 0.3");
    assert!(run_commands(&here, &text) > 3, "{text}");
    let script = here.rprof("script").ok();
    std::fs::write(here.path("x.txt"), script.bytes()).expect("written");
    for file in ["x.txt", "x.folded", "x.pb.gz", "x.speedscope.json"] {
        if file != "x.txt" {
            here.rprof("export -o").arg(file).ok();
        }
        let text = here.rprof("explain").arg(file).ok().out();
        assert!(run_commands(&here, &text) > 1, "{file}: {text}");
    }
}

/// Runs an explanation's commands, and returns their number.
fn run_commands(here: &Here, text: &str) -> usize {
    let lines = text.lines();
    let commands: Vec<&str> = lines
        .filter_map(|line| line.strip_prefix("    rprof "))
        .collect();
    for command in &commands {
        let rprof = env!("CARGO_BIN_EXE_rprof");
        here.sh(&format!("{rprof} {command} >/dev/null")).ok();
    }
    commands.len()
}

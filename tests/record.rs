//! `rprof record`: the file it makes, and what it leaves alone.

use std::os::unix::fs::PermissionsExt;

use crate::support::{Here, Report, Shell, assert_share, c};

#[test]
fn makes_a_file_that_only_its_owner_reads() {
    needs!(PerfEvents);
    let here = Here::new();
    here.rprof("record -- true").ok().says("samples of");
    let mode = here
        .path("perf.data")
        .metadata()
        .expect("perf.data")
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o600, "mode of perf.data");
}

#[test]
fn keeps_the_file_that_was_there() {
    needs!(PerfEvents);
    let here = Here::new();
    std::fs::write(here.path("x.data"), "first").unwrap();
    here.rprof("record -q -o x.data -- true").ok();
    let old = std::fs::read(here.path("x.data.old")).expect("x.data.old");
    assert_eq!(old, b"first");
    here.rprof("record -q -o x.data -- true").ok();
    let old = std::fs::read(here.path("x.data.old")).expect("x.data.old");
    assert!(
        old.starts_with(b"PERFILE2"),
        "the second recording replaces what was old"
    );
}

#[test]
fn into_a_folder_is_refused() {
    let here = Here::new();
    std::fs::create_dir(here.path("folder")).unwrap();
    let run = here.rprof("record -o folder -- touch ran").run();
    assert!(matches!(run.code(), Some(1 | 2)), "{run}");
    run.says("folder");
    assert!(
        here.path("folder").is_dir(),
        "the folder was moved by\n{run}"
    );
    assert!(!here.path("ran").exists(), "the command was run by\n{run}");
    let run = here.rprof("record -o no/such/x.data -- touch ran").run();
    assert!(matches!(run.code(), Some(1 | 2)), "{run}");
    assert!(!here.path("ran").exists(), "the command was run by\n{run}");
}

#[test]
fn quietly_says_nothing() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here.rprof("record -q -- true").ok();
    run.says_nothing();
    assert!(run.bytes().is_empty(), "stdout of\n{run}");
}

#[test]
fn says_what_it_did() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here
        .rprof("record -F 999 -g -e cpu-clock --")
        .arg(c("shares.c"))
        .arg("0.2")
        .ok();
    run.says("samples of cpu-clock")
        .says("perf.data")
        .says("lost 0 samples");
    assert!(run.bytes().is_empty(), "stdout of\n{run}");
    assert!(
        !run.err().contains('\r'),
        "a progress line without a terminal in\n{run}"
    );
}

#[test]
fn leaves_the_commands_input_and_output_alone() {
    needs!(PerfEvents);
    let here = Here::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let run = here.rprof("record -q -- cat").stdin(&bytes).ok();
    assert!(run.bytes() == bytes, "cat did not print what it was given");
    let run = here.rprof("record -q -- sh -c").arg("echo seen >&2").ok();
    assert_eq!(run.err(), "seen\n");
}

#[test]
fn passes_arguments_on_as_they_are() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here
        .rprof("record -q -- printf %s|")
        .arg("a b")
        .arg("-F")
        .arg("")
        .arg("$x")
        .ok();
    assert_eq!(run.out(), "a b|-F||$x|");
    // Options end where the command begins, with `--` or without.
    let run = here.rprof("record -q printf %s| -q -F 1").ok();
    assert_eq!(run.out(), "-q|-F|1|");
}

/// Signals that are ignored or blocked, open files, limits: what a program has from whoever
/// starts it.
const SURROUNDINGS: &str =
    "grep -E 'Sig(Ign|Blk)' /proc/self/status; ls /proc/self/fd; ulimit -a; umask; nice; pwd";

#[test]
fn starts_the_command_as_a_shell_would() {
    needs!(PerfEvents);
    let here = Here::new();
    let alone = here.sh(SURROUNDINGS).ok();
    let recorded = here.rprof("record -q -- sh -c").arg(SURROUNDINGS).ok();
    assert_eq!(recorded.out(), alone.out(), "{recorded}");
}

#[test]
fn leaves_ignored_signals_ignored() {
    needs!(PerfEvents);
    let here = Here::new();
    // As under nohup, and in the background of a shell without job control.
    let ignoring = |shell: Shell| {
        let arguments = shell.words("sh -c").arg(SURROUNDINGS);
        arguments.ok().out()
    };
    let trap = "trap '' HUP INT; exec \"$0\" \"$@\"";
    let alone = ignoring(here.sh(trap).arg("env"));
    let rprof = here.sh(trap).arg(env!("CARGO_BIN_EXE_rprof"));
    assert_eq!(ignoring(rprof.words("record -q --")), alone);
}

#[test]
fn to_standard_output_makes_no_file() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here.rprof("record -q -o - -- true").run();
    assert!(
        !here.path("-").exists(),
        "a file called `-` is left by\n{run}"
    );
    if run.code() == Some(0) {
        // What came out is a recording.
        here.rprof("report -i -").stdin(run.bytes()).ok();
    } else {
        run.exits(2);
    }
}

#[test]
fn loses_nothing_of_two_busy_threads_at_9999_hertz() {
    needs!(PerfEvents);
    let here = Here::new();
    let shell = here
        .rprof("record -F 9999 -g -e cpu-clock --")
        .arg(c("threads.c"));
    let run = shell.arg("1").ok();
    run.says("lost 0 samples");
    let report = here.report("");
    let event = report.only();
    assert_eq!(event.lost, 0, "lost, of {} samples", event.samples);
    assert_eq!(report.quality["lost"], 0);
    for work in ["work_left", "work_right"] {
        let other = 1.0 - event.total_share("work_left") - event.total_share("work_right");
        assert_share(work, event.total_share(work), 0.5, event.samples, other);
    }
    writeln_figures(&report);
}

/// The figures, for whoever runs this test with `--nocapture`.
#[allow(
    clippy::print_stdout,
    reason = "what a test prints is kept by the harness"
)]
fn writeln_figures(report: &Report) {
    println!(
        "{} samples, {} lost",
        report.samples(),
        report.quality["lost"]
    );
}

#[test]
fn follows_what_the_command_starts() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here
        .rprof("record -q -F 999 -g --")
        .arg(c("fork_exec.c"))
        .arg("0.3");
    run.arg(c("shares.c")).arg("0.3").ok();
    let report = here.report("--sort comm,symbol");
    let event = report.only();
    for (comm, symbol) in [
        ("fork_exec", "parent_work"),
        ("renamed", "child_work"),
        ("shares", "burn_seventy"),
    ] {
        let row = event
            .rows
            .iter()
            .find(|r| r.comm == comm && r.symbol == symbol);
        let row = row.unwrap_or_else(|| panic!("no {symbol} of {comm}"));
        assert!(row.self_samples > 0, "{symbol} of {comm}");
        // And under no other name.
        let others = event
            .rows
            .iter()
            .filter(|r| r.symbol == symbol && r.comm != comm);
        assert_eq!(others.count(), 0, "{symbol} also of others than {comm}");
    }
    let whole: f64 = ["parent_work", "child_work"]
        .iter()
        .map(|s| event.total_share(s))
        .sum();
    let other = 1.0 - whole - event.total_share("do_round");
    assert_share("parent and child", whole, 2.0 / 3.0, event.samples, other);

    here.rprof("record -q -F 999 --no-inherit --")
        .arg(c("fork_exec.c"))
        .arg("0.3")
        .arg(c("shares.c"))
        .arg("0.3")
        .ok();
    let report = here.report("--sort comm,symbol");
    let comms: Vec<_> = report.only().rows.iter().map(|r| &r.comm).collect();
    assert!(
        comms.iter().all(|c| *c == "fork_exec"),
        "with --no-inherit: {comms:?}"
    );
}

#[test]
fn takes_one_sample_for_each_count() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-c 2000000 -e cpu-clock", &c("shares.c"), "0.5");
    let report = here.report("");
    let event = report.only();
    assert_eq!(event.weight, event.samples * 2_000_000);
    assert!(event.lost == 0 && event.samples > 0);
}

#[test]
fn by_mode_keeps_to_that_mode() {
    needs!(PerfEvents, Kernel);
    let here = Here::new();
    here.record("-F 999 -e cpu-clock:u", &c("syscalls.c"), "0.3");
    for row in &here.report("").only().rows {
        assert_ne!(
            row.object, "[kernel.kallsyms]",
            "{} with cpu-clock:u",
            row.symbol
        );
    }
    here.record("-F 999 --all-kernel", &c("syscalls.c"), "0.3");
    for row in &here.report("").only().rows {
        assert!(
            row.object.starts_with('['),
            "{} in {} with --all-kernel",
            row.symbol,
            row.object
        );
    }
}

//! `rprof record`: its file, and its side effects.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::support::{
    Here, Report, Row, Running, Shell, c, check, check_share, measured, needs, wait_until,
};

#[test]
fn recording_is_readable_by_its_owner_only() {
    needs!(PerfEvents);
    let here = Here::new();
    here.rprof("record -- true").ok().says("in perf.data");
    let mode = here
        .path("perf.data")
        .metadata()
        .expect("perf.data")
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o600, "mode of perf.data");
}

#[test]
fn the_previous_recording_is_kept_as_old() {
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
fn recording_into_a_folder_is_refused() {
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
fn quiet_says_nothing() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here.rprof("record -q -- true").ok();
    run.says_nothing();
    assert!(run.bytes().is_empty(), "stdout of\n{run}");
}

#[test]
fn summary_says_what_was_recorded() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here
        .rprof("record -F 999 -g -e cpu-clock --")
        .arg(c("shares.c"))
        .arg("0.2")
        .ok();
    run.says("samples of cpu-clock")
        .says("perf.data")
        .says("lost ");
    assert!(run.bytes().is_empty(), "stdout of\n{run}");
    assert!(
        !run.err().contains('\r'),
        "a progress line without a terminal in\n{run}"
    );
}

#[test]
fn the_commands_input_and_output_are_left_alone() {
    needs!(PerfEvents);
    let here = Here::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let run = here.rprof("record -q -- cat").stdin(&bytes).ok();
    assert!(run.bytes() == bytes, "cat did not print what it was given");
    let run = here.rprof("record -q -- sh -c").arg("echo seen >&2").ok();
    assert_eq!(run.err(), "seen\n");
}

#[test]
fn arguments_reach_the_command_unchanged() {
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
    let run = here.rprof("record -q printf %s| -q -F 1").ok();
    assert_eq!(run.out(), "-q|-F|1|");
}

/// A program's environment that its parent determines: signals, open files, limits.
const SURROUNDINGS: &str =
    "grep -E 'Sig(Ign|Blk)' /proc/self/status; ls /proc/self/fd; ulimit -a; umask; nice; pwd";

#[test]
fn the_command_is_started_as_by_a_shell() {
    needs!(PerfEvents);
    let here = Here::new();
    let alone = here.sh(SURROUNDINGS).ok();
    let recorded = here.rprof("record -q -- sh -c").arg(SURROUNDINGS).ok();
    assert_eq!(recorded.out(), alone.out(), "{recorded}");
}

#[test]
fn signals_ignored_at_the_start_stay_ignored() {
    needs!(PerfEvents);
    let here = Here::new();
    // As under nohup.
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
fn recording_to_standard_output_makes_no_file() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here
        .rprof("record -q -F 999 -e cpu-clock -o - --")
        .arg(c("shares.c"))
        .arg("0.1")
        .run();
    assert!(
        !here.path("-").exists(),
        "a file called `-` is left by\n{run}"
    );
    if run.code() == Some(0) {
        here.rprof("report -i -").stdin(run.bytes()).ok();
    } else {
        run.exits(2);
    }
}

#[test]
fn two_busy_threads_at_9999_hertz_lose_little() {
    needs!(PerfEvents);
    measured(|| {
        let here = Here::new();
        let shell = here
            .rprof("record -F 9999 -g -e cpu-clock --")
            .arg(c("threads.c"));
        let run = shell.arg("1").ok();
        let report = here.report("");
        let event = report.only();
        assert_eq!(report.quality["lost"], event.lost);
        let told = run.err().contains("lost 0 samples");
        assert_eq!(told, event.lost == 0, "{run}");
        writeln_figures(&report);
        check(event.lost * 10 <= event.samples, || {
            format!("{} lost by\n{run}", event.lost)
        })?;
        let [left, right] = ["work_left", "work_right"].map(|work| event.total_share(work));
        let other = 1.0 - left - right;
        check_share("work_left", left, 0.5, event.samples, other)?;
        check_share("work_right", right, 0.5, event.samples, other)
    });
}

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
fn processes_that_the_command_starts_are_recorded() {
    needs!(PerfEvents);
    let here = Here::new();
    measured(|| follow(&here));
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

fn follow(here: &Here) -> Result<(), String> {
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
    check_share("parent and child", whole, 2.0 / 3.0, event.samples, other)
}

#[test]
fn count_takes_one_sample_for_each_event() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-c 2000000 -e cpu-clock", &c("shares.c"), "0.5");
    let report = here.report("");
    let event = report.only();
    assert_eq!(event.weight, event.samples * 2_000_000);
    assert!(event.samples > 0);
}

#[test]
fn event_modifiers_keep_to_user_or_kernel() {
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

fn endless(here: &Here) -> (Running, String) {
    let mut running = here.command(c("endless.c")).start();
    let pid = running.line();
    (running, pid)
}

fn share_of_endless(report: &Report) -> f64 {
    let rows = &report.only().rows;
    let of_it = |row: &&Row| row.symbol == "work_on" && row.comm == "endless";
    let samples: u64 = rows.iter().filter(of_it).map(|row| row.self_samples).sum();
    samples as f64 / report.samples().max(1) as f64
}

#[test]
fn attached_recording_ends_with_its_targets() {
    needs!(PerfEvents);
    for letter in ["-p", "-t"] {
        let here = Here::new();
        let (running, pid) = endless(&here);
        // With contention for its CPU, the kernel uses much of the time.
        let rprof = here
            .rprof("record -F 999 -g -e cpu-clock:u")
            .arg(letter)
            .arg(&pid)
            .start();
        wait_until("samples are in the file", || here.samples_so_far() > 100);
        running.signal(Signal::TERM);
        running.end();
        // Without a command there is no exit status to forward.
        let run = rprof.end();
        run.exits(0).says("samples of cpu-clock:u").says("lost ");
        let share = share_of_endless(&here.report("--sort comm,symbol"));
        let rows = here.rprof("report --sort comm,symbol").run();
        assert!(share > 0.9, "{share} by\n{run}{rows}");
    }
}

#[test]
fn attached_recording_ends_with_the_command() {
    needs!(PerfEvents);
    let here = Here::new();
    let (running, pid) = endless(&here);
    let run = (here
        .rprof("record -F 999 -g -e cpu-clock:u -p")
        .arg(&pid)
        .arg("--"))
    .arg("sh")
    .arg("-c")
    .arg("\"$0\" 0.3; exit 4")
    .arg(c("shares.c"))
    .exits(4);
    let report = here.report("--sort comm,symbol");
    // The command is not recorded.
    assert!(
        report.only().rows.iter().all(|row| row.comm == "endless"),
        "{run}"
    );
    assert!(share_of_endless(&report) > 0.9, "{run}");
    let run = (here
        .rprof("record -e cpu-clock -p")
        .arg(&pid)
        .words("-- sh -c"))
    .arg("kill -KILL $0; until [ -e go ]; do sleep 0.01; done; exit 4")
    .arg(&pid)
    .start();
    running.end();
    std::fs::write(here.path("go"), "").unwrap();
    run.end().exits(4);
}

#[test]
fn the_whole_system_is_recorded_with_all_cpus() {
    needs!(PerfEvents, Kernel, Root);
    for target in ["-a", "-C 0-1023", "-u 0", "-G /"] {
        let here = Here::new();
        let target = match target {
            "-C 0-1023" => {
                let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
                format!("-C {}", online.trim())
            }
            target => target.to_owned(),
        };
        let (running, _) = endless(&here);
        let run = (here
            .rprof("record -F 999 -g -e cpu-clock")
            .words(&target)
            .arg("--"))
        .arg(c("shares.c"))
        .arg("0.3")
        .run();
        drop(running);
        if target == "-G /" && run.code() != Some(0) {
            run.exits(1).says("cgroup");
            continue;
        }
        run.exits(0);
        let report = here.report("--sort comm,symbol");
        let has = |comm: &str, symbol: &str| {
            let rows = &report.only().rows;
            rows.iter()
                .any(|row| row.comm == comm && row.symbol == symbol)
        };
        assert!(has("endless", "work_on"), "{target}: {run}");
        assert!(has("shares", "burn_seventy"), "{target}: {run}");
    }
}

#[test]
fn rprof_itself_is_left_out_when_asked_to() {
    needs!(PerfEvents, Kernel, Root);
    let samples_of_itself = |option: &str| {
        let here = Here::new();
        let mut rprof = (here
            .rprof("record -v -F 9999 -g -e cpu-clock -a")
            .words(option))
        .arg("--")
        .arg(c("endless.c"))
        .start();
        let pid = rprof.pid().as_raw_nonzero();
        rprof.line();
        rprof.signal(Signal::TERM);
        let told = rprof.end().err().contains(" samples: duplicates ");
        let script = here.rprof(&format!("script --pid {pid} -F pid")).run();
        let count = script.out().lines().count();
        // An empty result is an error.
        script.exits(i32::from(count == 0));
        (count, told)
    };
    let (samples, told) = samples_of_itself("");
    assert!(samples > 0 && !told, "{samples} samples, {told}");
    assert_eq!(samples_of_itself("--exclude-perf"), (0, true));
}

#[test]
fn a_flag_is_undone_by_its_no_form() {
    needs!(PerfEvents, Kernel);
    let here = Here::new();
    here.rprof("record --quiet --no-quiet -- true")
        .ok()
        .says("in perf.data");
    here.rprof("record --no-quiet --quiet -- true")
        .ok()
        .says_nothing();
    here.rprof("record -q --all-user --no-all-user --all-kernel -- true")
        .ok();
    here.rprof("record -q -a --no-all-cpus -- true").ok();
    here.rprof("record -a --no-all-cpus")
        .exits(2)
        .says("COMMAND");
}

#[test]
fn verbose_says_how_it_samples() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here.rprof("record -v -F 99 -e cpu-clock:u -- true").ok();
    run.says("event cpu-clock:u")
        .says("99 a second")
        .says("rings of each CPU");
}

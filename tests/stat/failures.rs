//! Invalid input, and failing commands.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::{HITS, counts, json};
use crate::support::{Here, c, change_settings, needs};

#[test]
fn wrong_usage_is_told_before_anything_runs() {
    let here = Here::new();
    let cases = [
        ("stat", "nothing to count"),
        ("stat -e no-such-event -- touch ran", "no-such-event"),
        ("stat -e pgae-faults -- touch ran", "page-faults"),
        ("stat -e {page-faults -- touch ran", "{page-faults"),
        ("stat --fail-above 5% -- touch ran", ":::"),
        ("stat -r 3 --per cpu -- touch ran", "--per"),
        ("stat -r 3 -p 1", "-r"),
        ("stat -r 1 -- touch ran ::: true", "-r"),
        ("stat -- touch ran :::", ":::"),
        ("stat --fail-above x -- touch ran ::: true", "percentage"),
    ];
    for (line, said) in cases {
        here.rprof(line).exits(2).says(said);
    }
    assert!(!here.path("ran").exists());
    here.rprof("stat -- no-such-command-of-this-name")
        .exits(127)
        .says("no-such-command-of-this-name");
    here.rprof("stat -- /dev/null").exits(126);
    here.rprof("stat -p 4194305")
        .exits(1)
        .says("process 4194305");
}

#[test]
fn an_event_that_is_not_there_is_told_and_the_rest_is_counted() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here
        .rprof("stat -e 99999:1,page-faults:u -- sh -c")
        .arg("exit 7")
        .exits(7);
    run.says("not available: 99999:1").says("page-faults:u");
    let run = here.rprof("stat -e 99999:1 -- true").ok();
    run.says("no event could be counted").says("wall");
}

#[test]
fn a_group_is_counted_whole_or_not_at_all() {
    needs!(PerfEvents);
    let here = Here::new();
    // No core has this many watchpoints.
    let watched: Vec<String> = (0..40u64)
        .map(|n| format!("mem:{:#x}:w", 0x10_0000 + 8 * n))
        .collect();
    let group = format!("{{{}}}", watched.join(","));
    let run = here
        .rprof("stat -e")
        .arg(&group)
        .arg("--")
        .arg("touch")
        .arg("ran");
    run.exits(1).says("cannot be counted together").says(":W");
    assert!(!here.path("ran").exists());
    let run = here
        .rprof("stat -e")
        .arg(format!("{group}:W"))
        .arg("--")
        .arg("true");
    run.ok()
        .says("mem:0x100000:w")
        .says("No space left on device");
}

#[test]
fn a_command_that_is_killed_keeps_its_status_and_its_counts() {
    needs!(PerfEvents, Tracepoints);
    let here = Here::new();
    let stat = || {
        here.rprof("stat --format json -e")
            .arg(HITS)
            .arg("--")
            .arg(c("calls.c"))
    };
    for signal in [6, 9, 11] {
        let run = stat().arg("3").arg(signal.to_string()).exits(128 + signal);
        run.says(&format!("killed by signal {signal}"));
        let document = json(&run.out());
        assert_eq!(counts(&document, HITS)[0].1, 6);
        assert_eq!(
            document["commands"][0]["runs"][0]["status"]["signal"],
            signal
        );
    }
}

#[test]
fn runs_that_fail_are_left_out_and_told() {
    needs!(PerfEvents);
    let here = Here::new();
    let script = "if [ -e mark ]; then rm mark; exit 9; else touch mark; fi";
    let repeated = || here.rprof("stat -r 6 --format json -e page-faults:u");
    let run = repeated().words("-- sh -c").arg(script).exits(9);
    run.says("3 of 6 runs").says("exit status 9");
    let document = json(&run.out());
    assert_eq!(
        document["commands"][0]["runs"].as_array().map(Vec::len),
        Some(3)
    );
    assert_eq!(
        document["commands"][0]["left_out"].as_array().map(Vec::len),
        Some(3)
    );
    let run = repeated().words("-- false").exits(1);
    run.says("--ignore-failure");
    assert_eq!(run.out(), "");
    let run = repeated().words("--ignore-failure -- false").exits(1);
    assert_eq!(
        json(&run.out())["commands"][0]["runs"]
            .as_array()
            .map(Vec::len),
        Some(6)
    );
    repeated()
        .words("--prepare false -- true")
        .exits(1)
        .says("--prepare failed");
}

#[test]
fn where_nothing_may_be_counted_one_remedy_is_named_and_the_status_fails() {
    let here = Here::new();
    // As in a container or at a paranoid level of 3.
    let shell = here.command(c("deny.c")).arg(env!("CARGO_BIN_EXE_rprof"));
    let run = shell.words("stat -- true").exits(1);
    let remedies = run.err().matches("seccomp filter forbids").count();
    assert_eq!(remedies, 1, "{run}");
    run.says("`task-clock:u`, `page-faults:u`").says("max RSS");
    let shell = here.command(c("deny.c")).arg(env!("CARGO_BIN_EXE_rprof"));
    shell.words("stat -- sh -c").arg("exit 7").exits(7);
}

#[test]
fn without_rights_less_is_counted_and_it_is_told() {
    needs!(PerfEvents, Root, Tool("setpriv"));
    let here = Here::new();
    // Other users may not enter the folder of this checkout.
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let rprof = folder.path().join("rprof");
    let copied = Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_rprof"))
        .arg(&rprof)
        .status();
    assert!(copied.expect("cp").success());
    // Commands through `env` do not take this lock.
    let _settings = change_settings();
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let level: i32 = level.trim().parse().unwrap_or(2);
    let nobody = |args: &str| {
        let shell = here
            .command("env")
            .words("setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all");
        shell.arg(&rprof).words(args)
    };
    let run = nobody("stat -- sh -c").arg("exit 5").exits(5);
    run.says("wall")
        .says("max RSS")
        .says("page-faults")
        .says("context-switches");
    if level >= 2 {
        // `context-switches:u` would always be 0.
        assert!(!run.err().contains("context-switches:u"), "{run}");
        run.says("kernel.perf_event_paranoid");
    }
    if level >= 1 {
        nobody("stat -a -e page-faults --timeout 10")
            .exits(1)
            .says("perf_event_paranoid");
    }
    if level >= 2 {
        nobody("stat -e page-faults:k -- true")
            .exits(1)
            .says("perf_event_paranoid");
    }
}

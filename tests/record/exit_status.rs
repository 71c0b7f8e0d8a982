//! The exit status is the command's, if there is a command.

use crate::support::{Here, c, needs};

#[test]
fn exit_status_is_that_of_the_command() {
    needs!(PerfEvents);
    for (script, status) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -TERM $$", 128 + 15),
        ("kill -SEGV $$", 128 + 11),
        ("kill -KILL $$", 128 + 9),
    ] {
        let here = Here::new();
        let run = here.rprof("record -g -- sh -c").arg(script).exits(status);
        run.says("perf.data");
        // A shell may end before its first sample.
        here.rprof("header").ok().prints("features").prints("sh -c");
    }
}

#[test]
fn exit_status_of_the_command_is_kept_by_quiet() {
    needs!(PerfEvents);
    let here = Here::new();
    here.rprof("record -q -- sh -c")
        .arg("exit 7")
        .exits(7)
        .says_nothing();
}

#[test]
fn exit_status_of_a_failing_command_is_kept_with_its_samples() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here
        .rprof("record -F 999 -- sh -c")
        .arg("\"$0\" 0.3; exit 3")
        .arg(c("shares.c"));
    run.exits(3);
    assert!(here.report("").only().self_share("burn_seventy") > 0.0);
}

#[test]
fn exit_status_is_127_for_a_command_that_is_not_found() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here
        .rprof("record -- no-such-command-of-this-name")
        .exits(127);
    run.says("no-such-command-of-this-name");
    assert_eq!(names_here(&here), [""; 0], "left behind by\n{run}");
    here.rprof("record -- ./no/such/file")
        .exits(127)
        .says("./no/such/file");
}

#[test]
fn exit_status_is_126_for_a_command_that_cannot_be_executed() {
    needs!(PerfEvents);
    let here = Here::new();
    std::fs::write(here.path("script"), "#!/bin/sh\n").unwrap();
    here.rprof("record -- ./script").exits(126).says("./script");
    here.rprof("record -- ./").exits(126).says("is a folder");
    assert_eq!(names_here(&here), ["script"]);
}

#[test]
fn a_command_that_cannot_run_leaves_the_old_recording() {
    needs!(PerfEvents);
    let here = Here::new();
    std::fs::write(here.path("perf.data"), "precious").unwrap();
    here.rprof("record -- no-such-command-of-this-name")
        .exits(127);
    assert_eq!(names_here(&here), ["perf.data"]);
    assert_eq!(std::fs::read(here.path("perf.data")).unwrap(), b"precious");
}

#[test]
fn exit_status_is_2_for_wrong_usage() {
    let here = Here::new();
    for (args, hint) in [
        ("", "Usage"),
        ("record", "COMMAND"),
        ("record -g", "COMMAND"),
        ("record -d 5", "-a"),
        ("record -a -p 1 -- true", "--pid"),
        ("record -p 1 -t 1", "--tid"),
        ("record -u root -a", "--uid"),
        ("record -G x -u root", "--uid"),
        ("record -p 0", "--pid"),
        ("record -p many", "many"),
        ("record -C 1-", "1-"),
        (
            "record -u no-such-user-of-this-name -- true",
            "no-such-user",
        ),
        ("record -D -1 -- true", "--control"),
        ("record -d 0 -- true", "--duration"),
        ("record --max-size 0 -- true", "--max-size"),
        ("record --realtime 100 -- true", "--realtime"),
        ("record -q -v -- true", "cannot be used with"),
        ("recrod -- true", "record"),
        ("record --frq 99 -- true", "freq"),
        ("record -F 0 -- true", "--freq"),
        ("record -F many -- true", "many"),
        ("record -c 0 -- true", "--count"),
        ("record -F 99 -c 99 -- true", "cannot be used with"),
        ("record --call-graph magic -- true", "magic"),
        ("record -e cpu-clok -- true", "cpu-clock"),
        ("record -e nothing-like-it -- true", "nothing-like-it"),
        ("report --sort colour", "colour"),
        ("report --format yaml", "yaml"),
        ("report --time 5,2", "--time"),
        ("report --symfs /no/where", "there is no such folder"),
        ("annotate --off-cpu", "shows where threads waited"),
        ("completions tcl", "tcl"),
        ("man nothing", "nothing"),
    ] {
        let run = here.rprof(args).exits(2);
        run.says(hint);
        assert!(run.bytes().is_empty(), "stdout of\n{run}");
    }
    assert_eq!(names_here(&here), [""; 0], "wrong usage leaves no files");
}

#[test]
fn exit_status_is_1_without_a_recording() {
    let here = Here::new();
    for command in ["report", "collapse", "script", "header", "flamegraph"] {
        let run = here.rprof(command).exits(1);
        run.says("perf.data").says("rprof record");
        assert!(run.bytes().is_empty(), "stdout of\n{run}");
        here.rprof(command)
            .words("-i other.data")
            .exits(1)
            .says("cannot read other.data: No such file or directory (ENOENT)");
    }
    assert_eq!(names_here(&here), [""; 0]);
}

#[test]
fn exit_status_is_1_for_a_file_that_is_no_recording() {
    let here = Here::new();
    std::fs::write(here.path("empty"), "").unwrap();
    std::fs::write(here.path("text"), "PERF is not what this is\n".repeat(100)).unwrap();
    std::fs::write(here.path("short"), "PERFILE2").unwrap();
    std::fs::create_dir(here.path("folder")).unwrap();
    for command in [
        "report",
        "collapse",
        "script",
        "header",
        "flamegraph -o x.svg",
    ] {
        for file in ["empty", "text", "short", "folder"] {
            let run = here.rprof(command).arg("-i").arg(file).exits(1);
            run.says(file);
            assert_eq!(
                run.err().lines().count(),
                1,
                "one message is enough of\n{run}"
            );
        }
        assert!(!here.path("x.svg").exists());
    }
}

fn names_here(here: &Here) -> Vec<String> {
    let entries = std::fs::read_dir(here.path(".")).expect("the folder");
    let names = entries.map(|e| {
        e.expect("an entry")
            .file_name()
            .to_string_lossy()
            .into_owned()
    });
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

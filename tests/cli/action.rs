//! `.ci/action`, the script of the GitHub action: its outputs, and where its rprof comes from.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::guide::repository;
use crate::support::{Here, Shell, c, needs};

#[test]
fn the_action_keeps_graph_and_status() {
    needs!(PerfEvents);
    let here = Here::new();
    let action = here
        .command(repository().join(".ci/action"))
        .env("INPUT_RPROF", env!("CARGO_BIN_EXE_rprof"))
        .env(
            "INPUT_COMMAND",
            "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; exit 5",
        )
        .env("INPUT_OPTIONS", "-F 4999 --no-inherit")
        .env("INPUT_OUTPUT", "graph.svg")
        .env("RUNNER_ENVIRONMENT", "self-hosted")
        .env("GITHUB_OUTPUT", "output")
        .env("GITHUB_STEP_SUMMARY", "summary");
    action.ok();
    let read = |name: &str| fs::read_to_string(here.path(name)).expect(name);
    assert_eq!(read("output"), "status=5\nflamegraph=graph.svg\n");
    assert!(read("graph.svg").contains("</svg>"));
    let summary = read("summary");
    assert!(
        summary.starts_with("### Top functions\n\n```text\n# event "),
        "{summary}"
    );
    assert!(summary.ends_with("\n```\n"), "{summary}");
}

#[test]
fn the_action_compares_two_commands_and_keeps_the_comment() {
    needs!(PerfEvents);
    let here = Here::new();
    let knob = c("knob.c");
    let with = |seconds: &str| format!("{} {seconds}", knob.display());
    let action = here
        .command(repository().join(".ci/action"))
        .env("INPUT_RPROF", env!("CARGO_BIN_EXE_rprof"))
        .env("INPUT_COMMAND", &with("0.4 0.1 0.1"))
        .env("INPUT_AGAINST", &with("0.1 0.1 0.1"))
        .env("INPUT_RUNS", "2")
        .env("INPUT_OPTIONS", "--noise 5%")
        .env("INPUT_OUTPUT", "graph.svg")
        .env("RUNNER_ENVIRONMENT", "self-hosted")
        .env("GITHUB_OUTPUT", "output")
        .env("GITHUB_STEP_SUMMARY", "summary");
    let run = action.ok();
    run.says("::error title=gate");
    let read = |name: &str| fs::read_to_string(here.path(name)).expect(name);
    assert_eq!(
        read("output"),
        "status=3\nflamegraph=graph.svg\ncomment=comment.md\n"
    );
    assert!(read("graph.svg").contains("</svg>"));
    assert!(read("comment.md").starts_with("<!-- rprof-gate gate -->\n**REGRESSED"));
    assert!(read("summary").contains("knob&#95;f"));
}

/// Keeps its arguments and writes what `-o` names.
const ARGUMENTS: &str = r#"#!/bin/sh
[ "$1" = doctor ] && exit 0
printf '<%s>' "$@" >>arguments
while [ "$1" != -- ] && [ $# -gt 0 ]; do
    [ "$1" = -o ] && echo x >"$2"
    shift
done
"#;

#[test]
fn the_action_takes_options_as_words_and_no_output_of_two_lines() {
    let here = Here::new();
    fs::write(here.path("fake"), ARGUMENTS).unwrap();
    fs::set_permissions(here.path("fake"), PermissionsExt::from_mode(0o755)).unwrap();
    fs::write(here.path("foo1"), "").unwrap();
    let read = |name: &str| fs::read_to_string(here.path(name)).unwrap_or_default();
    let action = |variable: &str, value: &str| {
        for name in ["arguments", "output"] {
            fs::remove_file(here.path(name)).ok();
        }
        here.command(repository().join(".ci/action"))
            .env("INPUT_RPROF", "./fake")
            .env("INPUT_COMMAND", "true")
            .env(variable, value)
            .env("RUNNER_ENVIRONMENT", "self-hosted")
            .env("GITHUB_OUTPUT", "output")
            .env("GITHUB_STEP_SUMMARY", "summary")
    };
    action("INPUT_OPTIONS", "--symbol foo* *\n-F 99").ok();
    let arguments = read("arguments");
    let words = "<--symbol><foo*><*><-F><99><--><sh><-c><true>";
    assert!(arguments.contains(words), "{arguments}");
    let run = action("INPUT_OUTPUT", "a.svg\nstatus=0").exits(1);
    run.prints("::error::");
    assert_eq!(read("arguments") + &read("output"), "");
}

fn release_name() -> String {
    let machine = std::env::consts::ARCH;
    format!("rprof-{}-{machine}-linux", env!("CARGO_PKG_VERSION"))
}

fn write_program(here: &Here, name: &str, text: &str) {
    fs::write(here.path(name), text).unwrap();
    fs::set_permissions(here.path(name), PermissionsExt::from_mode(0o755)).unwrap();
}

/// Makes a folder with one archive, whose rprof writes its arguments to a file.
fn publish(here: &Here) {
    let name = release_name();
    let folder = format!("releases/v{}", env!("CARGO_PKG_VERSION"));
    fs::create_dir_all(here.path(&folder)).unwrap();
    fs::create_dir(here.path(&name)).unwrap();
    write_program(here, &format!("{name}/rprof"), ARGUMENTS);
    here.sh(&format!(
        "tar -czf {folder}/{name}.tar.gz {name} && cd {folder} && sha256sum * >SHA256SUMS"
    ))
    .ok();
}

/// Runs the action without an installed rprof. A stand-in for Cargo reports that it ran.
fn action_with_releases(here: &Here, releases: &str) -> Shell {
    fs::create_dir_all(here.path("bin")).unwrap();
    write_program(here, "bin/cargo", "#!/bin/sh\necho cargo \"$1\"\nexit 9\n");
    let path = format!("{}:/usr/bin:/bin", here.path("bin").display());
    here.command(repository().join(".ci/action"))
        .env("PATH", &path)
        .env("ACTION_PATH", repository().to_str().expect("UTF-8"))
        .env("RPROF_RELEASES", releases)
        .env("INPUT_COMMAND", "true")
        .env("RUNNER_ENVIRONMENT", "self-hosted")
        .env("RUNNER_TEMP", here.path("").to_str().expect("UTF-8"))
        .env("GITHUB_OUTPUT", "output")
        .env("GITHUB_STEP_SUMMARY", "summary")
}

#[test]
fn action_without_rprof_runs_the_released_binary() {
    needs!(Tool("curl"));
    let here = Here::new();
    publish(&here);
    let releases = format!("file://{}", here.path("releases").display());
    let run = action_with_releases(&here, &releases).ok();
    assert!(!run.out().contains("cargo"), "{run}");
    let arguments = fs::read_to_string(here.path("arguments")).expect("the release ran");
    assert!(arguments.contains("<--><sh><-c><true>"), "{arguments}");
}

#[test]
fn action_runs_nothing_of_a_release_with_another_checksum() {
    needs!(Tool("curl"));
    let here = Here::new();
    publish(&here);
    let releases = format!("file://{}", here.path("releases").display());
    let wrong = "0".repeat(64);
    let run = action_with_releases(&here, &releases)
        .env("INPUT_SHA256", &wrong)
        .exits(1);
    run.prints("::error::").prints(&wrong);
    assert!(!run.out().contains("cargo"), "{run}");

    let folder = format!("releases/v{}", env!("CARGO_PKG_VERSION"));
    let archive = format!("{folder}/{}.tar.gz", release_name());
    let mut bytes = fs::read(here.path(&archive)).unwrap();
    bytes.push(0);
    fs::write(here.path(&archive), bytes).unwrap();
    let run = action_with_releases(&here, &releases).exits(1);
    run.prints("::error::");
    assert!(!run.out().contains("cargo"), "{run}");

    fs::remove_file(here.path(format!("{folder}/SHA256SUMS"))).unwrap();
    let run = action_with_releases(&here, &releases).exits(1);
    run.prints("an entry in SHA256SUMS");
    assert!(!here.path("arguments").exists(), "the release ran");
}

#[test]
fn action_without_rprof_and_release_builds() {
    needs!(Tool("curl"));
    let here = Here::new();
    let releases = format!("file://{}", here.path("none").display());
    let run = action_with_releases(&here, &releases).exits(9);
    run.prints("::notice::").prints("cargo build");
}

#[test]
fn scripts_of_releases_find_the_version() {
    for script in [".ci/action", ".ci/release"] {
        let text = fs::read_to_string(repository().join(script)).expect(script);
        let line = (text.lines())
            .find(|line| line.contains("version=$(sed"))
            .expect(script);
        let line = line.trim().replace("$ACTION_PATH/", "");
        let printed = Command::new("bash")
            .args(["-c", &format!("{line}; printf %s \"$version\"")])
            .current_dir(repository())
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8_lossy(&printed.stdout),
            env!("CARGO_PKG_VERSION"),
            "{script}"
        );
    }
}

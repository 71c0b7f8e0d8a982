//! Pages of docs/guide and docs/ci.md: runs their commands, and compares the output.
//!
//! Blocks of ```` ```sh ```` run page by page, in one shell that ends at the first failure. A block of
//! ```` ```text ```` holds lines of what the last command before it prints, whatever their figures and order.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::support::{Here, c, needs};

/// One command block of a page, with the lines that the page shows of its output.
struct Step {
    script: String,
    shown: Vec<String>,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn steps(page: &str) -> Vec<Step> {
    let text = std::fs::read_to_string(repository().join("docs").join(page)).expect("a page");
    let mut steps: Vec<Step> = Vec::new();
    // Every second part is a block. It begins with its language.
    for block in text.split("\n```").skip(1).step_by(2) {
        let (language, lines) = block.split_once('\n').expect("a block has lines");
        match language {
            "sh" => steps.push(Step {
                script: lines.to_owned(),
                shown: Vec::new(),
            }),
            "text" => {
                let step = steps.last_mut().expect("output follows a command");
                step.shown.extend(lines.lines().map(str::to_owned));
            }
            // Not executable here.
            "console" | "yaml" => {}
            other => panic!("{page}: a block of {other:?}"),
        }
    }
    steps
}

/// A line without its figures and spaces, which differ.
fn shape(line: &str) -> String {
    let line: String = line
        .chars()
        .filter(|c| !c.is_ascii_digit() && !"%.,".contains(*c))
        .collect();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Runs all of a page.
fn follow(page: &str) {
    let here = Here::new();
    let folder = Path::new(env!("CARGO_BIN_EXE_rprof"))
        .parent()
        .expect("a folder");
    let path = std::env::var("PATH").expect("PATH is set");
    let path = format!("{}:{path}", folder.display());
    let steps = steps(page);
    assert!(!steps.is_empty(), "{page} has commands");
    for step in &steps {
        let run = here
            .sh(&format!("set -eu\n{}", step.script))
            .env("PATH", &path)
            .ok();
        let out = run.out();
        let printed: Vec<String> = out.lines().map(shape).collect();
        for line in &step.shown {
            let shown = shape(line);
            assert!(
                printed.iter().any(|line| line.contains(&shown)),
                "{page}: {shown:?} is not printed by\n{run}"
            );
        }
    }
}

#[test]
fn a_first_profile_is_made_as_the_page_says() {
    needs!(PerfEvents);
    follow("guide/first-profile.md");
}

#[test]
fn a_flame_graph_is_drawn_as_the_page_says() {
    needs!(PerfEvents);
    follow("guide/flame-graph.md");
}

#[test]
fn waits_are_shown_as_the_page_says() {
    needs!(PerfEvents, Tool("python3"));
    follow("guide/waits.md");
}

#[test]
fn a_page_is_written_as_the_page_says() {
    needs!(PerfEvents);
    follow("guide/html.md");
}

#[test]
fn a_profile_is_exported_as_the_page_says() {
    needs!(PerfEvents);
    follow("guide/exports.md");
}

#[test]
fn before_and_after_are_compared_as_the_page_says() {
    needs!(PerfEvents);
    follow("guide/comparing.md");
}

#[test]
fn lines_and_instructions_are_shown_as_the_page_says() {
    needs!(PerfEvents);
    follow("guide/lines.md");
}

#[test]
fn the_present_is_shown_as_the_page_says() {
    needs!(PerfEvents);
    follow("guide/live.md");
}

#[test]
fn permissions_are_shown_as_the_page_says() {
    needs!(PerfEvents);
    follow("guide/permissions.md");
}

#[test]
fn a_recording_travels_as_the_page_says() {
    needs!(PerfEvents);
    follow("guide/containers.md");
}

#[test]
fn code_made_at_run_time_has_names_as_the_page_says() {
    needs!(PerfEvents, Node, Java);
    follow("guide/jit.md");
}

#[test]
fn a_build_keeps_its_profile_as_the_page_says() {
    needs!(PerfEvents);
    follow("ci.md");
}

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
    let read = |name: &str| std::fs::read_to_string(here.path(name)).expect(name);
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
    let read = |name: &str| std::fs::read_to_string(here.path(name)).expect(name);
    assert_eq!(
        read("output"),
        "status=3\nflamegraph=graph.svg\ncomment=comment.md\n"
    );
    assert!(read("graph.svg").contains("</svg>"));
    assert!(read("comment.md").starts_with("<!-- rprof-gate gate -->\n**REGRESSED"));
    assert!(read("summary").contains("knob&#95;f"));
}

/// A program in place of rprof, which keeps its arguments and writes what `-o` names.
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
    std::fs::write(here.path("fake"), ARGUMENTS).unwrap();
    std::fs::set_permissions(here.path("fake"), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(here.path("foo1"), "").unwrap();
    let read = |name: &str| std::fs::read_to_string(here.path(name)).unwrap_or_default();
    let action = |variable: &str, value: &str| {
        for name in ["arguments", "output"] {
            std::fs::remove_file(here.path(name)).ok();
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

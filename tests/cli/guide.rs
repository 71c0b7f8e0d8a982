//! Runs the commands of docs/guide and docs/ci.md, and compares the output.
//!
//! Blocks of ```` ```sh ```` run page by page, in one shell that ends at the first failure. A block
//! of
//! ```` ```text ```` holds lines of what the last command before it prints, whatever their figures and order.

use std::path::{Path, PathBuf};

use crate::support::{Here, needs};

/// Command block of a page, with the shown lines of its output.
struct Step {
    script: String,
    shown: Vec<String>,
}

pub(super) fn repository() -> PathBuf {
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
            "console" | "yaml" => {}
            other => panic!("{page}: a block of {other:?}"),
        }
    }
    steps
}

/// Removes figures and spaces, which differ.
fn shape(line: &str) -> String {
    let line: String = line
        .chars()
        .filter(|c| !c.is_ascii_digit() && !"%.,".contains(*c))
        .collect();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

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
fn a_recording_is_explained_as_the_page_says() {
    needs!(PerfEvents);
    follow("guide/explain.md");
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
fn latency_is_shown_as_the_page_says() {
    needs!(PerfEvents, Tool("python3"));
    follow("guide/latency.md");
}

#[test]
fn memory_is_shown_as_the_page_says() {
    needs!(PerfEvents);
    follow("guide/memory.md");
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
fn functions_of_python_have_names_as_the_page_says() {
    needs!(PerfEvents, X86_64, Node, Java, File("/usr/bin/python3"));
    follow("guide/languages.md");
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
fn views_are_in_the_language_of_the_program_as_the_page_says() {
    needs!(PerfEvents, X86_64, Node, Java, File("/usr/bin/python3"));
    follow("guide/languages.md");
}

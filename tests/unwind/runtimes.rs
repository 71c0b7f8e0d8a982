//! Runtimes with their own stacks, in programs with a known path at each leaf.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::support::{Folded, Here, Report, check, folded, measured, needs, truth_seconds};

/// Complete stacks among samples in leaves.
const COMPLETE: f64 = 0.95;

/// Complete stacks among all samples. On a busy machine code is not read in time.
const COMPLETE_IN_ALL: f64 = 0.9;

/// Long runs use a higher frequency, to find more errors.
fn hertz() -> &'static str {
    truth_seconds().map_or("999", |_| "9999")
}

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/runtimes"
    ))
    .join(name)
}

/// Returns frames from the root to the leaf, without the thread name.
fn stacks_of<'s>(stacks: &'s Folded, leaf: &str) -> Vec<(Vec<&'s str>, u64)> {
    (stacks.iter())
        .filter_map(|(stack, samples)| {
            let frames: Vec<&str> = stack.split(';').skip(1).collect();
            let at = frames.iter().rposition(|frame| *frame == leaf)?;
            Some((frames[..=at].to_vec(), *samples))
        })
        .collect()
}

/// No stack of a leaf has a wrong path. Returns its samples, and those with the whole path.
fn assert_path(stacks: &Folded, leaf: &str, callers: &[&str]) -> (u64, u64) {
    let (mut all, mut whole) = (0, 0);
    for (frames, samples) in stacks_of(stacks, leaf) {
        let above = frames.iter().rev().skip(1);
        let wrong = above
            .zip(callers)
            .find(|(found, expected)| found != expected);
        assert!(wrong.is_none(), "{samples} samples of {leaf}: {frames:?}");
        all += samples;
        whole += if frames.len() > callers.len() {
            samples
        } else {
            0
        };
    }
    (all, whole)
}

fn check_whole(what: &str, leaves: &[(u64, u64)]) -> Result<(), String> {
    let (all, whole) = (leaves.iter()).fold((0, 0), |sum, leaf| (sum.0 + leaf.0, sum.1 + leaf.1));
    println!("{what}: {all} samples in leaves, {whole} with their whole path, 0 wrong");
    check(all > 300, || format!("{all} samples in leaves of {what}"))?;
    check(whole as f64 >= COMPLETE * all as f64, || {
        format!("{whole} of {all} samples in leaves of {what} have their path")
    })
}

fn check_complete(report: &Report) -> Result<(), String> {
    let stacks = &report.quality["stacks"];
    let count = |key: &str| stacks[key].as_f64().expect("a number");
    check(count("complete") > COMPLETE_IN_ALL * count("total"), || {
        format!("complete: {stacks}")
    })
}

fn remove_map(pid_of: &str) {
    for entry in std::fs::read_dir("/tmp").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == format!("perf-{pid_of}.map") || name == format!("jit-{pid_of}.dump") {
            std::fs::remove_file(entry.path()).ok();
        }
    }
}

fn pid_of(here: &Here, leaf: &str) -> String {
    let json = here.rprof("report --format json --sort pid,sym").ok().out();
    let report: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let rows = report["events"][0]["rows"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["symbol"] == leaf);
    row.map(|row| row["pid"].to_string()).unwrap_or_default()
}

#[test]
fn stacks_of_erlang_processes_are_true() {
    needs!(PerfEvents, X86_64, File("/usr/bin/erlc"));
    measured(|| {
        let here = Here::new();
        here.command("erlc").arg(fixture("truth.erl")).ok();
        let record = here
            .rprof("record -q -e cpu-clock --runtimes -F")
            .arg(hertz());
        let record = record.words("-- erl -noshell -eval");
        record.arg("truth:main(), halt(0).").ok();
        let stacks = folded(&here.rprof("collapse --weight samples").ok());
        remove_map(&pid_of(&here, "truth:leaf_left/2"));
        let path = |function: &'static str, times: usize| -> Vec<&str> {
            let path = std::iter::repeat_n(function, times);
            path.chain(["truth:rounds/1"]).collect()
        };
        let left = assert_path(&stacks, "truth:leaf_left/2", &path("truth:left/1", 6));
        let right = assert_path(&stacks, "truth:leaf_right/2", &path("truth:right/1", 3));
        check_whole("Erlang", &[left, right])?;
        check_complete(&here.report(""))
    });
}

#[test]
fn stacks_of_lisp_are_true() {
    needs!(PerfEvents, X86_64, Tool("sbcl"));
    measured(|| {
        let here = Here::new();
        let record = here.rprof("record -q -e cpu-clock -F").arg(hertz());
        let record = record.words("-- sbcl --script");
        record.arg(fixture("truth.lisp")).ok();
        let stacks = folded(&here.rprof("collapse --weight samples").ok());
        remove_map(&pid_of(&here, "leaf-left"));
        let path = |function: &'static str, times: usize| -> Vec<&str> {
            let path = std::iter::repeat_n(function, times);
            path.chain(["rounds"]).collect()
        };
        let left = assert_path(&stacks, "leaf-left", &path("left", 6));
        let right = assert_path(&stacks, "leaf-right", &path("right", 3));
        // The containing function appears seven or five times, without names for the local ones.
        let half = assert_path(&stacks, "leaf-half", &path("halves", 8));
        let third = assert_path(&stacks, "leaf-third", &path("thirds", 6));
        check_whole("Lisp", &[left, right])?;
        check_whole("Lisp, local calls", &[half, third])?;
        check_complete(&here.report(""))
    });
}

/// Lua frames are not on the stack.
#[test]
fn stacks_of_traces_are_true() {
    needs!(PerfEvents, X86_64, File("/usr/bin/luajit"));
    measured(|| {
        let here = Here::new();
        let record = here.rprof("record -q -e cpu-clock -F").arg(hertz());
        let record = record.words("-- luajit");
        record.arg(fixture("truth.lua")).ok();
        let stacks = folded(&here.rprof("collapse --weight samples").ok());
        remove_map(&pid_of(&here, "leaf_plain"));
        let mut samples = 0;
        let callers = ["leaf_plain", "leaf_sort", "leaf_gsub"].map(|leaf| {
            let found = stacks_of(&stacks, leaf);
            samples += found.iter().map(|(_, samples)| samples).sum::<u64>();
            let mut callers: Vec<Vec<String>> = Vec::new();
            let whole = found.iter().filter(|(frames, _)| frames.len() > 3);
            for (frames, _) in whole {
                let frames = frames[..frames.len() - 1].iter().map(ToString::to_string);
                callers.push(frames.collect());
            }
            callers.into_iter().collect::<BTreeSet<_>>()
        });
        println!("LuaJIT: {samples} samples in traces");
        check(samples > 300, || format!("{samples} samples in traces"))?;
        assert!(callers.iter().all(|paths| paths.len() == 1), "{callers:?}");
        let [plain, sort, gsub] = callers.map(|paths| paths.into_iter().next().expect("one"));
        assert!(
            sort.starts_with(&plain) && sort.len() > plain.len(),
            "{sort:?}"
        );
        assert!(
            gsub.starts_with(&sort) && gsub.len() > sort.len(),
            "{gsub:?}"
        );
        check_complete(&here.report(""))
    });
}

#[test]
fn stacks_of_guile_reach_their_root() {
    needs!(PerfEvents, X86_64, Tool("guile"));
    measured(|| {
        let here = Here::new();
        let record = here.rprof("record -q -F 999 -e cpu-clock -- guile --no-auto-compile");
        record.arg(fixture("loops.scm")).ok();
        check_complete(&here.report(""))
    });
}

//! Functions of CPython without help by the interpreter, in a program with known calls.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Here, check, measured, needs, truth_seconds};

/// Minimum share of stacks with all their functions, on a machine that has time to read memory
/// shortly after each sample. `RPROF_TRUTH_SECONDS` demands it.
const COMPLETE: f64 = 0.9;

/// The same on a busy machine.
const COMPLETE_WHEN_BUSY: f64 = 0.5;

const GAP: &str = "[Python callers unproven]";

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runtimes/truth.py")
}

/// Returns the legal pairs that the program prints, as `caller>function`.
fn legal_pairs() -> BTreeSet<String> {
    let mut command = Command::new("/usr/bin/python3");
    let output = command.arg(fixture()).arg("0").output();
    let output = String::from_utf8(output.expect("Python runs").stdout).expect("UTF-8");
    let pairs = output.lines().next().unwrap_or_default().split(' ');
    pairs.map(str::to_owned).collect()
}

/// Python functions of each sample in the output of `rprof script`, from the root to the leaf. `None`
/// is a gap. Leaves out samples with functions of other files.
fn stacks(script: &str) -> Vec<Vec<Option<&str>>> {
    let stacks = script.split("\n\n").filter_map(|sample| {
        let frames = sample
            .lines()
            .rev()
            .filter_map(|line| match line.find("py::") {
                Some(at) => {
                    let (name, _) = line[at + 4..].rsplit_once("+0x")?;
                    let mut parts = name.rsplitn(3, ':');
                    let file = parts.nth(1)?;
                    let name = parts.next()?.rsplit('.').next()?;
                    Some(Some(if file.ends_with("truth.py") { name } else { "" }))
                }
                None => line.contains(GAP).then_some(None),
            });
        let frames: Vec<Option<&str>> = frames.collect();
        (!frames.contains(&Some(""))).then_some(frames)
    });
    stacks.collect()
}

/// Counts the samples with Python functions, and those with all functions. Fails on a pair that
/// cannot be.
fn judge(stacks: &[Vec<Option<&str>>], legal: &BTreeSet<String>) -> (u64, u64) {
    let (mut all, mut complete) = (0, 0);
    for functions in stacks.iter().filter(|functions| !functions.is_empty()) {
        let first = [Some("*")].into_iter().chain(functions.iter().copied());
        for (caller, function) in first.zip(functions.iter().copied()) {
            if let (Some(caller), Some(function)) = (caller, function) {
                let pair = format!("{caller}>{function}");
                assert!(legal.contains(&pair), "{pair} in {functions:?}");
            }
        }
        all += 1;
        complete += u64::from(!functions.contains(&None));
    }
    (all, complete)
}

#[test]
fn functions_of_python_have_callers_that_they_can_have() {
    needs!(PerfEvents, X86_64, File("/usr/bin/python3"));
    let legal = legal_pairs();
    assert!(legal.len() > 30, "{legal:?}");
    measured(|| {
        let here = Here::new();
        let seconds = truth_seconds().map_or("4".to_owned(), |seconds| seconds.to_string());
        let record = here.rprof("record -q -e cpu-clock -F 999 -- /usr/bin/python3");
        record.arg(fixture()).arg(&seconds).ok();
        let script = here.rprof("script").ok();
        let (all, complete) = judge(&stacks(&script.out()), &legal);
        let share = complete as f64 / all as f64;
        println!("Python: {all} samples, {complete} complete, 0 impossible");
        check(all > 300, || format!("{all} samples of Python functions"))?;
        let least = truth_seconds().map_or(COMPLETE_WHEN_BUSY, |_| COMPLETE);
        check(share >= least, || {
            format!("{complete} of {all} samples are complete")
        })
    });
}

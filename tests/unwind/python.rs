//! Functions of CPython without help by the interpreter, in a program with known calls.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::support::{Here, check, measured, needs, truth_seconds};

/// Minimum share of stacks with all their functions, on a machine with time to read memory.
/// `RPROF_TRUTH_SECONDS` demands it.
const COMPLETE: f64 = 0.9;

/// The same on a busy machine.
const COMPLETE_WHEN_BUSY: f64 = 0.5;

/// Minimum share for functions with two callers at one place.
const COMPLETE_WITH_SWAPS: f64 = 0.3;

const GAP: &str = "[Python callers unproven]";

fn fixture(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runtimes");
    folder.join(name)
}

/// Returns the program's pairs: `caller>function`, and impossible ones as `function!caller`.
fn legal_pairs(fixture: &Path) -> BTreeSet<String> {
    let mut command = Command::new("/usr/bin/python3");
    let output = command.arg(fixture).arg("0").output();
    let output = String::from_utf8(output.expect("Python runs").stdout).expect("UTF-8");
    let pairs = output.lines().next().unwrap_or_default().split(' ');
    pairs.map(str::to_owned).collect()
}

/// Returns functions from the root to the leaf. `None` is a gap. Leaves out samples with other
/// files.
fn stacks<'a>(script: &'a str, fixture: &str) -> Vec<Vec<Option<&'a str>>> {
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
                    Some(Some(if file.ends_with(fixture) { name } else { "" }))
                }
                None => line.contains(GAP).then_some(None),
            });
        let frames: Vec<Option<&str>> = frames.collect();
        (!frames.contains(&Some(""))).then_some(frames)
    });
    stacks.collect()
}

/// Counts samples with Python functions, and those with all functions. Fails on an impossible
/// caller.
fn judge(stacks: &[Vec<Option<&str>>], legal: &BTreeSet<String>) -> (u64, u64) {
    let (mut all, mut complete) = (0, 0);
    let never = legal.iter().filter_map(|pair| pair.split_once('!'));
    let never: Vec<(&str, &str)> = never.collect();
    for functions in stacks.iter().filter(|functions| !functions.is_empty()) {
        let first = [Some("*")].into_iter().chain(functions.iter().copied());
        for (caller, function) in first.zip(functions.iter().copied()) {
            if let (Some(caller), Some(function)) = (caller, function) {
                let pair = format!("{caller}>{function}");
                assert!(legal.contains(&pair), "{pair} in {functions:?}");
            }
        }
        for (function, caller) in &never {
            let at = |name: &str| functions.iter().position(|found| *found == Some(name));
            let is_caller = at(caller).zip(at(function)).is_some_and(|(a, b)| a < b);
            assert!(!is_caller, "{caller} calls {function} in {functions:?}");
        }
        all += 1;
        complete += u64::from(!functions.contains(&None));
    }
    (all, complete)
}

fn check_program(name: &str, least: f64) {
    let fixture = fixture(name);
    let legal = legal_pairs(&fixture);
    assert!(legal.len() > 30, "{legal:?}");
    measured(|| {
        let here = Here::new();
        let seconds = truth_seconds().map_or("4".to_owned(), |seconds| seconds.to_string());
        let record = here.rprof("record -q -e cpu-clock -F 999 -- /usr/bin/python3");
        record.arg(&fixture).arg(&seconds).ok();
        let script = here.rprof("script").ok();
        let (all, complete) = judge(&stacks(&script.out(), name), &legal);
        let share = complete as f64 / all as f64;
        println!("{name}: {all} samples, {complete} complete, 0 impossible");
        check(all > 300, || format!("{all} samples of Python functions"))?;
        check(share >= least, || {
            format!("{complete} of {all} samples are complete")
        })
    });
}

#[test]
fn functions_of_python_have_callers_that_they_can_have() {
    needs!(PerfEvents, X86_64, File("/usr/bin/python3"));
    check_program(
        "truth.py",
        truth_seconds().map_or(COMPLETE_WHEN_BUSY, |_| COMPLETE),
    );
}

#[test]
fn functions_of_python_whose_callers_swap_have_no_caller_of_another_call() {
    needs!(PerfEvents, X86_64, File("/usr/bin/python3"));
    check_program("swaps.py", COMPLETE_WITH_SWAPS);
}

/// Threads that sleep, each below a function of its own.
const SLEEPING: &str = r#"
import glob, queue, threading, time
lines = queue.Queue()
def in_queue(): lines.get()
def in_sleep(): time.sleep(600)
def a0(): in_queue()
def a1(): in_queue()
def a2(): in_queue()
def a3(): in_queue()
def b0(): in_sleep()
def b1(): in_sleep()
def b2(): in_sleep()
def b3(): in_sleep()
for function in (a0, a1, a2, a3, b0, b1, b2, b3):
    threading.Thread(target=function, daemon=True).start()
def state(task): return open(task).read().rsplit(")", 1)[1].split()[0]
while sum(state(task) == "S" for task in glob.glob("/proc/self/task/*/stat")) < 8:
    time.sleep(0.01)
print("ready", flush=True)
time.sleep(600)
"#;

#[test]
fn waits_of_threads_that_sleep_all_the_time_have_their_python_callers() {
    needs!(PerfEvents, X86_64, Root, File("/usr/bin/python3"));
    measured(|| {
        let here = Here::new();
        let program = here.path("sleeping.py");
        std::fs::write(&program, SLEEPING).expect("written");
        let mut sleeping = here.command("/usr/bin/python3").arg(&program).start();
        assert_eq!(sleeping.line(), "ready");
        let record = format!("record -q --off-cpu -p {} -- sleep 1", sleeping.pid());
        here.rprof(&record).ok();
        sleeping.signal(Signal::KILL);
        let script = here.rprof("script").ok().out();
        let waits: Vec<Vec<&str>> = script.split("\n\n").map(python_functions).collect();
        for (waiting, callers) in [
            ("in_queue", ["a0", "a1", "a2", "a3"]),
            ("in_sleep", ["b0", "b1", "b2", "b3"]),
        ] {
            for caller in callers {
                let with_caller = |wait: &&Vec<&str>| wait.contains(&caller);
                let found: Vec<&Vec<&str>> = waits.iter().filter(with_caller).collect();
                check(found.len() == 1, || format!("{caller} in {waits:?}"))?;
                let at = found[0]
                    .iter()
                    .position(|name| *name == caller)
                    .expect("found");
                assert_eq!(found[0].get(at + 1), Some(&waiting), "{found:?}");
                assert!(found[0][..at].ends_with(&["run"]), "{found:?}");
            }
        }
        Ok(())
    });
}

/// Returns the last parts of names and gaps, from the root to the leaf.
fn python_functions(sample: &str) -> Vec<&str> {
    let frames = sample
        .lines()
        .rev()
        .filter_map(|line| match line.split_once("py::") {
            Some((_, name)) => name.split(':').next()?.rsplit('.').next(),
            None => line.contains(GAP).then_some(GAP),
        });
    frames.collect()
}

/// Greenlets that begin on each other's native stack.
const GREENLETS: &str = r#"
import sys, time
from greenlet import greenlet
def spin(n):
    s = 0
    for i in range(n): s = (s * 31 + i) % 1000003
    return s
def leaf_a(n): return spin(n)
def leaf_b(n): return spin(n)
def hot_a(n): return leaf_a(n)
def hot_b(n): return leaf_b(n)
def run_a():
    while True:
        hot_a(1000)
        two.switch()
def run_b():
    while True:
        hot_b(1000)
        if time.process_time() > end: return
        one.switch()
end = time.process_time() + float(sys.argv[1])
one, two = greenlet(run_a), greenlet(run_b)
one.switch()
"#;

#[test]
fn functions_of_a_greenlet_have_no_caller_in_another_one() {
    let greenlet = "/usr/lib/python3/dist-packages/greenlet/__init__.py";
    needs!(PerfEvents, X86_64, File("/usr/bin/python3"), File(greenlet));
    measured(|| {
        let here = Here::new();
        let program = here.path("greenlets.py");
        std::fs::write(&program, GREENLETS).expect("written");
        let record = here.rprof("record -q -e cpu-clock -F 1999 -- /usr/bin/python3");
        record.arg(&program).arg("2").ok();
        let script = here.rprof("script").ok().out();
        let (mut all, mut complete) = (0, 0);
        for sample in script
            .split("\n\n")
            .filter(|sample| sample.contains("greenlets.py"))
        {
            let functions = python_functions(sample);
            let has = |names: [&str; 3]| names.iter().any(|name| functions.contains(name));
            let (a, b) = (["run_a", "hot_a", "leaf_a"], ["run_b", "hot_b", "leaf_b"]);
            assert!(!(has(a) && has(b)), "{functions:?}");
            if functions.last() == Some(&"spin") {
                all += 1;
                let whole = |names: [&str; 3]| functions.starts_with(&names);
                complete += u64::from(whole(a) || whole(b));
            }
        }
        println!("{all} samples in greenlets, {complete} complete");
        check(all > 300, || format!("{all} samples in greenlets"))?;
        check(complete as f64 >= all as f64 * COMPLETE_WHEN_BUSY, || {
            format!("{complete} of {all} samples are complete")
        })
    });
}

#[test]
fn recording_of_all_processes_has_python_functions_of_each_under_any_file_name() {
    needs!(PerfEvents, X86_64, Root, File("/usr/bin/python3"));
    let fixture = fixture("truth.py");
    let legal = legal_pairs(&fixture);
    measured(|| {
        let here = Here::new();
        // A program that contains Python, as cx_Freeze makes it.
        let bundle = here.path("bundle");
        std::fs::copy("/usr/bin/python3", &bundle).expect("copied");
        let program =
            |python: &Path| format!("{} {} 1.5 >out", python.display(), fixture.display());
        let python = program(Path::new("/usr/bin/python3"));
        let both = format!("{python} & {}; wait", program(&bundle));
        here.rprof("record -q -a -e cpu-clock -F 999 -- sh -c")
            .arg(&both)
            .ok();
        let script = here.rprof("script").ok().out();
        let mut programs = BTreeSet::new();
        for sample in script
            .split("\n\n")
            .filter(|sample| sample.contains("truth.py"))
        {
            programs.extend(sample.split_whitespace().nth(1));
        }
        let (all, _) = judge(&stacks(&script, "truth.py"), &legal);
        check(programs.len() >= 2 && all > 100, || {
            format!("{all} samples of {programs:?}")
        })
    });
}

//! `--runtimes`: runtimes write names without options from the user.

use std::path::PathBuf;

use rustix::process::Signal;

use super::java::ticks;
use crate::support::{
    Here, Need, Report, c, check, has, java, measured, needs, python_with_trampolines, wait_until,
};

const NODE: &str = "
function hot_loop(n) { let x = 0; for (let i = 0; i < n; i++) x ^= i * 7; return x; }
const end = process.cpuUsage().user + 1e6;
let x = 0;
while (process.cpuUsage().user < end) x ^= hot_loop(1e6);
console.log(x & 1);
";

const PYTHON: &str = "
import time
def inner_work(n):
    s = 0
    for i in range(n): s += i * i
    return s
def outer_work():
    end = time.process_time() + 0.6
    while time.process_time() < end: inner_work(1000)
outer_work()
";

const ERLANG: &str = "
-module(hot). -export([main/0, leaf/2, outer/1]).
leaf(0, S) -> S; leaf(N, S) -> leaf(N - 1, (S * 31 + N) rem 1000003).
outer(N) -> 1 + leaf(N, 1).
main() -> main(1).
main(S) ->
    {Used, _} = statistics(runtime),
    case Used > 1200 of true -> io:format(\"~p~n\", [S > 0]); false -> main(S + outer(100000)) end.
";

fn total(report: &Report, part: &str) -> f64 {
    let rows = report.only().rows.iter();
    let most = rows.filter(|row| row.symbol.contains(part));
    most.map(|row| row.total).max().unwrap_or(0) as f64 / report.only().weight as f64
}

fn check_names(report: &Report, function: &str, least: f64) -> Result<(), String> {
    let share = total(report, function);
    check(share > least, || format!("{share} in {function}"))?;
    let frames = &report.quality["frames"];
    let count = |key: &str| frames[key].as_f64().expect("a number");
    let known = (count("named") + count("located")) / count("total");
    check(known > 0.99, || format!("{known} of the frames: {frames}"))
}

fn remove_maps(said: &str) -> usize {
    let words = said.split(|c: char| c.is_whitespace() || c == ',' || c == ';');
    let is_map = |word: &&str| word.starts_with("/tmp/perf-") || word.starts_with("/tmp/jit-");
    let maps: Vec<&str> = words.filter(is_map).collect();
    maps.iter()
        .filter(|map| std::fs::remove_file(map).is_ok())
        .count()
}

#[test]
fn node_is_made_to_write_names() {
    needs!(PerfEvents, Node);
    measured(|| {
        let here = Here::new();
        std::fs::write(here.path("hot.js"), NODE).expect("written");
        let record = here.rprof("record --runtimes -F 999 -g -e cpu-clock -- node hot.js");
        let run = record.ok();
        run.says("NODE_OPTIONS=--perf-basic-prof --interpreted-frames-native-stack");
        run.says("runtimes wrote /tmp/perf-");
        run.says("-v8.log");
        assert!(remove_maps(&run.err()) > 0, "{run}");
        check_names(&here.report("--no-by-language"), "hot_loop", 0.6)?;
        // Without the option, nothing is set, and the recorder finds the function by itself.
        let run = here
            .rprof("record -F 999 -g -e cpu-clock -o without.data -- node hot.js")
            .ok();
        assert!(!run.err().contains("NODE_OPTIONS"), "{run}");
        let without = here.report("-i without.data");
        let share = total(&without, "hot_loop");
        check(share > 0.6, || format!("{share} in hot_loop without a map"))
    });
}

#[test]
fn node_options_of_the_user_are_kept() {
    needs!(PerfEvents, Node);
    let here = Here::new();
    let script = "console.log(process.env.NODE_OPTIONS, process.env.PYTHONPERFSUPPORT)";
    std::fs::write(here.path("env.js"), script).expect("written");
    let record = here.rprof("record --runtimes -- node env.js");
    let run = record
        .env("NODE_OPTIONS", "--max-old-space-size=512")
        .env("PYTHONPERFSUPPORT", "0")
        .ok();
    run.prints("--max-old-space-size=512 --perf-basic-prof --interpreted-frames-native-stack 0");
    run.says("NODE_OPTIONS with --perf-basic-prof");
    assert!(!run.err().contains("PYTHONPERFSUPPORT"), "{run}");
    remove_maps(&run.err());
}

#[test]
fn a_flame_graph_has_the_names_of_runtimes() {
    needs!(PerfEvents, Node);
    let here = Here::new();
    std::fs::write(here.path("hot.js"), NODE).expect("written");
    let run = here
        .rprof("flamegraph --runtimes -F 999 -- node hot.js")
        .ok();
    let svg = std::fs::read_to_string(here.path("flamegraph.svg")).expect("a picture");
    assert!(svg.contains("hot_loop"), "{run}");
    remove_maps(&run.err());
    here.rprof("flamegraph --runtimes")
        .exits(2)
        .says("--runtimes is for recording");
}

#[test]
fn python_is_made_to_write_names() {
    needs!(PerfEvents);
    let Some(python) = python_with_trampolines("perf") else {
        let _missing = has(Need::Tool("a Python from 3.12 on, with trampolines"));
        return;
    };
    measured(|| {
        let here = Here::new();
        std::fs::write(here.path("hot.py"), PYTHON).expect("written");
        let record = here.rprof("record --runtimes -F 999 -g -e cpu-clock --");
        let run = record.arg(&python).arg("hot.py").ok();
        run.says("PYTHONPERFSUPPORT=1");
        remove_maps(&run.err());
        check_names(&here.report("--no-by-language"), "py::inner_work", 0.5)
    });
}

#[test]
fn erlang_is_made_to_write_names() {
    needs!(PerfEvents, File("/usr/bin/erlc"));
    measured(|| {
        let here = Here::new();
        std::fs::write(here.path("hot.erl"), ERLANG).expect("written");
        here.command("erlc").arg("hot.erl").ok();
        let record = here.rprof("record --runtimes -F 999 -g -e cpu-clock -- erl -noshell -eval");
        let run = record.arg("hot:main(), halt(0).").ok();
        run.says("ERL_FLAGS=+JPperf true");
        remove_maps(&run.err());
        check_names(&here.report("--no-by-language"), "hot:leaf/2", 0.3)
    });
}

#[test]
fn java_is_made_to_write_names() {
    needs!(PerfEvents, Java);
    measured(|| {
        let here = Here::new();
        let record = here.rprof("record --runtimes -F 499 -g -e cpu-clock -- java -cp");
        let run = record.arg(java("Work.java")).words("Work 2").ok();
        run.says("-XX:+DumpPerfMapAtExit");
        assert!(remove_maps(&run.err()) > 0, "{run}");
        check_names(&here.report("--no-by-language"), "Work.words", 0.1)
    });
}

/// Returns the report's header lines about perf maps.
fn advice(report: &str) -> Vec<&str> {
    let lines = report.lines().filter(|line| line.starts_with('#'));
    lines.filter(|line| line.contains("/tmp/perf-")).collect()
}

#[test]
fn advice_on_generated_code_is_about_the_process_that_made_it() {
    needs!(PerfEvents, Node);
    let here = Here::new();
    std::fs::write(here.path("hot.js"), NODE).expect("written");
    let jit = c("jit.c").display().to_string();
    // Neither process has a map at the end.
    let record = |name: &str, script: &str| {
        let record = here
            .rprof("record --keep none -F 999 -e cpu-clock -o")
            .arg(name);
        record.words("-- sh -c").arg(script).ok();
        here.rprof("report -i").arg(name).ok()
    };
    let alone = record("jit.data", &format!("{jit} map 0.5"));
    assert!(!alone.out().contains("Make Node.js"), "{alone}");
    let beside = record("both.data", &format!("{jit} map 1 & node hot.js; wait"));
    let is_node = |line: &str| line.contains("Make Node.js");
    let out = beside.out();
    let [other] = advice(&out)[..] else {
        panic!("Node.js needs no map for its functions: {beside}");
    };
    assert!(!is_node(other), "{beside}");
    let frames = here.rprof("report --no-by-language -i both.data").ok();
    let out = frames.out();
    let [first, second] = advice(&out)[..] else {
        panic!("one line for each process: {frames}");
    };
    assert_ne!(is_node(first), is_node(second), "{frames}");
}

#[test]
fn node_that_runs_already_is_reported_as_too_late() {
    needs!(PerfEvents, Node);
    let here = Here::new();
    let script = "console.log('works'); setInterval(() => {}, 1000);";
    std::fs::write(here.path("idle.js"), script).expect("written");
    let mut node = here.command("node").words("idle.js").start();
    assert_eq!(node.line(), "works");
    let pid = node.pid().as_raw_nonzero().to_string();
    let record = here.rprof("record --runtimes -d 0.1 -e cpu-clock -p");
    let run = record.arg(&pid).ok();
    run.says(&format!("Node.js process {pid} writes no symbols"));
    run.says("--perf-basic-prof");
}

#[test]
fn java_process_that_runs_is_asked_after_sampling() {
    needs!(PerfEvents, Java);
    measured(|| {
        let here = Here::new();
        let command = here.command("java").arg("-cp").arg(java("Work.java"));
        let mut java = command.words("Work 300").start();
        assert_eq!(java.line(), "works");
        let pid = java.pid().as_raw_nonzero().to_string();
        let record = here.rprof("record --runtimes -F 499 -g -e cpu-clock -p");
        let record = record.arg(&pid).start();
        // The compilers have most of their work at the start.
        let begun = ticks(&pid);
        wait_until("Java works", || ticks(&pid) > begun + 250);
        record.signal(Signal::INT);
        let run = record.end();
        run.exits(0)
            .says(&format!("Java process {pid} wrote /tmp/perf-{pid}.map"));
        let map = PathBuf::from(format!("/tmp/perf-{pid}.map"));
        assert!(map.exists(), "{run}");
        std::fs::remove_file(map).expect("removed");
        drop(java);
        check_names(&here.report("--no-by-language"), "Work.words", 0.1)
    });
}

//! Java methods without flags, in a program with known callers.

use std::collections::{BTreeMap, BTreeSet};

use super::java::ticks;
use crate::support::{Folded, Here, Shell, check, folded, java, measured, needs, wait_until};

const PROGRAM: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../fixtures/runtimes/Edges.java"
);

/// Frame of a method that could not be read in time.
const UNNAMED: &str = "[Java function unnamed]";

/// Legal callers by method.
type Callers = BTreeMap<String, BTreeSet<String>>;

/// Appends the class path and the main class to a command of `java`.
fn edges(command: Shell) -> Shell {
    let command = command.arg("-cp").arg(java("runtimes/Edges.java"));
    command.arg("Edges")
}

fn callers(here: &Here) -> Callers {
    let json = edges(here.command("java")).arg("--edges").ok().out();
    serde_json::from_str(&json).expect("JSON")
}

/// Returns methods from the root on, and `None` for an unnamed one. The library's methods between
/// them call back.
fn methods(stack: &str) -> Vec<Option<&str>> {
    let frames = stack.split(';').filter_map(|frame| {
        let Some(method) = frame.strip_prefix("Java:Edges") else {
            return (frame == UNNAMED).then_some(None);
        };
        let (name, place) = method[1..].rsplit_once(' ')?;
        place.starts_with("Edges.java:").then_some(Some(name))
    });
    frames.collect()
}

fn check_edges(stacks: &Folded, callers: &Callers) -> Result<(), String> {
    let (mut edges, mut named, mut unnamed) = (0, 0, 0);
    for (stack, samples) in stacks {
        let count = |wanted: fn(&str) -> bool| stack.split(';').filter(|at| wanted(at)).count();
        named += samples * count(|frame| frame.starts_with("Java:")) as u64;
        unnamed += samples * count(|frame| frame == UNNAMED) as u64;
        for pair in methods(stack).windows(2) {
            let [Some(caller), Some(callee)] = *pair else {
                continue;
            };
            let legal = callers.get(callee);
            edges += samples;
            assert!(
                legal.is_some_and(|legal| legal.contains(caller)),
                "{caller} never calls {callee}: {stack}"
            );
        }
    }
    println!("{edges} edges, {named} named methods, {unnamed} unnamed, 0 impossible");
    check(edges > 1000, || format!("{edges} edges"))?;
    check(named * 100 >= (named + unnamed) * 95, || {
        format!("{unnamed} methods unnamed, {named} named")
    })
}

fn check_mode(options: &str) {
    needs!(PerfEvents, X86_64, Java);
    measured(|| {
        let here = Here::new();
        let record = here
            .rprof("record -q -e cpu-clock -F 999 -- java")
            .words(options);
        edges(record).arg("3").ok();
        let collapse = "collapse --no-by-language --weight samples";
        check_edges(&folded(&here.rprof(collapse).ok()), &callers(&here))
    });
}

#[test]
fn interpreted_methods_have_their_callers() {
    check_mode("-Xint");
}

#[test]
fn methods_compiled_by_c1_have_their_callers() {
    check_mode("-XX:TieredStopAtLevel=1");
}

#[test]
fn optimized_and_inlined_methods_have_their_callers() {
    check_mode("-XX:+UseSerialGC");
}

#[test]
fn running_java_process_is_shown_by_language() {
    needs!(PerfEvents, X86_64, Java);
    measured(|| {
        let here = Here::new();
        let java = edges(here.command("java")).arg("300").start();
        let pid = java.pid().as_raw_nonzero().to_string();
        let begun = ticks(&pid);
        wait_until("Java works", || ticks(&pid) > begun + 100);
        let record = here.rprof("record -q -e cpu-clock -F 499 -p");
        record.arg(&pid).words("-- sleep 2").ok();
        drop(java);
        let report = here.rprof("report --weight samples").ok().out();
        check(report.contains("by language"), || report.clone())?;
        let row = |name: &str| report.lines().any(|line| line.contains(name));
        check(row("Edges.leafA (Edges.java:"), || report.clone())?;
        let stacks = folded(&here.rprof("collapse --weight samples").ok());
        let own: Vec<_> = (stacks.iter())
            .filter(|(stack, _)| stack.contains("Edges.main (Edges.java:"))
            .collect();
        check(!own.is_empty(), || "no stacks of main".to_owned())?;
        let with_stub = own.iter().find(|(stack, _)| {
            stack.contains("Java stub") || stack.contains("JavaCalls::call_helper;[perf")
        });
        check(with_stub.is_none(), || format!("{with_stub:?}"))
    });
}

#[test]
fn methods_that_java_names_in_a_perf_map_are_not_named_twice() {
    needs!(PerfEvents, X86_64, Java);
    measured(|| {
        let here = Here::new();
        let flags = "-XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit";
        let record = here.rprof("record -q -e cpu-clock -F 499 -- java");
        edges(record.words(flags)).arg("3").ok();
        let stacks = folded(&here.rprof("collapse --weight samples").ok());
        let leaf = |stack: &str| stack.matches("Edges.leafA").count();
        let leaves: Vec<usize> = (stacks.keys().map(|stack| leaf(stack)))
            .filter(|count| *count > 0)
            .collect();
        check(!leaves.is_empty(), || format!("{stacks:?}"))?;
        assert!(leaves.iter().all(|count| *count == 1), "{stacks:?}");
        Ok(())
    });
}

#[test]
fn lines_are_those_of_the_stack_traces_of_java() {
    needs!(PerfEvents, X86_64, Java);
    measured(|| {
        let here = Here::new();
        let record = here.rprof("record -q -e cpu-clock -F 499 -- java");
        edges(record).arg("2").ok();
        let stacks = folded(&here.rprof("collapse --no-by-language").ok());
        let source = std::fs::read_to_string(PROGRAM).expect("the program");
        let mut seen = BTreeSet::new();
        for frame in stacks.keys().flat_map(|stack| stack.split(';')) {
            if let Some(rest) = frame.strip_prefix("Java:Edges.leaf")
                && let Some((name, place)) = rest.split_once(' ')
            {
                let line = place.strip_prefix("Edges.java:").expect("a line");
                let line: usize = line.parse().expect("a number");
                let text = source.lines().nth(line - 1).unwrap_or_default();
                assert!(
                    text.contains(&format!("int leaf{name}(")),
                    "{frame}: {text}"
                );
                seen.insert(name.to_owned());
            }
        }
        check(seen.len() >= 8, || format!("{seen:?}"))
    });
}

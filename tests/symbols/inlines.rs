//! Inlined calls, compared with perf, which shows them in stacks that it unwound itself.

use std::path::Path;

use crate::support::{Here, Language, Run, c_with, generated, needs, rust};

/// Returns functions from the leaf up to `main`, with inlined ones marked. Drops other stacks.
fn stacks(script: &Run) -> Vec<Option<Vec<(String, bool)>>> {
    let text = script.out();
    let samples = text
        .split("\n\n")
        .map(str::trim)
        .filter(|block| !block.is_empty());
    samples
        .map(|block| {
            let frames = block.lines().map(|line| {
                let name = line.trim().split_once(' ').map_or("", |(_, name)| name);
                match name.strip_suffix(" (inlined)") {
                    Some(name) => (name.to_owned(), true),
                    None => (name.to_owned(), false),
                }
            });
            let mut stack = Vec::new();
            for frame in frames {
                // perf names the C library's function by an alias, and 6.1 its PLT entry after the
                // symbol before it.
                if frame.0.contains("clock_gettime") || frame.0 == "_init" {
                    continue;
                }
                let is_main = frame.0 == "main" || frame.0.ends_with("::main");
                stack.push(frame);
                if is_main {
                    return Some(stack);
                }
            }
            None
        })
        .collect()
}

/// Prefixes of the program's own functions. Stacks with others are not compared: they depend on how
/// libraries were built, and perf uses binutils' addr2line for them.
type Own = [&'static str];

fn is_own(stack: &[(String, bool)], own: &Own) -> bool {
    let mut functions = stack.iter().filter(|(_, inlined)| !inlined);
    functions.all(|(name, _)| own.iter().any(|prefix| name.starts_with(prefix)))
}

fn compare(program: &Path, own: &Own) {
    let here = Here::new();
    let record = here.perf("record -q -e cpu-clock:u -F 499 --call-graph dwarf,16384 --");
    record.arg(program).arg("0.2").ok();
    let theirs = stacks(&here.perf("script -F ip,sym --inline").ok());
    let ours = stacks(&here.rprof("script -F ip,sym").ok());
    let name = program.display();
    assert_eq!(ours.len(), theirs.len(), "{name}");
    let both = ours.iter().zip(&theirs);
    let (mut inlined, mut compared, mut others) = (0, 0, Vec::new());
    for (ours, theirs) in both.filter_map(|(ours, theirs)| ours.as_ref().zip(theirs.as_ref())) {
        if !is_own(ours, own) && !is_own(theirs, own) {
            continue;
        }
        if ours != theirs {
            others.push((ours, theirs));
        }
        inlined += ours.iter().filter(|(_, inlined)| *inlined).count();
        compared += 1;
    }
    println!(
        "{name}: {compared} of {} stacks, {inlined} inlined calls",
        ours.len()
    );
    // addr2line is wrong for a few addresses.
    assert!(others.len() * 50 <= compared, "{name}: {others:#?}");
    assert!(
        compared * 10 > ours.len() * 9,
        "{name}: {compared} of {}",
        ours.len()
    );
    assert!(
        inlined * 2 > compared,
        "{name}: {inlined} calls in {compared} stacks"
    );
}

const HIDES: &str = "
//! hides SECONDS: one function, into which another is inlined.
use std::hint::black_box;
use std::time::{Duration, Instant};

#[inline(always)]
fn inner(x: u64) -> u64 {
    (0..100_000u64).fold(x, |x, i| black_box(x ^ i))
}

#[inline(never)]
pub fn hot(x: u64) -> u64 {
    inner(x) ^ inner(x + 1)
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let (begin, mut x) = (Instant::now(), 0);
    while begin.elapsed() < Duration::from_secs_f64(seconds) {
        x = black_box(hot(x));
    }
}
";

#[test]
fn inlined_calls_that_are_hidden_are_told_of_in_rust() {
    needs!(PerfEvents);
    let here = Here::new();
    let flags = ["-Copt-level=2", "-Cstrip=debuginfo"];
    let release = generated("hides", HIDES, Language::Rust, &flags);
    here.record("-F 999 -e cpu-clock:u", &release, "0.5");
    let report = here.rprof("report").ok();
    report
        .prints("inlined calls are hidden in hides::hot, ")
        .prints("`debug = 1`");
    let flags = ["-Copt-level=2", "-Cdebuginfo=line-tables-only"];
    let with_lines = generated("hides", HIDES, Language::Rust, &flags);
    here.record("-F 999 -e cpu-clock:u", &with_lines, "0.5");
    let report = here.rprof("report").ok();
    assert!(!report.out().contains("are hidden"), "{report}");
    // Names in line tables have no path.
    report.prints("inner");
    here.record("-F 999 -e cpu-clock:u", &c_with("shares.c", &[]), "0.2");
    let report = here.rprof("report").ok();
    assert!(!report.out().contains("are hidden"), "{report}");
}

#[test]
fn inlined_calls_are_those_of_perf() {
    needs!(PerfEvents, Perf);
    let own = ["main", "do_round", "burn_", "cpu_seconds"];
    compare(&c_with("shares.c", &["-g"]), &own);
    // No C++: binutils' addr2line, which perf uses, lacks inner calls of clones (`f.isra.0`), and
    // of much code of Clang. docs/design/0003-cold-symbols.md has the classes. crates/symbols
    // compares with LLVM and elfutils.
    let own = ["names::", "<names::"];
    let flags = ["-g", "-Csymbol-mangling-version=v0"];
    compare(&rust("names.rs", &flags), &own);
}

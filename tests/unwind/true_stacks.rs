//! Programs with known stacks, without frame pointers: every complete stack must be right.
//!
//! `RPROF_TRUTH_SECONDS=60 cargo test truth -- --nocapture` runs longer, at the maximum frequency,
//! and prints the counts.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::{CallTree, Here, Language, folded, generated, needs, truth_seconds};

pub(super) struct Variant {
    name: &'static str,
    language: Language,
    flags: &'static [&'static str],
    depth: usize,
}

const fn c(name: &'static str, depth: usize, flags: &'static [&'static str]) -> Variant {
    Variant {
        name,
        language: Language::C,
        flags,
        depth,
    }
}

const fn cxx(name: &'static str, depth: usize, flags: &'static [&'static str]) -> Variant {
    Variant {
        name,
        language: Language::Cxx,
        flags,
        depth,
    }
}

const fn rust(name: &'static str, depth: usize, flags: &'static [&'static str]) -> Variant {
    Variant {
        name,
        language: Language::Rust,
        flags,
        depth,
    }
}

/// Programs of every run.
const FEW: [Variant; 4] = [
    c("C -O2", 40, &["-O2", "-fomit-frame-pointer"]),
    c("C -O3, deep", 400, &["-O3", "-fomit-frame-pointer"]),
    cxx("C++ -O2", 60, &["-O2", "-fomit-frame-pointer"]),
    rust(
        "Rust -O",
        60,
        &["-Copt-level=3", "-Cforce-frame-pointers=no"],
    ),
];

/// Additional programs of a long run.
const MORE: [Variant; 15] = [
    c("C -O0", 60, &["-O0", "-fomit-frame-pointer"]),
    c("C -O1", 60, &["-O1", "-fomit-frame-pointer"]),
    c("C -Os", 60, &["-Os", "-fomit-frame-pointer"]),
    c(
        "C -O2, frame pointers",
        60,
        &["-O2", "-fno-omit-frame-pointer"],
    ),
    c(
        "C -O2, no PIE",
        60,
        &["-O2", "-fomit-frame-pointer", "-no-pie"],
    ),
    c(
        "C -O2, static",
        60,
        &["-O2", "-fomit-frame-pointer", "-static"],
    ),
    c(
        "C -O2, static PIE",
        60,
        &["-O2", "-fomit-frame-pointer", "-static-pie"],
    ),
    c("C -O2, LTO", 60, &["-O2", "-fomit-frame-pointer", "-flto"]),
    c(
        "C -O2, stripped",
        60,
        &["-O2", "-fomit-frame-pointer", "-g"],
    ),
    c(
        "C -O2, .debug_frame",
        60,
        &[
            "-O2",
            "-fomit-frame-pointer",
            "-g",
            "-fno-asynchronous-unwind-tables",
        ],
    ),
    c(
        "C -O2, .debug_frame, compressed",
        60,
        &[
            "-O2",
            "-fomit-frame-pointer",
            "-g",
            "-fno-asynchronous-unwind-tables",
            "-gz",
        ],
    ),
    c(
        "C -O2, no .eh_frame_hdr",
        60,
        &["-O2", "-fomit-frame-pointer", "-Wl,--no-eh-frame-hdr"],
    ),
    cxx("C++ -O0", 60, &["-O0", "-fomit-frame-pointer"]),
    cxx(
        "C++ -O3, LTO",
        400,
        &["-O3", "-fomit-frame-pointer", "-flto"],
    ),
    rust(
        "Rust, not optimized",
        60,
        &["-Copt-level=0", "-Cforce-frame-pointers=no"],
    ),
];

/// Returns 32-bit programs, of which the first three run always.
pub(super) const fn i386() -> [Variant; 6] {
    const OMITTED: &str = "-fomit-frame-pointer";
    [
        c("i386 -O2", 40, &["-m32", "-O2", OMITTED]),
        c("i386 -O3, deep", 400, &["-m32", "-O3", OMITTED]),
        c(
            "i386 -O2, frame pointers",
            60,
            &[
                "-m32",
                "-O2",
                "-fno-omit-frame-pointer",
                "-fno-asynchronous-unwind-tables",
            ],
        ),
        c("i386 -O0", 60, &["-m32", "-O0"]),
        c("i386 -O2, static", 60, &["-m32", "-O2", OMITTED, "-static"]),
        c(
            "i386 -O2, no PIE",
            60,
            &["-m32", "-O2", OMITTED, "-no-pie", "-fno-pie"],
        ),
    ]
}

#[derive(Debug, Default)]
struct Counts {
    samples: u64,
    right: u64,
    wrong: BTreeMap<String, u64>,
    outside: BTreeMap<&'static str, u64>,
    truncated: u64,
    landing: u64,
}

/// An exception is on its way to its handler. libgcc has overwritten its return address
/// (`__builtin_eh_return`), which no unwinding information describes.
fn is_landing(frames: &[&str]) -> bool {
    let mut pairs = frames.windows(2);
    pairs.any(|pair| pair[0].starts_with("n_") && pair[1].starts_with("_Unwind_"))
}

fn elsewhere(frames: &[&str]) -> &'static str {
    match frames.first() {
        // An unnamed frame may be in the tree.
        _ if frames.contains(&"[unknown]") => UNNAMED,
        _ if frames
            .iter()
            .any(|name| *name == "main" || name.ends_with("::main")) =>
        {
            LOOP
        }
        Some(&"_start" | &"_dl_start") => "startup",
        // In exec and exit a program has no stack.
        _ => "kernel",
    }
}

/// The loop that chooses a function, or its clock.
const LOOP: &str = "loop";

const UNNAMED: &str = "unnamed";

fn run(here: &Here, tree: &CallTree, program: &Path, options: &str, seconds: &str) -> Counts {
    let shell = here
        .rprof("record -q -g")
        .words(options)
        .arg("--")
        .arg(program);
    shell.words(seconds).ok();
    let mut counts = Counts::default();
    for (stack, samples) in folded(&here.rprof("collapse --weight samples").ok()) {
        counts.samples += samples;
        let is_complete = ["_start", "__libc_start_main", "__libc_start_call_main"];
        let frames: Vec<&str> = stack.split(';').skip(1).collect();
        let begins = frames.iter().take(3).any(|f| is_complete.contains(f));
        if !begins && frames.iter().any(|f| f.starts_with("n_")) {
            counts.truncated += samples;
            continue;
        }
        if is_landing(&frames) {
            counts.landing += samples;
            continue;
        }
        match tree.is_right(frames.iter().copied()) {
            Some(true) => counts.right += samples,
            Some(false) => *counts.wrong.entry(stack).or_default() += samples,
            None => *counts.outside.entry(elsewhere(&frames)).or_default() += samples,
        }
    }
    counts
}

fn check(variant: &Variant, options: &str, seconds: &str) {
    let here = Here::new();
    let tree = CallTree::new(functions(variant.depth), variant.depth);
    let source = tree.source(variant.language);
    let program = generated("tree", &source, variant.language, variant.flags);
    let counts = run(&here, &tree, &program, options, seconds);
    println!(
        "{:32} {:8} samples {:8} right {:3} wrong {:4} truncated {:4} landing, outside {:?}",
        variant.name,
        counts.samples,
        counts.right,
        counts.wrong.values().sum::<u64>(),
        counts.truncated,
        counts.landing,
        counts.outside
    );
    assert!(
        counts.wrong.is_empty(),
        "{}: {:#?}",
        variant.name,
        counts.wrong
    );
    assert!(counts.right > 0, "{}: {counts:?}", variant.name);
    let outside = |place| counts.outside.get(place).copied().unwrap_or(0);
    // At high frequencies the kernel has more work.
    assert!(
        counts.right + counts.truncated > outside(LOOP),
        "{}: {counts:?}",
        variant.name
    );
    assert!(
        outside(UNNAMED) * 100 <= counts.samples,
        "{}: {counts:?}",
        variant.name
    );
}

fn effort() -> (&'static str, String) {
    match truth_seconds() {
        Some(seconds) => ("-F max", format!("{seconds} 500")),
        None => ("-F 4999", "0.4 500".into()),
    }
}

/// A compiler takes half a minute for a large program, and 3 s for 200 functions.
fn functions(depth: usize) -> usize {
    match truth_seconds() {
        Some(_) => 1500,
        // A deep stack needs more functions.
        None if depth > 100 => 400,
        None => 200,
    }
}

pub(super) fn check_tree(variant: &Variant) {
    let (options, seconds) = effort();
    check(variant, options, &seconds);
}

#[test]
fn every_complete_stack_is_the_true_one() {
    needs!(PerfEvents, Cxx);
    let long = truth_seconds();
    let (options, seconds) = effort();
    for variant in &FEW {
        check(variant, options, &seconds);
    }
    if long.is_some() {
        for variant in &MORE {
            check(variant, options, &seconds);
        }
    }
}

//! Stacks that no copy reaches across, and what the process's memory tells of them.

use crate::support::{Here, c_with, check, folded, measured, needs};

/// Complete stacks with the right way, with the wrong one, and those cut short.
#[derive(Debug, Default)]
struct Counts {
    right: u64,
    wrong: u64,
    short: u64,
}

fn record(options: &str, args: &str) -> Counts {
    let here = Here::new();
    let program = c_with("ways.c", &["-O2", "-fomit-frame-pointer"]);
    here.record(&format!("-e cpu-clock:u {options} -g"), &program, args);
    let mut counts = Counts::default();
    for (stack, samples) in folded(&here.rprof("collapse --weight samples").ok()) {
        let frames: Vec<&str> = stack.split(';').collect();
        let has = |name: &str| frames.contains(&name);
        // Elsewhere it is not for long.
        if !has("wide") || !(has("leaf_a") || has("leaf_b")) {
            continue;
        }
        let (a, b) = (has("way_a"), has("way_b"));
        match has("main") {
            false => counts.short += samples,
            true if a != b && a == has("leaf_a") && b == has("leaf_b") => counts.right += samples,
            true => counts.wrong += samples,
        }
    }
    println!("{options}, ways {args}: {counts:?}");
    counts
}

#[test]
fn are_complete_where_they_stay() {
    needs!(PerfEvents);
    measured(|| {
        let counts = record("-F 999", "1 0 0");
        assert_eq!(counts.wrong, 0);
        // The first of them, and the last; and, on a busy machine, those before and after a time in
        // which nobody came to look.
        check(counts.right > counts.short * 20, || format!("{counts:?}"))
    });
}

#[test]
fn are_cut_where_copies_are_small() {
    needs!(PerfEvents);
    // A ring like this has no room for large ones, and what changes fast lies outside of them.
    let counts = record("-F 999 -m 256K", "1 0 0");
    assert_eq!(counts.wrong + counts.right, 0);
    assert!(counts.short > 0);
}

#[test]
fn are_cut_where_the_way_cannot_be_known() {
    needs!(PerfEvents);
    for hertz in ["-F 999", "-F 9999"] {
        // Faster than samples come, as fast, and slower than memory is read.
        for args in ["1 20 400", "1 300 3000", "2 4000 60000"] {
            let counts = record(hertz, args);
            assert!(
                counts.wrong * 200 <= counts.right + counts.short,
                "{counts:?}"
            );
        }
    }
}

/// Walks in a tree of calls, whose leaves say how they were reached.
fn walk(hertz: u32, args: &str) -> Counts {
    let here = Here::new();
    let program = c_with("paths.c", &["-O2", "-fomit-frame-pointer"]);
    let options = format!("-e cpu-clock:u -F {hertz} -g");
    here.record(&options, &program, args);
    let mut counts = Counts::default();
    for (stack, samples) in folded(&here.rprof("collapse --weight samples").ok()) {
        let frames: Vec<&str> = stack.split(';').collect();
        if !frames.contains(&"stay") {
            continue;
        }
        let went = (frames.iter()).filter(|name| ["left", "right"].contains(name));
        let said = frames.iter().filter_map(|name| name.strip_prefix("was_"));
        match frames.contains(&"main") {
            false => counts.short += samples,
            true if went.copied().eq(said) => counts.right += samples,
            true => counts.wrong += samples,
        }
    }
    println!("{hertz} Hz, paths {args}: {counts:?}");
    counts
}

#[test]
fn are_joined_to_no_stack_but_their_own() {
    needs!(PerfEvents);
    for hertz in [999, 4999, 9_999] {
        // Just deeper than a copy, so that some reach the root; and much deeper.
        for args in [
            "1 11 100 1000",
            "1 20 100 1000",
            "1 21 1000 10000",
            "1 60 5000 50000",
        ] {
            let counts = walk(hertz, args);
            assert!(counts.right + counts.short > 0, "{counts:?}");
            assert!(
                counts.wrong * 1000 <= counts.right + counts.short,
                "{counts:?}"
            );
        }
    }
    // These copies reach it.
    let counts = walk(999, "1 8 100 1000");
    assert_eq!((counts.wrong, counts.short), (0, 0));
}

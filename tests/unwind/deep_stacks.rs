//! Stacks deeper than their dumps. While recording, the process's memory may complete them.

use crate::support::{Here, c, c_with, check, folded, measured, needs};

#[derive(Debug, Default)]
struct Counts {
    right: u64,
    wrong: u64,
    short: u64,
}

impl Counts {
    /// Allows one wrong stack in fifty: a busy machine may miss a caller between two observations.
    /// Guessing would be wrong in at least ten.
    fn assert_right(&self) {
        assert!(self.wrong * 50 <= self.right + self.short, "{self:?}");
    }
}

fn record(options: &str, args: &str) -> Counts {
    let here = Here::new();
    let program = c_with("ways.c", &["-O2", "-fomit-frame-pointer"]);
    here.record(&format!("-e cpu-clock:u {options} -g"), &program, args);
    let counts = count_ways(&here);
    println!("{options}, ways {args}: {counts:?}");
    counts
}

/// Counts stacks by whether the path matches the leaf.
fn count_ways(here: &Here) -> Counts {
    let mut counts = Counts::default();
    for (stack, samples) in folded(&here.rprof("collapse --weight samples").ok()) {
        let frames: Vec<&str> = stack.split(';').collect();
        let has = |name: &str| frames.contains(&name);
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
    counts
}

#[test]
fn are_complete_where_they_stay() {
    needs!(PerfEvents);
    measured(|| {
        let counts = record("-F 999", "1 0 0");
        counts.assert_right();
        // The first and last stack are truncated, and on a busy machine those around a gap in the
        // observations.
        check(counts.right > counts.short * 20, || format!("{counts:?}"))
    });
}

#[test]
fn are_cut_where_copies_are_small() {
    needs!(PerfEvents);
    // Such a ring buffer has no room for large dumps, and the changing frames are outside of the
    // small ones.
    let counts = record("-F 999 -m 256K", "1 0 0");
    assert_eq!(counts.wrong + counts.right, 0);
    assert!(counts.short > 0);
}

#[test]
fn are_cut_where_the_way_cannot_be_known() {
    needs!(PerfEvents);
    for (hertz, seconds) in [("-F 999", 1.0), ("-F 9999", 0.4)] {
        // Paths change faster than samples, as fast, and slower than memory is read.
        for (times, ways) in [(1.0, "20 400"), (1.0, "300 3000"), (2.0, "4000 60000")] {
            let args = format!("{} {ways}", seconds * times);
            let counts = record(hertz, &args);
            counts.assert_right();
            assert!(counts.right + counts.short > 0, "no stacks");
        }
    }
}

/// Records random walks, whose leaf names encode the path.
fn walk(hertz: u32, args: &str) -> Counts {
    let here = Here::new();
    let program = c_with("paths.c", &["-O2", "-fomit-frame-pointer"]);
    let options = format!("-e cpu-clock:u -F {hertz} -g");
    here.record(&options, &program, args);
    let counts = count_paths(&here);
    println!("{hertz} Hz, paths {args}: {counts:?}");
    counts
}

fn count_paths(here: &Here) -> Counts {
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
    counts
}

#[test]
fn are_joined_to_no_stack_but_their_own() {
    needs!(PerfEvents);
    for (hertz, seconds) in [(999, 0.8), (9_999, 0.2)] {
        // Some reach the root.
        for path in [
            "11 100 1000",
            "20 100 1000",
            "21 1000 10000",
            "60 5000 50000",
        ] {
            let args = format!("{seconds} {path}");
            let counts = walk(hertz, &args);
            assert!(counts.right + counts.short > 0, "{counts:?}");
            counts.assert_right();
        }
    }
    let counts = walk(999, "1 8 100 1000");
    assert_eq!((counts.wrong, counts.short), (0, 0));
}

#[test]
fn stacks_unwound_on_reading_are_joined_to_no_others() {
    needs!(Perf, PerfEvents);
    let flags = ["-O2", "-fomit-frame-pointer"];
    // Dump size, program, arguments, whether dumps may reach the root.
    for (copy, program, args, may_reach) in [
        (65_528, "ways.c", "0.2 0 0", false),
        (65_528, "ways.c", "0.2 300 3000", false),
        // rprof once joined others to those that just reach the root, a third of them wrongly.
        (32_768, "paths.c", "0.2 11 100 1000", true),
        (8_192, "paths.c", "0.2 20 100 1000", false),
        (65_528, "paths.c", "0.2 20 100 1000", true),
        (65_528, "paths.c", "0.3 60 5000 50000", false),
    ] {
        let here = Here::new();
        let built = c_with(program, &flags);
        let options = format!("-F 4999 -e cpu-clock:u --call-graph dwarf,{copy}");
        here.perf_record(&options, &built, args);
        let counts = match program {
            "ways.c" => count_ways(&here),
            _ => count_paths(&here),
        };
        println!("{copy} bytes, {program} {args}: {counts:?}");
        assert_eq!(
            counts.wrong, 0,
            "{copy} bytes, {program} {args}: {counts:?}"
        );
        assert!(counts.right + counts.short > 100, "few stacks: {counts:?}");
        assert!(may_reach || counts.right == 0, "guessed: {counts:?}");
        let report = here.rprof("report --format json").ok();
        let report: serde_json::Value = serde_json::from_slice(report.bytes()).expect("JSON");
        let count = |key: &str| report["quality"]["stacks"][key].as_u64().expect("a count");
        let (complete, total) = (count("complete"), count("total"));
        assert!(count("truncated") >= counts.short, "{report:#}");
        assert!(
            complete + counts.short <= total,
            "{complete} of {total}, {counts:?}"
        );
    }
}

#[test]
fn recursion_beyond_what_a_record_holds_is_said_to_be_that() {
    needs!(PerfEvents);
    measured(|| {
        let here = Here::new();
        let record = here.rprof("record -e cpu-clock:u -F 999 -g --");
        let recorded = record.arg(c("recursion.c")).words("20000 0.5").ok();
        let is_said = recorded
            .err()
            .contains("more frames than a record can hold");
        check(is_said, || recorded.err())
    });
}

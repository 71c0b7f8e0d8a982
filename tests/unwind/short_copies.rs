//! Stack dumps that end early although the stack is not deep: at an untouched page, or at the end
//! of an alternate signal stack. The process's memory provides the rest.

use super::paths::{Counts, count};
use crate::support::{Here, Need, c_with, check, folded, has, measured, needs, truth_seconds};

fn holes(program: &std::path::Path, options: &str, args: &str) -> Counts {
    let here = Here::new();
    here.record(&format!("-e cpu-clock:u {options} -g"), program, args);
    let parts = ["outer_", "middle_", "inner_", "leaf_"];
    let counts = count(
        &folded(&here.rprof("collapse --weight samples").ok()),
        "leaf_",
        |name| parts.iter().any(|part| name.starts_with(part)),
        |path| parts.iter().map(|part| format!("{part}{path}")).collect(),
    );
    println!("{options}, holes {args}: {counts:?}");
    counts
}

const BUILDS: [&[&str]; 4] = [
    &["-O0", "-fomit-frame-pointer"],
    &["-O2", "-fomit-frame-pointer"],
    &["-O2", "-fno-omit-frame-pointer"],
    &["-O0", "-fno-omit-frame-pointer"],
];

#[test]
fn frames_that_are_used_at_their_beginning_only_are_crossed() {
    needs!(PerfEvents);
    for flags in BUILDS {
        let program = c_with("holes.c", flags);
        // Three frames of 16 KiB, and one with 200 KiB, which exceeds every dump.
        for path in [3, 6] {
            measured(|| {
                let counts = holes(&program, "-F 1999", &format!("0.5 0 0 {path}"));
                assert_eq!(counts.wrong, 0, "{flags:?}");
                counts.mostly_right()
            });
        }
    }
}

#[test]
fn callers_that_change_are_not_mixed_up() {
    needs!(PerfEvents);
    for flags in BUILDS {
        let program = c_with("holes.c", flags);
        for (options, seconds, args) in [
            ("-F 999", 0.6, "50 300"),
            ("-F 4999", 0.3, "300 3000"),
            ("-F 1999", 0.5, "3000 30000"),
        ] {
            let args = &format!("{} {args}", truth_seconds().unwrap_or(seconds));
            let counts = holes(&program, options, args);
            assert_eq!(counts.wrong, 0, "{flags:?} {options} {args}");
            assert!(counts.right > 0, "{flags:?} {options} {args}: {counts:?}");
        }
    }
}

/// The long path leaves its return addresses in memory, below an array of 200 KiB.
#[test]
fn what_a_long_path_leaves_in_place_is_not_believed() {
    needs!(PerfEvents);
    for flags in BUILDS {
        let program = c_with("holes.c", flags);
        for (short, long) in [("300", "5000"), ("1500", "6000"), ("2500", "2500")] {
            let seconds = truth_seconds().unwrap_or(0.5);
            let args = format!("{seconds} turns 0 {short} 6 {long}");
            let counts = holes(&program, "-F 4999", &args);
            assert_eq!(counts.wrong, 0, "{flags:?} {args}");
            assert!(counts.right + counts.short > 0, "{flags:?} {args}");
        }
    }
}

#[test]
fn clang_makes_no_difference() {
    needs!(PerfEvents);
    if !has(Need::Tool("clang")) {
        return;
    }
    let here = Here::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/holes.c");
    let clang = here
        .command("clang")
        .words("-O2 -fomit-frame-pointer -o program");
    clang.arg(source).ok();
    let program = here.path("program");
    measured(|| {
        let counts = holes(&program, "-F 999", "1 0 0 3");
        assert_eq!(counts.wrong, 0);
        counts.mostly_right()
    });
    assert_eq!(holes(&program, "-F 999", "1 50 300").wrong, 0);
}

/// The handler calls a function named after the interrupted one.
fn handlers(flags: &[&str], place: &str) -> Counts {
    let here = Here::new();
    let program = c_with("altstack.c", flags);
    here.record(
        "-e cpu-clock:u -F 1999 -g",
        &program,
        &format!("0.5 {place}"),
    );
    let parts = ["way_", "inner_", "leaf_"];
    let counts = count(
        &folded(&here.rprof("collapse --weight samples").ok()),
        "during_",
        |name| parts.iter().any(|part| name.starts_with(part)),
        |path| parts.iter().map(|part| format!("{part}{path}")).collect(),
    );
    println!("{flags:?}, altstack {place}: {counts:?}");
    counts
}

#[test]
fn what_a_handler_interrupted_is_below_it() {
    needs!(PerfEvents);
    for flags in [
        &["-O2", "-fomit-frame-pointer"],
        &["-O0", "-fomit-frame-pointer"],
    ] {
        for place in ["heap", "static", "map", "before", "after"] {
            measured(|| {
                let counts = handlers(flags, place);
                assert_eq!(counts.wrong, 0, "{flags:?} {place}");
                check(counts.right > counts.short, || {
                    format!("{place}: {counts:?}")
                })
            });
        }
    }
}

#[test]
fn a_trampoline_has_its_name() {
    needs!(PerfEvents);
    let here = Here::new();
    let program = c_with("altstack.c", &["-O2", "-fomit-frame-pointer"]);
    here.record("-e cpu-clock:u -F 999 -g", &program, "0.5 map");
    let mut handled = 0;
    for (stack, _) in folded(&here.rprof("collapse").ok()) {
        let frames: Vec<&str> = stack.split(';').collect();
        if let Some(at) = frames.iter().position(|name| *name == "handle") {
            handled += 1;
            assert_eq!(frames[at - 1], "__restore_rt", "{stack}");
        }
    }
    assert!(handled > 0);
}

//! The listing for people.

use super::{annotated, annotated_again};
use crate::support::{Here, c_with, needs};

#[test]
fn the_hottest_functions_are_shown_with_source_loops_and_skid() {
    needs!(PerfEvents);
    let here = Here::new();
    let program = c_with("shares.c", &["-g"]);
    here.record("-F 999 -g -e cpu-clock:u", &program, "0.3");
    let run = here
        .rprof("annotate --source-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures"))
        .ok();
    run.prints("# event cpu-clock:u: ")
        .prints("a clock took the samples")
        .prints("hottest loop: ")
        .prints("hottest lines: ")
        .prints("burn.h:");
    assert!(!run.out().contains('\x1b'), "{run}");
    let source = here
        .rprof("annotate --show source burn_seventy --source-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures"))
        .ok();
    source.prints("burn_until(until, 70)");
    assert!(!source.out().contains("ret"), "{source}");
    let asm = here.rprof("annotate --by asm burn_seventy --all").ok();
    asm.prints("ret");
    assert!(!asm.out().contains("burn_until(until, 70)"), "{asm}");
    let color = here.rprof("annotate --color always").ok();
    assert!(color.out().contains("\x1b["), "{color}");
}

#[test]
fn inlined_code_counts_at_its_call_or_where_it_is_written() {
    needs!(PerfEvents);
    let here = Here::new();
    let program = c_with("shares.c", &["-g"]);
    let files = |found: &super::Annotated| -> Vec<String> {
        let lines = found.0[0]["lines"].as_array().expect("lines").iter();
        let hot = lines.filter(|line| line["self"].as_u64() > Some(0));
        let file = |line: &serde_json::Value| line["file"].as_str().expect("a file").to_owned();
        hot.map(file).collect()
    };
    let at_call = annotated(&here, &program, "burn_seventy");
    assert!(
        files(&at_call)
            .iter()
            .all(|file| file.ends_with("shares.c")),
        "{:?}",
        files(&at_call)
    );
    let written = annotated_again(&here, &program, "burn_seventy --inlined definition");
    assert!(
        files(&written).iter().any(|file| file.ends_with("burn.h")),
        "{:?}",
        files(&written)
    );
    // A function that is inlined everywhere is found in its callers.
    let inlined = annotated_again(&here, &program, "burn_until");
    assert_eq!(inlined.0[0]["inlined_everywhere"], true);
    assert!(inlined.parts().count() >= 2, "in several functions");
}

#[test]
fn unknown_functions_are_told_with_near_names() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record(
        "-F 999 -g -e cpu-clock:u",
        &c_with("shares.c", &["-g"]),
        "0.2",
    );
    here.rprof("annotate burn_seventi")
        .exits(1)
        .says("burn_seventy");
    here.rprof("annotate --comm nobody")
        .exits(1)
        .says("no sample");
}

#[test]
fn code_without_symbols_is_shown_by_its_address() {
    needs!(PerfEvents);
    let here = Here::new();
    let program = c_with("shares.c", &["-s"]);
    let found = annotated(&here, &program, "");
    let name = found.0[0]["symbol"].as_str().expect("a name").to_owned();
    assert!(name.starts_with("shares+0x"), "{name}");
    let again = annotated_again(&here, &program, &name);
    assert_eq!(again.0[0]["symbol"].as_str(), Some(&*name));
    assert_eq!(again.0.len(), 1);
}

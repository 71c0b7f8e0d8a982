//! Functions of assembly, and programs without a C library.

use super::paths::{Counts, count};
use crate::support::{Folded, Here, Language, c_with, check, folded, generated, measured, needs};

const PARTS: [&str; 3] = ["outer_", "middle_", "leaf_"];

fn shape(stacks: &Folded, shape: &str) -> Counts {
    count(
        stacks,
        &format!("leaf_{shape}"),
        |name| PARTS.iter().any(|part| name.starts_with(part)),
        |_| PARTS.iter().map(|part| format!("{part}{shape}")).collect(),
    )
}

/// The frame pointer is the caller's, which would be skipped.
#[test]
fn callers_of_assembly_are_not_skipped() {
    needs!(PerfEvents, X86_64);
    for flags in [
        &["-O2", "-fno-omit-frame-pointer"],
        &["-O2", "-fomit-frame-pointer"],
        &["-O0", "-fno-omit-frame-pointer"],
    ] {
        let program = c_with("assembly.c", flags);
        measured(|| {
            let here = Here::new();
            here.record("-e cpu-clock:u -F 4999 -g", &program, "1.6");
            let stacks = folded(&here.rprof("collapse --weight samples").ok());
            for name in [
                "straight",
                "pushes",
                "later",
                "computed",
                "table",
                "naked",
                "calls",
                "handler",
                "tail",
                "register",
                "redzone",
                "half",
                "pushed",
                "overwritten",
                "epilogue",
                "trap",
            ] {
                let counts = shape(&stacks, name);
                println!("{flags:?}, {name}: {counts:?}");
                assert_eq!(counts.wrong, 0, "{flags:?} {name}");
                check(counts.right > 50, || format!("{name}: {counts:?}"))?;
                counts
                    .mostly_right()
                    .map_err(|error| format!("{name}: {error}"))?;
            }
            let counts = shape(&stacks, "unknown");
            println!("{flags:?}, unknown: {counts:?}");
            assert_eq!(counts.wrong, 0, "{flags:?} unknown");
            check(counts.right + counts.short > 50, || format!("{counts:?}"))
        });
    }
}

#[test]
fn start_of_a_program_without_c_library_is_the_root() {
    needs!(PerfEvents, X86_64);
    for flags in [
        &["-O2", "-nostdlib", "-static"],
        &["-O0", "-nostdlib", "-static"],
    ] {
        let here = Here::new();
        here.record("-e cpu-clock:u -F 999 -g", &c_with("nolibc.c", flags), "");
        let stacks = here.report("").quality["stacks"].clone();
        let (total, complete) = (&stacks["total"], &stacks["complete"]);
        assert!(total.as_u64() > Some(50), "{stacks}");
        assert_eq!(total, complete, "{flags:?}: {stacks}");
    }
}

const LAST_CALL: &str = "
__asm__(\".globl _start\\n.type _start,@function\\n_start: .cfi_startproc\\n\"
        \"xor %ebp, %ebp; and $-16, %rsp; call begin\\n.cfi_endproc\\n.size _start, .-_start\");
static volatile unsigned long sink;
__attribute__((noinline)) static void leaf(void) {
    unsigned long value = 1;
    for (int i = 0; i < 3000; i++) value = value * 6364136223846793005u + 1;
    sink = value;
}
__attribute__((noreturn, used)) void begin(void) {
    for (int i = 0; i < 100000; i++) leaf();
    for (;;) __asm__ volatile(\"syscall\" ::\"a\"(60), \"D\"(0));
}
";

/// Zig's `_start` has its return address behind its last instruction.
#[test]
fn a_start_that_ends_with_a_call_is_the_root() {
    needs!(PerfEvents);
    let flags = ["-O2", "-nostdlib", "-static"];
    let program = generated("last_call", LAST_CALL, Language::C, &flags);
    let here = Here::new();
    here.record("-e cpu-clock:u -F 999 -g", &program, "");
    let stacks = here.report("").quality["stacks"].clone();
    let count = |key: &str| stacks[key].as_u64().expect("a count");
    assert!(count("total") > 50, "{stacks}");
    // A busy machine may stop the recorder before it has unwound a stack.
    assert!(count("complete") * 50 >= count("total") * 49, "{stacks}");
    assert_eq!(count("no_unwind_info") + count("other"), 0, "{stacks}");
}

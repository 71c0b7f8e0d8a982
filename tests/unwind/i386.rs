//! 32-bit programs on x86-64, recorded as any other.

use std::path::PathBuf;

use super::true_stacks::{check_tree, i386};
use crate::support::{Folded, Here, c_with, check, folded, measured, needs, truth_seconds};

/// Call frame information and frame pointers, in all combinations that compilers give.
const FLAGS: [&[&str]; 6] = [
    &["-m32", "-O0"],
    &["-m32", "-O2"],
    &["-m32", "-O2", "-fomit-frame-pointer"],
    &["-m32", "-O2", "-fomit-frame-pointer", "-static"],
    // Frame pointers only.
    &["-m32", "-O2", "-fno-asynchronous-unwind-tables"],
    &["-m32", "-O0", "-fno-asynchronous-unwind-tables", "-static"],
];

fn program(source: &str, flags: &[&str]) -> PathBuf {
    c_with(source, flags)
}

fn record(here: &Here, options: &str, program: &std::path::Path, args: &str) -> Folded {
    let options = format!("-e cpu-clock:u -F 999 {options}");
    here.record(&options, program, args);
    folded(&here.rprof("collapse --weight samples").ok())
}

/// Counts samples with these callers from `main` or a thread's start on, without others between,
/// and all.
fn count(stacks: &Folded, path: &[&str]) -> (u64, u64) {
    let leaf = path.last().expect("a path has a leaf");
    let (mut right, mut all) = (0, 0);
    for (stack, samples) in stacks {
        let frames: Vec<&str> = stack.split(';').skip(1).collect();
        if !frames.contains(leaf) {
            continue;
        }
        all += samples;
        let first = frames.iter().position(|frame| *frame == path[0]);
        let from_first = first.and_then(|first| frames.get(first..)).unwrap_or(&[]);
        if from_first.starts_with(path) {
            right += samples;
        }
    }
    (right, all)
}

/// Checks that at least 95% of the samples in the last function have this path.
fn assert_path(stacks: &Folded, path: &[&str], what: &str) -> Result<(), String> {
    let (right, all) = count(stacks, path);
    println!("{what}: {right} of {all} have {path:?}");
    check(all > 20 && right * 20 >= all * 19, || {
        format!("{what}: {right} of {all}: {stacks:#?}")
    })
}

#[test]
fn every_complete_stack_of_a_32_bit_program_is_the_true_one() {
    needs!(PerfEvents, I386);
    let all = i386();
    for variant in all.iter().take(truth_seconds().map_or(3, |_| all.len())) {
        check_tree(variant);
    }
}

#[test]
fn deep_recursion_of_a_32_bit_program_has_all_frames() {
    needs!(PerfEvents, I386);
    for flags in FLAGS {
        measured(|| {
            let here = Here::new();
            let stacks = record(&here, "-g", &program("recursion.c", flags), "200 0.3");
            let path = [&["main"][..], &["descend"; 200], &["bottom"]].concat();
            assert_path(&stacks, &path, &format!("{flags:?}"))?;
            let report = here.report("");
            let stacks = &report.quality["stacks"];
            let share = |key: &str| stacks[key].as_f64().unwrap_or(0.0);
            check(share("complete") >= 0.95 * share("total"), || {
                format!("{flags:?}: {stacks}")
            })
        });
    }
}

#[test]
fn threads_of_a_32_bit_program_are_complete() {
    needs!(PerfEvents, I386);
    for flags in FLAGS {
        measured(|| {
            let stacks = record(&Here::new(), "-g", &program("threads.c", flags), "0.3");
            for path in [
                ["start_thread", "left", "work_left"],
                ["start_thread", "right", "work_right"],
            ] {
                let stacks: Folded = (stacks.iter())
                    .map(|(stack, samples)| (named(stack), *samples))
                    .collect();
                assert_path(&stacks, &path, &format!("{flags:?}"))?;
            }
            Ok(())
        });
    }
}

/// Adds the name of a thread's start, which stripped C libraries lack.
fn named(stack: &str) -> String {
    let frames: Vec<&str> = stack.split(';').collect();
    let own = ["left", "right"];
    let start = frames.iter().position(|frame| own.contains(frame));
    let named = frames.iter().enumerate().map(|(at, frame)| {
        match start.is_some_and(|start| at + 1 == start) {
            true => "start_thread",
            false => *frame,
        }
    });
    named.collect::<Vec<_>>().join(";")
}

/// The kernel's signal frame lies on another stack or on the same.
#[test]
fn signal_handlers_of_a_32_bit_program_lead_to_the_interrupted_function() {
    needs!(PerfEvents, I386);
    for flags in FLAGS {
        measured(|| {
            let program = program("handlers.c", flags);
            let stacks = record(&Here::new(), "-g", &program, "0.2");
            for (interrupted, handler, trampoline) in [
                ("asks_plain", "handles_plain", "__kernel_sigreturn"),
                ("asks_info", "handles_info", "__kernel_rt_sigreturn"),
            ] {
                let has = |frames: &[&str], name: &str| frames.contains(&name);
                let (mut right, mut all) = (0, 0);
                for (stack, samples) in &stacks {
                    let frames: Vec<&str> = stack.split(';').collect();
                    if !has(&frames, handler) {
                        continue;
                    }
                    all += samples;
                    let at = |name: &str| frames.iter().position(|frame| *frame == name);
                    let order = [at("main"), at(interrupted), at(trampoline), at(handler)];
                    let is_right = order.iter().all(Option::is_some) && order.is_sorted();
                    right += if is_right { *samples } else { 0 };
                }
                println!("{flags:?}, {handler}: {right} of {all}");
                check(all > 20 && right * 20 >= all * 19, || {
                    format!("{flags:?} {handler}: {right} of {all}: {stacks:#?}")
                })?;
            }
            Ok(())
        });
    }
}

#[test]
fn frame_pointers_of_a_32_bit_program_are_followed_by_the_kernel_too() {
    needs!(PerfEvents, I386);
    measured(|| {
        let program = program("recursion.c", &["-m32", "-O2"]);
        let stacks = record(&Here::new(), "--call-graph fp", &program, "20 0.3");
        let path = [&["main"][..], &["descend"; 20], &["bottom"]].concat();
        assert_path(&stacks, &path, "fp")
    });
}

#[test]
fn copies_of_stacks_of_a_32_bit_program_are_unwound_on_reading() {
    needs!(PerfEvents, I386, Perf);
    measured(|| {
        let here = Here::new();
        let program = program("recursion.c", &["-m32", "-O2", "-fomit-frame-pointer"]);
        here.perf_record("--call-graph dwarf", &program, "20 0.3");
        let stacks = folded(&here.rprof("collapse --weight samples").ok());
        let path = [&["main"][..], &["descend"; 20], &["bottom"]].concat();
        assert_path(&stacks, &path, "perf record --call-graph dwarf")
    });
}

//! JIT code with its own unwinding information, which nothing else can unwind.

use std::path::PathBuf;

use crate::support::{Here, PerfSample, c, needs, perf_samples};

/// Callers of the JIT code.
const PATH: [&str; 4] = ["made inner", "made outer", "work", "main"];

/// Returns samples in the inner function, and those with the full stack.
fn whole(samples: &[PerfSample]) -> (usize, usize) {
    let names = |sample: &PerfSample| -> Vec<String> {
        let user = sample.frames.iter().map(|frame| frame.name.clone());
        // A kernel interrupt may be above.
        user.skip_while(|name| name != PATH[0]).collect()
    };
    let inside: Vec<_> = samples
        .iter()
        .map(names)
        .filter(|n| !n.is_empty())
        .collect();
    let is_whole = |names: &&Vec<String>| {
        names.starts_with(&PATH.map(String::from)) && names.last().is_some_and(|n| n == "_start")
    };
    (inside.len(), inside.iter().filter(is_whole).count())
}

fn remove_dumps(here: &Here) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(here.path(".")).unwrap();
    let dumps = entries.map(|entry| entry.unwrap().path());
    let dumps: Vec<_> = dumps
        .filter(|path| path.extension().is_some_and(|e| e == "dump"))
        .collect();
    for dump in &dumps {
        std::fs::remove_file(dump).unwrap();
    }
    dumps
}

/// Samples may precede the runtime's information. Without it, stacks are incomplete.
#[test]
fn jit_code_is_unwound_by_the_eh_frame_of_its_jitdump() {
    needs!(PerfEvents);
    check_stacks("env", "env");
}

/// The dump has times of the namespace, and records have the kernel's.
#[test]
fn jit_code_of_another_time_namespace_is_unwound() {
    needs!(PerfEvents, Root, Tool("unshare"));
    let namespace = "unshare -T --monotonic 100000 --boottime 100000 --fork";
    check_stacks("env", namespace);
    check_stacks(namespace, "env");
}

/// `around` starts rprof, and `within` the program.
fn check_stacks(around: &str, within: &str) {
    for (options, share) in [("-g", 0.9), ("--call-graph dwarf", 0.99)] {
        for untold in ["", " untold"] {
            let here = Here::new();
            let folder = here.path(".").display().to_string();
            let record = here.command("env").words(around);
            let record = record.arg(env!("CARGO_BIN_EXE_rprof"));
            let record = record.words(&format!("record -q {options} -F 999 -e cpu-clock --"));
            let record = record.words(within).arg(c("jit_unwound.c"));
            record.words(&format!("0.4 {folder}{untold}")).ok();
            assert_eq!(remove_dumps(&here).len(), 1);
            let (all, whole) = whole(&perf_samples(&here.rprof("script").ok()));
            assert!(all > 50, "{all} samples with {options}{untold}");
            match untold {
                "" => assert!(
                    whole as f64 >= share * all as f64,
                    "{whole} of {all} with {options}"
                ),
                _ => assert_eq!(whole, 0, "of {all} with {options}{untold}"),
            }
        }
    }
}

/// perf reads the images that it creates from the dump.
#[test]
fn jit_code_unwinds_to_the_frames_of_perf_inject() {
    needs!(PerfEvents, Perf);
    let here = Here::new();
    let folder = here.path(".").display().to_string();
    let record = here
        .perf("record -q -N -k mono -F 999 -e cpu-clock --call-graph dwarf -o p.data --")
        .arg(c("jit_unwound.c"));
    record.words(&format!("0.4 {folder}")).ok();
    here.perf("inject --jit -i p.data -o injected.data").ok();
    let by_perf = here.perf("script --no-inline -i injected.data").ok();
    let expected = perf_samples(&by_perf);
    let (all, complete) = whole(&expected);
    assert!(all > 50 && complete == all, "{complete} of {all}");
    for file in ["p.data", "injected.data"] {
        let ours = here.rprof("script --no-inline -i").arg(file).ok();
        let ours = perf_samples(&ours);
        assert_eq!(whole(&ours), (all, all), "{file}");
        // Made-up names of one libc function differ.
        let known = |name: &&str| PATH.contains(name) || *name == "_start";
        // perf gives up in the vdso.
        let inside = |sample: &&PerfSample| sample.frames.iter().any(|f| f.name == PATH[0]);
        let pairs = ours
            .iter()
            .filter(inside)
            .zip(expected.iter().filter(inside));
        for (ours, theirs) in pairs {
            assert_eq!(ours.head, theirs.head, "{file}");
            let named = |sample: &PerfSample| -> Vec<String> {
                let names = sample.frames.iter().map(|frame| &*frame.name);
                names.filter(known).map(String::from).collect()
            };
            assert_eq!(named(ours), named(theirs), "{file}: {}", ours.head);
        }
    }
}

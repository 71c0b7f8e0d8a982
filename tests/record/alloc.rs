//! Requested memory (`record --alloc`), compared with programs that count what they request.

use std::path::{Path, PathBuf};

use crate::support::{Folded, Here, Run, c, c_with, cxx, folded, needs, rust};

/// All ways of the fixture.
const WAYS: &str = "malloc calloc realloc aligned threads rise fork failures";

/// Allocators that are preloaded if installed.
const ALLOCATORS: [&str; 3] = ["libjemalloc.so.2", "libmimalloc.so.2.0", "libtcmalloc.so.4"];

struct Truth {
    requested: f64,
    count: f64,
    in_use: f64,
}

fn truth(run: &Run) -> Truth {
    let out = run.out();
    let line = out.lines().last().unwrap_or_default();
    let numbers: Vec<f64> = (line.split(|c: char| !c.is_ascii_digit()))
        .filter_map(|number| number.parse().ok())
        .collect();
    let &[requested, count, in_use] = &numbers[..] else {
        panic!("no counts in {line:?} of\n{run}");
    };
    Truth {
        requested,
        count,
        in_use,
    }
}

fn stacks(here: &Here, options: &str) -> Folded {
    folded(&here.rprof("collapse -q").words(options).ok())
}

fn all(stacks: &Folded) -> f64 {
    stacks.values().sum::<u64>() as f64
}

fn of_leaf(stacks: &Folded, leaf: &str) -> f64 {
    let is_leaf = |stack: &str| stack.rsplit(';').next() == Some(leaf);
    let found = stacks.iter().filter(|(stack, _)| is_leaf(stack));
    found.map(|(_, bytes)| *bytes).sum::<u64>() as f64
}

/// Asserts an estimate within five standard errors. The variance of sampled bytes is at most their
/// number times the mean distance.
fn assert_estimate(what: &str, estimate: f64, truth: f64, mean: f64) {
    let error = (truth * mean).sqrt();
    assert!(
        (estimate - truth).abs() <= 5.0 * error + 1.0,
        "{what}: {estimate} instead of {truth} ± {error}"
    );
}

fn assert_sums(here: &Here, what: &str, truth: &Truth) {
    let mean = f64::from(16 << 10);
    let ever = all(&stacks(here, "--at ever"));
    assert_estimate(&format!("{what}, ever"), ever, truth.requested, mean);
    let end = all(&stacks(here, "--at end"));
    assert_estimate(&format!("{what}, at the end"), end, truth.in_use, mean);
    // The number of small allocations varies more: by the mean distance over the least size.
    let count = all(&stacks(here, "--event allocated-objects"));
    assert!(
        (count / truth.count - 1.0).abs() < 0.2,
        "{what}: {count} allocations instead of {}",
        truth.count
    );
}

#[test]
fn sums_are_those_of_the_programs_own_count_in_c_cxx_and_rust() {
    needs!(PerfEvents, Cxx);
    let here = Here::new();
    let programs: [(PathBuf, &str); 3] = [
        (c("allocations.c"), WAYS),
        (cxx("allocations.cpp"), "fail"),
        (rust("allocations.rs", &["-g"]), ""),
    ];
    for (program, ways) in programs {
        let run = (here.rprof("record --alloc=16K --").arg(&program)).words(ways);
        let run = run.ok();
        run.says("lost 0 samples").says("in use at the end");
        assert_sums(&here, &program.display().to_string(), &truth(&run));
    }
}

#[test]
fn sums_are_right_with_other_allocators() {
    needs!(PerfEvents, Cxx);
    let here = Here::new();
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"];
    for name in ALLOCATORS {
        let paths = folders.map(|folder| Path::new(folder).join(name));
        let Some(path) = paths.iter().find(|path| path.exists()) else {
            continue;
        };
        // Their operator new calls no malloc.
        let recorder = here
            .rprof("record --alloc=16K --")
            .arg(cxx("allocations.cpp"));
        let run = recorder
            .env("LD_PRELOAD", path.to_str().expect("UTF-8"))
            .ok();
        assert_sums(&here, name, &truth(&run));
    }
}

#[test]
fn every_allocation_has_the_stack_of_its_function() {
    needs!(PerfEvents);
    let here = Here::new();
    let recorder = here.rprof("record --alloc=512 --").arg(c("allocations.c"));
    recorder.words("calloc realloc aligned rise fork").ok();
    let ever = stacks(&here, "--at ever");
    let end = stacks(&here, "");
    let mib = f64::from(1 << 20);
    // Function, caller, MiB ever and at the end. A buffer of 4 MiB grows in 64 KiB steps.
    let steps = (0..64)
        .map(|step| f64::from(4096 + step * 65536))
        .sum::<f64>()
        / mib;
    let last = f64::from(4096 + 63 * 65536) / mib;
    let functions = [
        ("use_calloc", "main", 16.0, 16.0),
        ("use_realloc", "main", steps, last),
        ("use_aligned", "main", 12.0, 0.0),
        ("rise", "main", 32.0, 0.0),
        ("use_fork", "main", 8.0, 8.0),
        ("in_child", "use_fork", 8.0, 8.0),
    ];
    for (function, _, requested, in_use) in functions {
        let found = of_leaf(&ever, function);
        assert_estimate(function, found, requested * mib, 512.0);
        let found = of_leaf(&end, function);
        assert_estimate(function, found, in_use * mib, 512.0);
    }
    let wrong = ever.keys().filter(|stack| {
        let mut frames = stack.rsplit(';');
        let (leaf, caller) = (frames.next().unwrap_or_default(), frames.next());
        match functions.iter().find(|function| function.0 == leaf) {
            Some(function) => caller != Some(function.1) || !stack.contains(";main;"),
            // No stack ends in the library of rprof.
            None => stack.contains("librprof") || stack.contains(";main;") && leaf == "main",
        }
    });
    assert_eq!(wrong.collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn stacks_that_are_cut_do_not_count_as_complete() {
    needs!(PerfEvents);
    let here = Here::new();
    let recorder = here.rprof("record --alloc=4K --").arg(c("allocations.c"));
    recorder.words("deep calloc").ok();
    // 4 of 20 MiB have cut stacks, unless the rest of the stack was read in time.
    let stacks = stacks(&here, "--at ever");
    let complete = stacks
        .iter()
        .filter(|(stack, _)| stack.contains(";_start;"));
    let complete: u64 = complete.map(|(_, bytes)| bytes).sum();
    let share = 100.0 * complete as f64 / all(&stacks);
    assert!(share < 100.0, "{stacks:?}");
    let report = here.rprof("report --at ever").ok().out();
    let line = format!("# stacks: {share:.1}% reach their root");
    assert!(report.contains(&line), "{line} {report}");
}

#[test]
fn the_peak_is_the_moment_with_most_in_use() {
    needs!(PerfEvents);
    let here = Here::new();
    let recorder = here.rprof("record --alloc=4K --").arg(c("allocations.c"));
    recorder.words("rise realloc").ok();
    let mib = f64::from(1 << 20);
    let peak = stacks(&here, "--at peak");
    assert_estimate("rise", of_leaf(&peak, "rise"), 32.0 * mib, 4096.0);
    assert_estimate("later", of_leaf(&peak, "use_realloc"), 0.0, 4096.0);
}

/// The dynamic linker splits LD_PRELOAD at spaces and colons.
#[test]
fn library_is_preloaded_where_the_temporary_folder_is_no_single_word() {
    needs!(PerfEvents);
    for name in ["a folder", "a:folder"] {
        let here = Here::new();
        let folder = here.path(name);
        std::fs::create_dir(&folder).expect("a new folder");
        let recorder = here.rprof("record --alloc=4K --").arg(c("allocations.c"));
        let recorder = recorder.env("TMPDIR", folder.to_str().expect("UTF-8"));
        recorder.words("calloc").ok().says("in use at the end");
    }
}

#[test]
fn memory_at_a_time_has_what_was_released_later() {
    needs!(PerfEvents);
    let here = Here::new();
    let recorder = here.rprof("record --alloc=4K --").arg(c("allocations.c"));
    recorder.words("rise realloc").ok();
    let rise = |when: &str| {
        let run = here.rprof("collapse -q").words(when).run();
        match run.code() {
            Some(0) => of_leaf(&folded(&run), "rise"),
            _ => {
                run.says("no memory was in use then");
                0.0
            }
        }
    };
    let most = (0..25)
        .map(|n| rise(&format!("--at {}%", 4 * n)))
        .fold(0.0, f64::max);
    // Snapshots may miss the peak.
    let mib = f64::from(1 << 20);
    assert!((16.0 * mib..=34.0 * mib).contains(&most), "{most}");
    assert_eq!(stacks(&here, "--at 100%"), stacks(&here, "--at end"));
}

#[test]
fn programs_without_the_library_are_reported() {
    needs!(PerfEvents);
    let here = Here::new();
    let program = c_with("allocations.c", &["-static"]);
    let run = here
        .rprof("record --alloc --")
        .arg(&program)
        .words("malloc")
        .ok();
    run.says("1 program did not load the library of rprof");
    here.rprof("report")
        .run()
        .says("no program loaded the library");
    let run = here.rprof("record --alloc=4K -- sh -c").arg(format!(
        "{0} calloc; env -i {0} calloc",
        c("allocations.c").display()
    ));
    run.ok().says("1 program did not load").says("requested, ");
    let bytes = of_leaf(&stacks(&here, ""), "use_calloc");
    assert_estimate("one of two", bytes, f64::from(16 << 20), 4096.0);
}

/// No library can interpose calls within the program.
#[test]
fn allocators_linked_into_a_program_under_other_names_are_reported() {
    needs!(PerfEvents);
    let here = Here::new();
    for (name, is_reported) in [
        ("mi_malloc", true),
        ("_rjem_malloc", true),
        ("my_malloc", false),
    ] {
        let program = c_with("allocations.c", &[&format!("-Duse_calloc={name}")]);
        let run = here.rprof("record --alloc=4K -- sh -c");
        let run = run.arg(format!("{} malloc", program.display())).ok();
        let message = "1 program brought its own malloc (the first is ";
        assert_eq!(run.err().contains(message), is_reported, "{name}: {run}");
        let report = here.rprof("report").ok().out();
        let verdict = "not counted: 1 program that brought its own malloc";
        assert_eq!(report.contains(verdict), is_reported, "{name}: {report}");
    }
}

#[test]
fn frame_pointers_find_the_same_functions() {
    needs!(PerfEvents);
    let here = Here::new();
    let recorder = here
        .rprof("record --call-graph fp --alloc=4K --")
        .arg(c("allocations.c"));
    recorder.words("calloc rise").ok();
    let mib = f64::from(1 << 20);
    let ever = stacks(&here, "--at ever");
    assert_estimate("calloc", of_leaf(&ever, "use_calloc"), 16.0 * mib, 4096.0);
    assert_estimate("rise", of_leaf(&ever, "rise"), 32.0 * mib, 4096.0);
}

#[test]
fn resident_memory_has_complete_stacks_with_frame_pointers() {
    needs!(PerfEvents);
    let here = Here::new();
    let recorder = here
        .rprof("record --memory --call-graph fp --")
        .arg(c("allocations.c"));
    recorder.words("calloc rise").ok();
    let report = here.rprof("report").ok().out();
    let complete = report
        .lines()
        .find(|line| line.contains("reach their root"));
    let mut words = complete.into_iter().flat_map(str::split_whitespace);
    let share = words.find_map(|word| word.strip_suffix('%')?.parse::<f64>().ok());
    // Most bytes become resident in malloc(3), which has no frame pointers. Most code of the start has some, or
    // needs none.
    assert!(share.is_some_and(|share| share > 0.0), "{report}");
}

#[test]
fn exports_have_the_types_of_heap_profiles_and_a_comparison_names_what_grew() {
    needs!(PerfEvents);
    let here = Here::new();
    let record = |file: &str, ways: &str| {
        let recorder = here.rprof("record -q --alloc=4K -o").arg(file).arg("--");
        recorder.arg(c("allocations.c")).words(ways).ok();
    };
    record("old.data", "malloc");
    record("new.data", "malloc calloc");
    let first = here.rprof("diff old.data new.data").run().out();
    let first = first.lines().next().unwrap_or_default();
    assert!(
        first.contains("GREW: memory") && first.contains("use_calloc"),
        "{first}"
    );
    here.rprof("export -i new.data -o heap.pb.gz").ok();
    for (name, truth) in [("alloc_space", 40.0), ("inuse_space", 22.0)] {
        let read = here.rprof("collapse -q heap.pb.gz --event").arg(name).ok();
        assert_estimate(
            name,
            all(&folded(&read)),
            truth * f64::from(1 << 20),
            4096.0,
        );
    }
    for name in ["inuse_objects", "alloc_objects", "peak_space"] {
        here.rprof("collapse -q heap.pb.gz --event").arg(name).ok();
    }
}

#[test]
fn probes_of_the_program_itself_are_recorded_with_their_weights_and_nothing_is_preloaded() {
    needs!(Kernel, Uprobes);
    let here = Here::new();
    let ways = "calloc aligned threads rise fork failures";
    let is_exact = |truth: &Truth| {
        let sums = ["--at ever", "--at end", "--event allocated-objects"];
        let found = sums.map(|options| all(&stacks(&here, options)));
        assert_eq!(found, [truth.requested, truth.in_use, truth.count]);
    };
    // Arguments are in memory, and in registers.
    for level in ["-O0", "-O2"] {
        let program = c_with("allocations.c", &["-DPROBES", level]);
        let run = here
            .rprof("record --alloc -m 64M --")
            .arg(program)
            .words(ways)
            .ok();
        run.says("samples its allocations itself")
            .says("lost 0 samples")
            .says("sampled by the program itself");
        is_exact(&truth(&run));
    }
    let of_rise = |stacks: &Folded| {
        let found = stacks.iter().filter(|(stack, _)| stack.contains(";rise"));
        found.map(|(_, bytes)| *bytes).sum::<u64>()
    };
    assert_eq!(of_rise(&stacks(&here, "--at ever")), 64 << 20);
    // A process that runs: it begins once it is recorded.
    let program = c_with("allocations.c", &["-DPROBES"]);
    let running = here.sh("exec \"$0\" attached rise rise rise >out");
    let running = running.arg(&program).start();
    let pid = running.pid().as_raw_nonzero().to_string();
    let script = "touch go; until grep -q requested out; do sleep 0.01; done";
    let recorder = here.rprof("record --alloc -m 64M -p").arg(pid);
    let run = recorder.words("-- sh -c").arg(script).ok();
    run.says("samples its allocations itself");
    running.end();
    assert_eq!(
        of_rise(&stacks(&here, "--at ever")),
        3 * (64 << 20),
        "{run}"
    );
    let left = std::fs::read_to_string("/sys/kernel/tracing/uprobe_events").unwrap_or_default();
    assert!(!left.contains(&*program.to_string_lossy()), "{left}");
}

#[test]
fn flags_without_a_meaning_for_allocations_are_refused() {
    let here = Here::new();
    for flags in [
        "-e cycles",
        "-F 99",
        "-c 5",
        "--memory",
        "--off-cpu",
        "-t 1",
        "-a",
    ] {
        let run = here
            .rprof("record --alloc")
            .words(flags)
            .words("-- true")
            .run();
        run.exits(2).says("--alloc");
    }
    here.rprof("record --alloc").run().exits(2);
}

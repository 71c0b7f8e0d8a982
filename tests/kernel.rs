//! Kernel functions stand above the user functions that called them.

use crate::support::{Here, c, folded};

#[test]
fn stacks_stand_above_user_stacks() {
    needs!(PerfEvents, Kernel);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock", &c("syscalls.c"), "0.5");
    let objects = here.report("--sort symbol,dso");
    let is_kernel = |name: &str| {
        let mut rows = objects.only().rows.iter().filter(|r| r.symbol == name);
        rows.all(|r| r.object.starts_with("[kernel") || r.object == "[unknown]")
    };
    let stacks = folded(&here.rprof("collapse").ok());
    let mut both = 0;
    for (stack, weight) in &stacks {
        let frames: Vec<_> = stack.split(';').skip(1).collect();
        let Some(pump) = frames.iter().position(|f| *f == "pump") else {
            continue;
        };
        if let Some(read) = frames.iter().position(|f| *f == "vfs_read") {
            both += weight;
            assert!(pump < read, "from root to leaf: {stack}");
            // Nothing of the user above the kernel.
            let first = frames
                .iter()
                .position(|f| is_kernel(f))
                .expect("vfs_read at least");
            assert!(frames[first..].iter().all(|f| is_kernel(f)), "{stack}");
        }
    }
    assert!(both > 0, "no vfs_read above pump in {stacks:#?}");
    // Most of what the program does is done by the kernel on its behalf.
    let share = objects.only().total_share("vfs_read");
    assert!(share > 0.3, "only {:.1} % in vfs_read", share * 100.0);
}

#[test]
fn functions_are_named_by_kallsyms() {
    needs!(PerfEvents, Kernel);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock", &c("syscalls.c"), "0.3");
    let report = here.report("");
    let symbols = std::fs::read_to_string("/proc/kallsyms").expect("kallsyms");
    let known: std::collections::HashSet<_> = symbols
        .lines()
        .filter_map(|l| l.split_whitespace().nth(2))
        .collect();
    let kernel = report
        .only()
        .rows
        .iter()
        .filter(|r| r.object == "[kernel.kallsyms]");
    let names: Vec<_> = kernel
        .map(|r| r.symbol.as_str())
        .filter(|s| *s != "[unknown]")
        .collect();
    assert!(!names.is_empty(), "no kernel functions");
    for name in names {
        assert!(known.contains(name), "{name} is not in /proc/kallsyms");
    }
}

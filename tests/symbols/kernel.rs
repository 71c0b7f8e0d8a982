//! Kernel functions are above the user functions that called them.

use std::path::Path;

use crate::support::{Here, Report, c, folded, needs};

const RPROF: &str = env!("CARGO_BIN_EXE_rprof");

#[test]
fn kernel_stacks_stand_above_user_stacks() {
    needs!(PerfEvents, Kernel);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock", &c("syscalls.c"), "0.5");
    let objects = here.report("--sort symbol,dso");
    let is_kernel = |name: &str| {
        let mut rows = objects.only().rows.iter().filter(|r| r.symbol == name);
        rows.any(|r| r.object.starts_with("[kernel") || r.object == "[unknown]")
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
            // No user frames above the kernel.
            let first = frames
                .iter()
                .position(|f| is_kernel(f))
                .expect("vfs_read at least");
            assert!(frames[first..].iter().all(|f| is_kernel(f)), "{stack}");
        }
    }
    assert!(both > 0, "no vfs_read above pump in {stacks:#?}");
    let share = objects.only().total_share("vfs_read");
    assert!(share > 0.3, "only {:.1} % in vfs_read", share * 100.0);
}

#[test]
fn kernel_functions_are_named_by_kallsyms() {
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

/// Runs in a mount namespace where `file` replaces a system file.
fn report_with(here: &Here, file: &Path, instead_of: &str) -> (Report, String) {
    let script = "mount --bind \"$0\" \"$1\" && shift && exec \"$@\"";
    let report = |options: &str| {
        let run = here.command("unshare").words("-m sh -c").arg(script);
        let run = run.arg(file).arg(instead_of).arg(RPROF);
        run.words(options).ok()
    };
    let text = report("report").out();
    (Report::parse(&report("report --format json")), text)
}

fn assert_no_kernel_names(report: &Report, reason: &str) {
    let reasons = &report.quality["frames"]["unnamed_by_reason"];
    assert!(reasons[reason].as_u64() > Some(100), "{reasons}");
    let rows = report.only().rows.iter();
    let named: Vec<_> = rows
        .filter(|row| row.object.starts_with("[kernel") && row.symbol != "[unknown]")
        .collect();
    assert!(named.is_empty(), "{named:?}");
    assert!(report.only().total_share("pump") > 0.5, "the user's side");
}

/// Zeros, as with `kernel.kptr_restrict`.
#[test]
fn hidden_kernel_addresses_are_told_with_a_remedy() {
    needs!(PerfEvents, Kernel, Root);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock", &c("syscalls.c"), "0.3");
    let symbols = std::fs::read_to_string("/proc/kallsyms").expect("kallsyms");
    let hidden = symbols.lines().take(20_000).map(|line| {
        let (_, rest) = line.split_once(' ').unwrap();
        format!("0000000000000000 {rest}\n")
    });
    let file = here.path("kallsyms");
    std::fs::write(&file, hidden.collect::<String>()).unwrap();
    let (report, text) = report_with(&here, &file, "/proc/kallsyms");
    assert_no_kernel_names(&report, "kernel_symbols_hidden");
    assert!(text.contains("kernel.kptr_restrict=0"), "{text}");
}

#[test]
fn symbols_of_another_kernel_are_never_shown() {
    needs!(PerfEvents, Kernel, Root);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock", &c("syscalls.c"), "0.3");
    let mut notes = std::fs::read("/sys/kernel/notes").expect("notes of the kernel");
    // Name length, descriptor length, type 3 (NT_GNU_BUILD_ID).
    let head = [4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, b'G', b'N', b'U', 0];
    let at = notes.windows(head.len()).position(|bytes| bytes == head);
    notes[at.expect("a build-id") + head.len()] ^= 0xff;
    let file = here.path("notes");
    std::fs::write(&file, notes).unwrap();
    let (report, text) = report_with(&here, &file, "/sys/kernel/notes");
    assert_no_kernel_names(&report, "foreign_kernel");
    assert!(text.contains("or give its vmlinux (-k)"), "{text}");
}

/// Builds may have another address after a reboot.
#[test]
fn a_recording_of_an_earlier_boot_without_the_kernels_place_has_no_kernel_names() {
    needs!(PerfEvents, Kernel, Root);
    let here = Here::new();
    let hidden = here.path("kallsyms");
    std::fs::write(&hidden, "0000000000000000 T _text\n").unwrap();
    let script = "mount --bind \"$0\" /proc/kallsyms && exec \"$@\"";
    let run = here.command("unshare").words("-m sh -c").arg(script);
    let run = run.arg(&hidden).arg(RPROF);
    let run = run.words("record -q -F 999 -g -e cpu-clock --");
    run.arg(c("syscalls.c")).arg("0.3").ok();
    let share = here.report("").only().total_share("vfs_read");
    assert!(share > 0.1, "{share}: the kernel is where it was");
    here.command("touch")
        .words("-d 2001-01-01")
        .arg(here.path("perf.data"))
        .ok();
    assert_no_kernel_names(&here.report(""), "foreign_kernel");
}

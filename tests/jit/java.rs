//! Java with and without information about its code.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::support::{Here, Report, c_with, check, java, measured, needs, wait_until};

/// Returns `None` without the JVM's headers.
fn agent() -> Option<PathBuf> {
    let mut java = Command::new("java");
    let output = java
        .args(["-XshowSettings:properties", "-version"])
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let home = said
        .lines()
        .find_map(|line| line.trim().strip_prefix("java.home = "))?;
    let include = PathBuf::from(home).join("include");
    include.join("jvmti.h").exists().then(|| {
        let (all, linux) = (include.display(), include.join("linux"));
        let folders = [format!("-I{all}"), format!("-I{}", linux.display())];
        c_with(
            "jit_agent.c",
            &["-fPIC", "-shared", &folders[0], &folders[1]],
        )
    })
}

fn shares(report: &Report) -> (f64, f64) {
    let share = |of: &str, part: &str, all: &str| {
        let of = &report.quality[of];
        of[part].as_f64().unwrap() / of[all].as_f64().unwrap()
    };
    (
        share("stacks", "complete", "total"),
        share("frames", "named", "total"),
    )
}

fn total(report: &Report, part: &str) -> f64 {
    let rows = report.only().rows.iter();
    let most = rows.filter(|row| row.symbol.contains(part));
    most.map(|row| row.total).max().unwrap_or(0) as f64 / report.only().weight as f64
}

fn check_quality(report: &Report, how: &str, (words, sort): (&str, &str)) -> Result<(), String> {
    let (complete, named) = shares(report);
    println!("{how}: {complete:.4} complete, {named:.4} named");
    check(complete > 0.97, || {
        format!("{complete} of the stacks with {how}")
    })?;
    check(named > 0.99, || format!("{named} of the frames with {how}"))?;
    for method in [words, sort] {
        let share = total(report, method);
        check(share > 0.1, || format!("{share} in {method} with {how}"))?;
    }
    Ok(())
}

/// Unloaded code keeps its names.
#[test]
fn java_jitdump_names_methods_and_lines() {
    needs!(PerfEvents, Java);
    let Some(agent) = agent() else {
        panic!("javac is there, and jvmti.h is not: install all of the JDK");
    };
    // The compilers' times depend on the machine.
    measured(|| by_jitdump(&agent));
}

fn by_jitdump(agent: &Path) -> Result<(), String> {
    let here = Here::new();
    let folder = here.path(".").display().to_string();
    let record = here.rprof("record -q -F 499 -g -e cpu-clock -- java");
    let option = format!("-agentpath:{}={folder}", agent.display());
    let record = record.arg(option).arg("-cp").arg(java("Work.java"));
    record.words("Work 2").ok();
    let dumps = std::fs::read_dir(&folder).unwrap().flatten();
    for dump in dumps.filter(|file| file.path().extension().is_some_and(|e| e == "dump")) {
        std::fs::remove_file(dump.path()).unwrap();
    }
    let methods = ("LWork;words(", "Ljava/util/TimSort;sort(");
    check_quality(&here.report("--no-by-language"), "a jitdump", methods)?;
    let text = here.rprof("script -F ip,sym,srcline").ok().out();
    let mut lines = text.lines();
    let mut counts = [0; 2];
    while let Some(line) = lines.next() {
        if line.contains(" LWork;words(") {
            let at = lines.next().unwrap_or_default().trim();
            let number = at.strip_prefix("Work.java:");
            let number = number.and_then(|at| at.parse::<u32>().ok());
            // The JVM's own instructions have no line.
            counts[usize::from(number.is_some_and(|n| (9..=14).contains(&n)))] += 1;
        }
    }
    assert!(counts[1] > 20 && counts[0] * 20 < counts[1], "{counts:?}");
    Ok(())
}

/// Returns the process's clock ticks in user mode.
pub(super) fn ticks(pid: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let (_, fields) = stat.rsplit_once(") ").unwrap_or_default();
    let ticks = fields.split(' ').nth(11);
    ticks.and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

#[test]
fn java_perf_map_by_jcmd_names_methods() {
    needs!(PerfEvents, Java);
    for flags in ["", "-XX:+PreserveFramePointer"] {
        measured(|| by_jcmd(flags));
    }
}

fn by_jcmd(flags: &str) -> Result<(), String> {
    let here = Here::new();
    let command = here.command("java").words(flags).arg("-cp");
    let mut java = command.arg(java("Work.java")).words("Work 300").start();
    assert_eq!(java.line(), "works");
    let pid = java.pid().as_raw_nonzero().to_string();
    let record = here.rprof("record -q -F 499 -g -e cpu-clock -p");
    let record = record.arg(&pid).start();
    // The compilers have most of their work at the start.
    let begun = ticks(&pid);
    wait_until("Java works", || ticks(&pid) > begun + 250);
    let written = here.command("jcmd").arg(&pid).arg("Compiler.perfmap").ok();
    record.signal(Signal::INT);
    record.end().exits(0);
    let map = PathBuf::from(format!("/tmp/perf-{pid}.map"));
    assert!(map.exists(), "{written}");
    std::fs::remove_file(map).unwrap();
    drop(java);
    let methods = ("Work.words", "java.util.TimSort.sort");
    check_quality(
        &here.report("--no-by-language"),
        &format!("jcmd {flags}"),
        methods,
    )
}

//! Functions without symbols, located by unwinding information.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::{Here, c_with, check, folded, measured, needs};

/// Shares of the functions of `shares.c`, in percent.
const SHARES: [(&str, f64); 3] = [
    ("burn_seventy", 70.0),
    ("burn_twenty", 20.0),
    ("burn_ten", 10.0),
];

/// Strips a program. `how` has objcopy's options.
fn stripped(here: &Here, program: &Path, name: &str, how: &str) -> PathBuf {
    let copy = here.path(name);
    let command = format!("objcopy {how} {} {}", program.display(), copy.display());
    here.sh(&command).ok();
    copy
}

fn names(here: &Here, program: &Path, file_name: &str) -> BTreeMap<String, String> {
    let nm = here.command("nm").arg(program).ok().out();
    (nm.lines())
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let start = u64::from_str_radix(words.next()?, 16).ok()?;
            let name = words.nth(1)?;
            Some((format!("{file_name}+{start:#x}"), name.to_owned()))
        })
        .collect()
}

/// Functions of a stripped program are distinguished by their addresses from nm.
fn assert_located(flags: &[&str], how: &str) {
    let program = c_with("shares.c", flags);
    measured(|| {
        let here = Here::new();
        let names = names(&here, &program, "bare");
        let bare = stripped(&here, &program, "bare", how);
        here.record("-F 999 -g -e cpu-clock", &bare, "0.4");
        let report = here.report("--children");
        let event = report.only();
        for (name, share) in SHARES {
            let of_name = |row: &&crate::support::Row| {
                names.get(&row.symbol).is_some_and(|known| known == name)
            };
            let row = event.rows.iter().find(of_name);
            let total = row.map_or(0, |row| row.total) as f64 / event.weight as f64 * 100.0;
            check((total - share).abs() < 10.0, || {
                let rows: Vec<_> = event.rows.iter().map(|r| (&r.symbol, r.total)).collect();
                format!("{name} has {total:.1} %: {rows:?}")
            })?;
        }
        let frames = &report.quality["frames"];
        let count = |key: &str| frames[key].as_u64().unwrap_or(0);
        assert!(count("located") > count("total") / 3, "{frames}");
        assert!(count("named") + count("located") <= count("total"));
        Ok(())
    });
}

#[test]
fn functions_without_symbols_are_told_apart() {
    needs!(PerfEvents, Tool("objcopy"));
    assert_located(&[], "--strip-all");
    assert_located(&["-static"], "--strip-all");
    assert_located(&["-no-pie", "-Wl,--no-eh-frame-hdr"], "--strip-all");
    // The only unwinding information is for debuggers.
    let for_debuggers = ["-g", "-gdwarf-4", "-fno-asynchronous-unwind-tables"];
    assert_located(&for_debuggers, "--strip-all --keep-section=.debug_frame");
}

#[test]
fn every_view_has_located_functions_and_no_located_has_none() {
    needs!(PerfEvents, Tool("objcopy"));
    let program = c_with("shares.c", &[]);
    let here = Here::new();
    let by_address = names(&here, &program, "bare");
    let bare = stripped(&here, &program, "bare", "--strip-all");
    here.record("-F 999 -g -e cpu-clock", &bare, "0.3");
    let (seventy, _) = (by_address.iter())
        .find(|(_, name)| *name == "burn_seventy")
        .expect("nm has it");
    let (_, start) = seventy.split_once('+').expect("its start");

    let table = here.rprof("report").ok();
    table.prints(seventy).prints("are located by their start");
    for view in [
        "report --format csv",
        "report --format json",
        "collapse",
        "flamegraph -o -",
    ] {
        assert!(here.rprof(view).ok().out().contains(start), "{view}");
        let without = format!("{view} --no-located");
        assert!(
            !here.rprof(&without).ok().out().contains(start),
            "{without}"
        );
    }
    assert!(!here.rprof("script").ok().out().contains("bare+0x"));
    assert!(here.rprof("script --located").ok().out().contains(seventy));
    let report = here.report("--no-located");
    assert_eq!(report.quality["frames"]["located"], 0);

    let stacks = folded(&here.rprof("collapse").ok());
    let (with, without) = (
        folded(&here.rprof("collapse").ok()).values().sum::<u64>(),
        folded(&here.rprof("collapse --no-located").ok())
            .values()
            .sum::<u64>(),
    );
    assert_eq!(with, without);
    let known = |frame: &str| !frame.starts_with("bare+0x") || by_address.contains_key(frame);
    for stack in stacks.keys() {
        assert!(stack.split(';').all(known), "{stack}");
    }
}

#[test]
fn located_functions_are_compared_within_one_build() {
    needs!(PerfEvents, Tool("objcopy"));
    let here = Here::new();
    let one = c_with("shares.c", &["-Wl,--build-id=sha1"]);
    let other = c_with("shares.c", &["-Wl,--build-id=sha1", "-O1", "-fno-inline"]);
    for (name, program) in [("a", &one), ("b", &one), ("c", &other)] {
        std::fs::create_dir_all(here.path(name)).expect("a folder");
        let bare = stripped(&here, program, &format!("{name}/bare"), "--strip-all");
        let options = format!("-F 999 -g -e cpu-clock -o {name}.data");
        here.record(&options, &bare, "0.3");
    }
    let same = here.rprof("diff a.data b.data --format json").ok().out();
    assert!(same.contains("bare+0x"), "{same}");
    let different = here.rprof("diff a.data c.data --format json").ok().out();
    assert!(!different.contains("bare+0x"), "{different}");
    let merged = here.rprof("collapse a.data b.data").ok().out();
    assert!(merged.contains("bare+0x"), "{merged}");
}

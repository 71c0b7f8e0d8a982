//! Imports of other tools' profiles, and of our own exports.

use std::collections::BTreeMap;

use crate::support::{Here, Report, c, c_with, needs};

fn functions(report: &Report) -> BTreeMap<String, (u64, u64)> {
    let mut found: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in &report.only().rows {
        if !row.symbol.starts_with('[') {
            let (own, total) = found.entry(row.symbol.clone()).or_default();
            *own += row.own;
            *total += row.total;
        }
    }
    found
}

fn report_of(here: &Here, file: &str) -> Report {
    Report::parse(&here.rprof("report --format json -i").arg(file).ok())
}

#[test]
fn our_own_exports_are_the_same_profile_again() {
    needs!(PerfEvents);
    let here = Here::new();
    let program = c_with("threads.c", &["-g"]);
    here.record("-F 999 -g -e cpu-clock:u", &program, "0.3");
    let recorded = functions(&report_of(&here, "perf.data"));
    for name in ["work_left", "burn_until"] {
        assert!(recorded.contains_key(name), "{recorded:?}");
    }
    here.rprof("export -q -o x.pb.gz").ok();
    here.rprof("export -q -o x.firefox.json.gz").ok();
    let script = here.rprof("script").ok().out();
    std::fs::write(here.path("x.txt"), script).expect("it can be written");
    for file in ["x.pb.gz", "x.firefox.json.gz", "x.txt"] {
        let again = functions(&report_of(&here, file));
        assert_eq!(again, recorded, "{file}");
    }
    here.rprof("export -q -i x.pb.gz -o y.pb.gz").ok();
    assert_eq!(functions(&report_of(&here, "y.pb.gz")), recorded);
    here.rprof("export -q -i x.txt -o y.speedscope.json").ok();
    here.rprof("flamegraph -i x.pb.gz").ok();
    here.rprof("diff x.pb.gz y.pb.gz").ok();
}

/// Exports name unnamed functions after their object.
#[test]
fn functions_without_a_name_have_none_in_our_own_exports_either() {
    needs!(PerfEvents);
    let here = Here::new();
    let stripped = c_with("shares.c", &["-s"]);
    here.record("-F 999 -g -e cpu-clock:u", &stripped, "0.2");
    let own = |report: &Report| -> BTreeMap<(String, String), u64> {
        let mut own: BTreeMap<(String, String), u64> = BTreeMap::new();
        for row in &report.only().rows {
            *own.entry((row.symbol.clone(), row.object.clone()))
                .or_default() += row.own;
        }
        own
    };
    // The dynamic linker may have debug symbols.
    let report = here.rprof("report --format json --no-located").ok();
    let recorded = own(&Report::parse(&report));
    let unnamed = ("[unknown]".to_owned(), stripped.display().to_string());
    assert!(recorded[&unnamed] > 0, "{recorded:#?}");
    for file in ["x.pb.gz", "x.firefox.json.gz"] {
        here.rprof("export -q --no-located -o").arg(file).ok();
        assert_eq!(own(&report_of(&here, file)), recorded, "{file}");
        let graph = here.rprof("collapse -i").arg(file).ok();
        graph.prints(&format!(";[{}]", stripped.file_name().unwrap().display()));
    }
}

#[test]
fn text_of_perf_is_read_as_its_recording() {
    needs!(PerfEvents, Perf);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock:u", &c("shares.c"), "0.3");
    let script = here.perf("script").ok().out();
    std::fs::write(here.path("x.txt"), script).expect("it can be written");
    let (theirs, ours) = (
        functions(&report_of(&here, "x.txt")),
        functions(&here.report("")),
    );
    for (name, shares) in ours.iter().filter(|(name, _)| name.starts_with("burn_")) {
        assert_eq!(theirs.get(name), Some(shares), "{name}");
    }
    let one = here
        .rprof("report --format json --symbol burn_seventy -i x.txt")
        .ok();
    // Its callees are filtered out.
    let own = |of: &(u64, u64)| of.0;
    assert_eq!(
        functions(&Report::parse(&one)).get("burn_seventy").map(own),
        theirs.get("burn_seventy").map(own)
    );
    let piped = here
        .rprof("report --format json -i -")
        .stdin(&std::fs::read(here.path("x.txt")).expect("it is there"));
    assert_eq!(functions(&Report::parse(&piped.ok())), theirs);
}

#[test]
fn what_a_format_does_not_have_is_told() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock:u", &c("shares.c"), "0.1");
    here.rprof("export -q -o x.pb.gz").ok();
    here.rprof("report -i x.pb.gz --cpu 0")
        .exits(2)
        .says("--cpu does not work with x.pb.gz: pprof lacks");
    here.rprof("script -i x.pb.gz")
        .exits(1)
        .says("x.pb.gz is pprof, without the header");
    let run = here.rprof("report -i x.pb.gz").ok();
    let all = run.out() + &run.err();
    assert!(
        all.contains("pprof records neither times of samples"),
        "{run}"
    );
    let whole = std::fs::read(here.path("x.pb.gz")).expect("it is there");
    std::fs::write(here.path("cut.pb.gz"), &whole[..whole.len() / 2]).expect("it can be written");
    here.rprof("report -i cut.pb.gz")
        .exits(1)
        .says("cannot read cut.pb.gz");
}

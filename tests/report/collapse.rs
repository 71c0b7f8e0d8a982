//! `rprof collapse`: folded stacks.

use std::collections::BTreeSet;

use crate::support::{Here, Report, c, cxx, folded, needs, well_formed};

#[test]
fn folded_stacks_weigh_as_much_as_the_report() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock", &c("shares.c"), "0.3");
    let event = here.report("");
    let event = event.only();
    let periods = folded(&here.rprof("collapse").ok());
    assert_eq!(periods.values().sum::<u64>(), event.weight);
    let samples = folded(&here.rprof("collapse --weight samples").ok());
    assert_eq!(samples.values().sum::<u64>(), event.samples);
    assert!(periods.keys().eq(samples.keys()), "the same stacks");
    let hot = periods
        .iter()
        .filter(|(stack, _)| stack.ends_with(";burn_seventy"));
    let hot: u64 = hot.map(|(_, weight)| weight).sum();
    assert_eq!(hot, event.row("burn_seventy").own);
    assert!(
        periods.keys().all(|s| s.starts_with("shares;")),
        "{periods:#?}"
    );
}

#[test]
fn folded_stacks_are_the_same_in_a_file() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g", &c("shares.c"), "0.1");
    let printed = here.rprof("collapse").ok();
    here.rprof("collapse -o stacks.folded").ok();
    assert_eq!(
        std::fs::read(here.path("stacks.folded")).unwrap(),
        printed.bytes()
    );
    assert_eq!(
        here.rprof("collapse").ok().bytes(),
        printed.bytes(),
        "the second time"
    );
}

#[test]
fn folded_thread_names_have_no_spaces() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g", &c("threads.c"), "0.2");
    let stacks = folded(&here.rprof("collapse").ok());
    let of = |comm: &str, function: &str| {
        let is_it = |s: &&String| s.starts_with(comm) && s.split(';').any(|f| f == function);
        stacks.keys().filter(is_it).count()
    };
    assert!(of("busy-left;", "work_left") > 0, "{stacks:#?}");
    assert!(of("busy_right;", "work_right") > 0, "{stacks:#?}");
    assert_eq!(
        of("busy-left;", "work_right") + of("busy_right;", "work_left"),
        0
    );
}

#[test]
fn collapse_reads_from_a_pipe() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g", &c("shares.c"), "0.1");
    let bytes = std::fs::read(here.path("perf.data")).unwrap();
    let piped = here.rprof("collapse -i -").stdin(&bytes).ok();
    assert_eq!(piped.out(), here.rprof("collapse").ok().out());
}

/// Names as printed by c++filt.
const NESTED: [&str; 6] = [
    "Server::handle(double)::{lambda(double)#1}::operator()",
    "Server::handle(double)::{lambda(double)#2}::operator()",
    "Server::handle(double)::Local::reply",
    "(anonymous namespace)::hidden(double)::{lambda(double)#1}::operator()",
    "Functor::operator()",
    "chosen",
];

/// A `;` separates frames of folded stacks, and is part of a name elsewhere.
#[test]
fn only_folded_stacks_replace_semicolons_in_names() {
    let here = Here::new();
    let text = b"app 7 [000] 1.000000: 1000000 cpu-clock:\n\
        \t1000 <[u8; 4]>::len+0x1 (/app)\n\t2000 sum<[u8; 4], 3>+0x1 (/app)\n\n";
    for (command, parts) in [
        (
            "flamegraph -o -",
            ["&lt;[u8; 4]&gt;::len (", "sum&lt;[u8; 4], 3&gt; ("],
        ),
        (
            "export -o - --format speedscope",
            ["\"<[u8; 4]>::len\"", "\"sum<[u8; 4], 3>\""],
        ),
        (
            "export -o - --format perfetto",
            ["<[u8; 4]>::len", "sum<[u8; 4], 3>"],
        ),
        ("collapse", ["sum<[u8: 4], 3>;", ";<[u8: 4]>::len 1000000"]),
    ] {
        let out = here.rprof(command).words("-i -").stdin(text).ok().out();
        for part in parts {
            assert!(out.contains(part), "{command}: {part} is not in {out}");
        }
    }
}

#[test]
fn all_outputs_have_the_names_of_the_report() {
    needs!(PerfEvents, Cxx);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock:u", &cxx("lambdas.cpp"), "0.2");
    for style in ["", "--demangle full"] {
        let report = here.rprof("report --format json").words(style).ok();
        let report = Report::parse(&report);
        let names: BTreeSet<String> = (report.only().rows.iter())
            .map(|row| row.symbol.clone())
            .filter(|name| name != "[unknown]")
            .collect();
        if style.is_empty() {
            for name in NESTED {
                assert!(names.contains(name), "{name} is not among {names:#?}");
            }
        }
        let has_all = |shown: &BTreeSet<String>, what: &str| {
            let missing: Vec<_> = names.difference(shown).collect();
            assert!(
                missing.is_empty(),
                "{what} {style}: {missing:#?} of {shown:#?}"
            );
        };
        let collapsed = here.rprof("collapse").words(style).ok();
        let leaves = folded(&collapsed);
        let frames = leaves.keys().flat_map(|stack| stack.split(';').skip(1));
        has_all(&frames.map(str::to_owned).collect(), "collapse");
        for row in &report.only().rows {
            let end = format!(";{}", row.symbol);
            let own = leaves.iter().filter(|(stack, _)| stack.ends_with(&end));
            let own: u64 = own.map(|(_, weight)| weight).sum();
            assert!(
                row.symbol == "[unknown]" || own == row.own,
                "{row:?}: {own}"
            );
        }
        let svg = here
            .rprof("flamegraph --min-width 0 -o -")
            .words(style)
            .ok();
        let titles = well_formed(&svg.out());
        let titles = titles.iter().filter_map(|title| title.rsplit_once(" ("));
        has_all(
            &titles.map(|(name, _)| name.to_owned()).collect(),
            "flamegraph",
        );
        here.rprof("export -o x.speedscope.json").words(style).ok();
        let speedscope = std::fs::read(here.path("x.speedscope.json")).expect("it was written");
        let speedscope: serde_json::Value = serde_json::from_slice(&speedscope).expect("JSON");
        let frames = speedscope["shared"]["frames"].as_array().expect("frames");
        let frames = frames.iter().filter_map(|frame| frame["name"].as_str());
        has_all(&frames.map(str::to_owned).collect(), "speedscope");
    }
    let diff = here.rprof("diff --folded perf.data perf.data").ok().out();
    for name in &NESTED[..5] {
        assert!(diff.contains(name), "{name} is not in {diff}");
    }
}

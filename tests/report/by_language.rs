//! `--by-language`, `--language`, `--sort language`. `fixtures/interpreted.c` tells what each
//! function takes.

use std::collections::BTreeMap;

use crate::support::{Here, Report, c, check, check_share, folded, measured, needs};

fn recorded(options: &str) -> Here {
    let here = Here::new();
    let python = here.copy(&c("interpreted.c"), "python3.12");
    here.record(options, &python, "0.6");
    here
}

const OPTIONS: &str = "-F 999 -e cpu-clock:u -g";

/// Share with a function in the stack, and as the leaf.
const SHARES: [(&str, f64, f64); 4] = [
    ("<module> (app.py:1)", 0.0, 1.0),
    ("main (app.py:20)", 0.1, 1.0),
    ("parse (app.py:10)", 0.4, 0.4),
    ("key (app.py:30)", 0.3, 0.3),
];

#[test]
fn functions_have_the_time_of_the_interpreter_and_native_code_stays_below_them() {
    needs!(PerfEvents);
    measured(|| {
        let here = recorded(OPTIONS);
        let report = here.report("");
        let only = report.only();
        let other = 1.0 - only.total_share("<module> (app.py:1)");
        check(other < 0.1, || format!("{other} is outside of the program"))?;
        for (name, own, total) in SHARES {
            check_share(name, only.self_share(name), own, only.samples, other)?;
            check_share(name, only.total_share(name), total, only.samples, other)?;
        }
        let is_plumbing = |row: &&crate::support::Row| {
            row.object.ends_with("/python3.12") && row.own as f64 > 0.05 * only.weight as f64
        };
        let plumbing: Vec<_> = only.rows.iter().filter(is_plumbing).collect();
        check(plumbing.is_empty(), || format!("not folded: {plumbing:?}"))
    });
}

#[test]
fn folding_moves_no_weight_between_functions() {
    needs!(PerfEvents);
    let here = recorded(OPTIONS);
    let (by_language, raw) = (here.report(""), here.report("--no-by-language"));
    assert_eq!(by_language.only().weight, raw.only().weight);
    assert_eq!(by_language.only().samples, raw.only().samples);
    for (name, line) in [("main", 20), ("parse", 10), ("key", 30)] {
        let folded = by_language.only().row(&format!("{name} (app.py:{line})"));
        let plain = raw.only().row(&format!("py::{name}:/srv/app.py:{line}"));
        assert_eq!(folded.total, plain.total, "{name}");
        assert_eq!(folded.object, "/srv/app.py");
    }
    let whole: u64 = by_language.only().rows.iter().map(|row| row.own).sum();
    assert_eq!(whole, by_language.only().weight);
}

#[test]
fn the_verdict_says_that_interpreter_code_is_folded() {
    needs!(PerfEvents);
    let here = recorded(OPTIONS);
    let told = here.rprof("report").ok();
    told.prints("# by language: self is ");
    told.prints("% Python");
    told.prints("(--no-by-language");
    let raw = here.rprof("report --no-by-language").ok();
    assert!(!raw.out().contains("by language"), "{raw}");
    raw.prints("py::parse:/srv/app.py:10");
    // The last one counts.
    let again = here.rprof("report --no-by-language --by-language").ok();
    assert_eq!(again.out(), told.out());
}

#[test]
fn languages_are_a_column_and_a_filter() {
    needs!(PerfEvents);
    let here = recorded(OPTIONS);
    let by_language = here.report("");
    let own_of = |names: &[&str]| -> u64 {
        let rows = by_language.only().rows.iter();
        let rows = rows.filter(|row| names.contains(&&*row.symbol));
        rows.map(|row| row.own).sum()
    };
    let python = own_of(&SHARES.map(|(name, ..)| name));
    let json = here.rprof("report --format json -s language").ok();
    let value: serde_json::Value = serde_json::from_str(&json.out()).unwrap();
    let rows: BTreeMap<&str, u64> = (value["events"][0]["rows"].as_array().unwrap().iter())
        .map(|row| {
            (
                row["language"].as_str().unwrap(),
                row["self"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(rows["Python"], python);
    assert_eq!(rows.values().sum::<u64>(), by_language.only().weight);
    let filtered = here.report("--language python");
    assert_eq!(filtered.only().weight, python);
    let both = here.report("--language python,native --language rust");
    assert_eq!(both.only().weight, by_language.only().weight);
    here.rprof("report -s language,symbol")
        .ok()
        .prints("Python");
    let none = here.rprof("report --language erlang").exits(1);
    none.says("--language erlang");
    here.rprof("report --language cobol")
        .exits(2)
        .says("valid languages");
    let csv = here.rprof("report --format csv -s language").ok();
    csv.prints(",state,language\n");
    let markdown = here.rprof("report --format markdown -s language").ok();
    markdown.prints("language");
}

#[test]
fn filters_take_functions_and_files_as_shown() {
    needs!(PerfEvents);
    let here = recorded(OPTIONS);
    let own = |name: &str| here.report("").only().row(name).own;
    let parse = own("parse (app.py:10)");
    for filter in [
        "--symbol parse",
        "--symbol pars?",
        "--symbol 'parse (app.py:10)'",
        "--symbol 'parse (srv/app.py:10)'",
        "--symbol py::parse:*",
    ] {
        let words = here.rprof("report --format json");
        let words = filter
            .split('\'')
            .map(str::trim)
            .fold(words, |run, word| match word {
                word if word.starts_with("--") => run.words(word),
                "" => run,
                word => run.arg(word),
            });
        assert_eq!(Report::parse(&words.ok()).only().weight, parse, "{filter}");
    }
    let all = SHARES.iter().map(|(name, ..)| {
        here.report("")
            .only()
            .rows
            .iter()
            .filter(|row| row.symbol == *name)
            .map(|row| row.own)
            .sum::<u64>()
    });
    assert_eq!(here.report("--dso app.py").only().weight, all.sum::<u64>());
    let key = here.report("").only().row("key (app.py:30)").total;
    assert_eq!(here.report("--focus key").only().weight, key);
    let callers = here.report("--callers key");
    assert_eq!(callers.only().row("main (app.py:20)").total, key);
}

#[test]
fn every_command_shows_the_same_stacks() {
    needs!(PerfEvents);
    let here = recorded(OPTIONS);
    let collapsed = here.rprof("collapse").ok();
    let stacks = folded(&collapsed);
    let parse = "python3.12;<module> (app.py:1);main (app.py:20);parse (app.py:10)";
    assert_eq!(
        stacks[parse],
        here.report("").only().row("parse (app.py:10)").own
    );
    here.rprof("collapse --no-by-language")
        .ok()
        .prints(";py::parse:/srv/app.py:10;");
    std::fs::write(here.path("x.folded"), collapsed.out()).unwrap();
    for input in ["", "-i x.folded"] {
        let svg = here.rprof("flamegraph -o -").words(input).ok();
        svg.prints("parse (app.py:10)");
        svg.prints("\u{a0}Python");
    }
    let svg = here.rprof("flamegraph --no-by-language -o -").ok().out();
    assert!(svg.contains("py::parse") && !svg.contains("\u{a0}Python"));
    here.rprof("html -o x.html").ok();
    here.rprof("diff perf.data perf.data --all")
        .ok()
        .prints("parse (app.py:10)");
    let tree = here.rprof("report -g caller").ok();
    tree.prints("main (app.py:20)");
    // Callers are needed for leaves.
    let leaves = here.report("--no-children");
    assert_eq!(leaves.only().row("parse (app.py:10)").own, stacks[parse]);
    let script = here.rprof("script").ok();
    script.prints("py::parse:/srv/app.py:10");
    script.prints("evaluate_parse");
    let annotate = here.rprof("annotate parse").exits(1);
    annotate.says("parse (app.py:10) has no instructions of its own");
}

#[test]
fn exports_have_name_file_and_line_apart() {
    needs!(PerfEvents);
    let here = recorded(OPTIONS);
    let speedscope = here.rprof("export --format speedscope -o -").ok();
    let value: serde_json::Value = serde_json::from_str(&speedscope.out()).unwrap();
    let frames = value["shared"]["frames"].as_array().unwrap();
    let parse = serde_json::json!({"name": "parse", "file": "/srv/app.py", "line": 10});
    assert!(frames.contains(&parse), "{frames:?}");
    assert!(
        !frames.iter().any(|frame| frame["name"] == "decode"),
        "{frames:?}"
    );
    here.rprof("export -o x.pb.gz").ok();
    let back = here.report("-i x.pb.gz");
    let parse = back
        .events
        .iter()
        .flat_map(|event| &event.rows)
        .find(|row| row.symbol == "parse");
    let parse = parse.expect("a function of its own name");
    assert_eq!(
        parse.own,
        here.report("").only().row("parse (app.py:10)").own
    );
}

#[test]
fn recordings_without_names_are_unchanged() {
    needs!(PerfEvents);
    let here = Here::new();
    let python = here.copy(&c("shares.c"), "python3.12");
    here.record("-F 999 -e cpu-clock:u -g", &python, "0.2");
    for command in ["report", "collapse", "report -s dso,symbol --no-children"] {
        let [with, without] =
            ["--by-language", "--no-by-language"].map(|flag| here.rprof(command).words(flag).ok());
        assert_eq!(with.out(), without.out(), "{command}");
        assert!(!with.out().contains("by language"), "{with}");
    }
}

#[test]
fn top_shows_functions_of_the_program() {
    needs!(PerfEvents);
    let here = Here::new();
    let python = here.copy(&c("interpreted.c"), "python3.12");
    let top = here.rprof("top --batch -d 500ms -F 499 -e cpu-clock:u --");
    let top = top.arg(&python).arg("3").ok();
    top.prints("parse (app.py:10)");
    assert!(!top.out().contains("py::"), "{top}");
    let raw = here.rprof("top --batch -d 500ms --no-by-language -F 499 -e cpu-clock:u --");
    let raw = raw.arg(&python).arg("3").ok();
    raw.prints("py::parse:/srv/app.py:10");
}

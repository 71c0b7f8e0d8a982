//! Reports of a comparison: JUnit, GitHub annotations and summaries, and failure rules.

use std::path::Path;

use quick_xml::XmlVersion;
use quick_xml::events::Event;

use crate::support::{Here, c_with, needs};

const SETS: &str = "diff --base old0 old1 old2 --new new0 new1 new2 --fail-above 5%";

/// Writes three runs per side of one function.
fn with_runs(old: u64, new: u64) -> Here {
    let here = Here::new();
    for (name, parse) in [("old", old), ("new", new)] {
        for number in 0..3 {
            let text = format!(
                "main;run;<T as \"a&b\">::parse {}\nmain;a {}\nmain;b {}\nmain;c 1500\n",
                parse + number * 3,
                3000 + number * 7,
                2000 - number * 5
            );
            std::fs::write(here.path(format!("{name}{number}")), text).unwrap();
        }
    }
    here
}

#[test]
fn junit_has_a_test_for_each_function_and_the_failures_are_those_of_the_gate() {
    let here = with_runs(1000, 1500);
    here.rprof(&format!("{SETS} --junit out.xml --name parser"))
        .exits(3);
    let text = std::fs::read_to_string(here.path("out.xml")).unwrap();
    let mut reader = quick_xml::Reader::from_str(&text);
    let (mut tests, mut failures, mut names) = (0, 0, Vec::new());
    loop {
        match reader.read_event().unwrap() {
            Event::Start(e) | Event::Empty(e) => match e.name().as_ref() {
                b"testcase" => {
                    tests += 1;
                    let name = e.try_get_attribute("name").unwrap().unwrap();
                    names.push(
                        name.normalized_value(XmlVersion::Implicit1_0)
                            .unwrap()
                            .into_owned(),
                    );
                }
                b"failure" => failures += 1,
                b"testsuite" => {
                    let name = e.try_get_attribute("name").unwrap().unwrap();
                    assert_eq!(
                        &*name.normalized_value(XmlVersion::Implicit1_0).unwrap(),
                        "parser"
                    );
                }
                _ => {}
            },
            Event::Eof => break,
            _ => {}
        }
    }
    assert!(
        names.iter().any(|name| name == "<T as \"a&b\">::parse"),
        "{names:?}"
    );
    assert!(
        text.contains(&format!("tests=\"{tests}\" failures=\"{failures}\"")),
        "{text}"
    );
    assert!(failures >= 2, "{text}");
    let here = with_runs(1000, 1001);
    here.rprof(&format!("{SETS} --junit out.xml")).ok();
    let text = std::fs::read_to_string(here.path("out.xml")).unwrap();
    assert!(
        text.contains("failures=\"0\"") && !text.contains("<failure"),
        "{text}"
    );
}

#[test]
fn github_is_told_by_annotations_and_in_the_summary() {
    let here = with_runs(1000, 1500);
    std::fs::write(here.path("summary"), "before\n").unwrap();
    let summary = here.path("summary");
    let run = (here.rprof(&format!("{SETS} --github --name parser")))
        .env("GITHUB_STEP_SUMMARY", summary.to_str().unwrap())
        .exits(3);
    let errors: Vec<String> = (run.err().lines())
        .filter(|line| line.starts_with("::error title=parser::"))
        .map(str::to_owned)
        .collect();
    // One cause, one annotation.
    assert_eq!(errors.len(), 1, "{run}");
    assert!(errors[0].contains("::parse takes more"), "{run}");
    let text = std::fs::read_to_string(&summary).unwrap();
    assert!(
        text.starts_with("before\n<!-- rprof-gate parser -->\n**REGRESSED"),
        "{text}"
    );
    // GitHub would drop a summary beyond its limit completely.
    let full = vec![b'x'; (1 << 20) - 100];
    std::fs::write(&summary, &full).unwrap();
    let run = (here.rprof(&format!("{SETS} --github")))
        .env("GITHUB_STEP_SUMMARY", summary.to_str().unwrap())
        .exits(3);
    run.says("the summary of this step is full");
    assert_eq!(
        std::fs::metadata(&summary).unwrap().len(),
        full.len() as u64
    );
    here.rprof(&format!("{SETS} --github"))
        .exits(3)
        .says("GITHUB_STEP_SUMMARY is not set");
}

#[test]
fn an_annotation_stands_where_the_function_begins() {
    needs!(PerfEvents);
    let here = Here::new();
    let knob = c_with("knob.c", &["-g"]);
    for (file, seconds) in [("old.data", "0.1 0.1 0.1"), ("new.data", "0.5 0.1 0.1")] {
        let record = here.rprof(&format!("record -q -o {file} --")).arg(&knob);
        record.words(seconds).ok();
    }
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let file = "fixtures/burn.h";
    let source = std::fs::read_to_string(root.join(file)).unwrap();
    let begin = 1
        + (source.lines())
            .position(|line| line.contains(" void burn_until("))
            .unwrap();
    // The machine may be busy.
    (here.rprof("diff old.data new.data --noise 5% --fail-above 5% --github"))
        .env("GITHUB_WORKSPACE", root.to_str().unwrap())
        .exits(3)
        .says(&format!(",file={file},line={begin}::burn_until takes more"));
}

#[test]
fn what_may_fail_can_be_chosen() {
    let here = with_runs(1000, 1500);
    let gate = |options: &str| here.rprof(&format!("{SETS} {options}")).run().code();
    assert_eq!(gate("--scope self"), Some(3));
    assert_eq!(gate("--scope total"), Some(3));
    assert_eq!(gate("--scope inclusive"), Some(3));
    assert_eq!(gate("--scope self --only a"), Some(0));
    assert_eq!(gate("--only *parse --scope self"), Some(3));
    assert_eq!(gate("--allow *parse"), Some(0));
    assert_eq!(gate("--allow b"), Some(3));
}

#[test]
fn how_many_runs_a_wanted_rise_needs_is_said() {
    let here = with_runs(1000, 1003);
    let run = here.rprof(SETS).ok();
    run.prints("one of 10 % needs");
    here.rprof(&format!("{SETS} --wanted 30%"))
        .ok()
        .prints("one of 30 % needs");
    let json = here
        .rprof(&format!("{SETS} --format json --wanted 30%"))
        .ok();
    let json: serde_json::Value = serde_json::from_str(&json.out()).unwrap();
    assert!((json["wanted"].as_f64().unwrap() - 0.3).abs() < 1e-9);
    assert!(json["total"]["runs_needed"].as_u64().unwrap() >= 1);
    assert!(json["functions"][0]["self"]["visible"].as_f64().is_some());
}

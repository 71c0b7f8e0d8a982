//! Lines for editors, compared with the report and with annotated functions.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::{Here, c_with, needs};

/// Self and total by file and line. Lines count from 1.
type Lines = BTreeMap<(String, u64), (u64, u64)>;

fn json(here: &Here, command: &str) -> Value {
    let run = here.rprof(command).ok();
    serde_json::from_slice(run.bytes()).expect("JSON")
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn of_editor(found: &Value) -> Lines {
    let mut lines = Lines::new();
    for file in found["files"].as_array().expect("files") {
        let path = file["path"].as_str().expect("a path");
        let own: u64 = (file["lines"].as_array().expect("lines").iter())
            .map(|line| {
                let (start, end) = (&line["range"]["start"], &line["range"]["end"]);
                assert_eq!(
                    (&start["character"], &end["character"]),
                    (&0.into(), &0.into())
                );
                assert_eq!(number(&end["line"]), number(&start["line"]) + 1);
                let key = (path.to_owned(), number(&end["line"]));
                let sums = (number(&line["self"]), number(&line["total"]));
                assert!(lines.insert(key, sums).is_none(), "a line twice");
                sums.0
            })
            .sum();
        assert_eq!(number(&file["self"]), own);
    }
    lines
}

#[test]
fn lines_for_editors_are_those_of_the_report_and_of_functions() {
    needs!(PerfEvents);
    let here = Here::new();
    let program = c_with("shares.c", &["-g"]);
    here.record("-g -e cpu-clock:u -F 1999", &program, "0.5");
    let found = json(&here, "annotate -q --format editor");
    assert_eq!(found["version"], 1);
    let lines = of_editor(&found);

    let report = json(&here, "report -q --format json --sort srcline");
    let event = &report["events"][0];
    assert_eq!(found["weight_total"], event["weight_total"]);
    assert_eq!(found["samples"], event["samples"]);
    let mut expected = Lines::new();
    for row in event["rows"].as_array().expect("rows") {
        let place = row["srcline"].as_str().expect("a place");
        let (file, line) = place.rsplit_once(':').expect("a line");
        let line: u64 = line.parse().expect("a line");
        if line > 0 {
            let sums = (number(&row["self"]), number(&row["total"]));
            expected.insert((file.to_owned(), line), sums);
        }
    }
    assert_eq!(lines, expected);

    // Inlined code counts for its own line, in all functions.
    let functions = json(
        &here,
        "annotate -q --format json --inlined definition -n 1000 *",
    );
    let functions = functions["functions"].as_array().expect("functions");
    let mut own: BTreeMap<(String, u64), u64> = BTreeMap::new();
    for line in functions
        .iter()
        .flat_map(|f| f["lines"].as_array().expect("lines"))
    {
        let file = line["file"].as_str().expect("a file").to_owned();
        *own.entry((file, number(&line["line"]))).or_default() += number(&line["self"]);
    }
    let hottest = own.iter().max_by_key(|(_, own)| **own).expect("a line");
    assert!(*hottest.1 > 0);
    assert_eq!(lines[hottest.0].0, *hottest.1);

    let file = &found["files"][0];
    let path = file["path"].as_str().expect("a path");
    let there = std::fs::canonicalize(path).expect("it was compiled here");
    let there = there.to_string_lossy().replace(' ', "%20");
    assert_eq!(file["uri"], format!("file://{there}"));
    let first = &file["lines"].as_array().expect("lines").iter();
    let title = first
        .clone()
        .max_by_key(|line| number(&line["self"]))
        .expect("a line");
    let share = 100.0 * number(&title["self"]) as f64 / number(&found["weight_total"]) as f64;
    let text = title["title"].as_str().expect("a title");
    assert!(text.starts_with(&format!("{share:.2}% self, ")), "{text}");
}

#[test]
fn lines_of_one_function_are_a_part_of_all_lines() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-g -e cpu-clock:u", &c_with("shares.c", &["-g"]), "0.2");
    let all = of_editor(&json(&here, "annotate -q --format editor"));
    let some = of_editor(&json(&here, "annotate -q --format editor main"));
    assert!(!some.is_empty() && some.len() < all.len());
    for (place, sums) in some {
        assert_eq!(all[&place], sums, "{place:?}");
    }
    here.rprof("annotate --format editor no_such_function")
        .ok()
        .says("no sampled symbol matches `no_such_function`");
}

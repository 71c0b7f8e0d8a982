//! Tests named in `docs/coverage.md` and `docs/security.md` exist.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

struct Row {
    number: String,
    state: String,
    tests: Vec<(String, String)>,
}

fn rows(text: &str) -> Vec<Row> {
    let rows = text.lines().filter_map(|line| {
        // Escaped bars belong to a cell.
        let line = line.replace("\\|", "");
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, number, _, state, _, tests, _] = cells[..] else {
            return None;
        };
        let letter = number
            .chars()
            .next()
            .is_some_and(|first| first.is_ascii_uppercase());
        let is_row = letter && number.chars().skip(1).all(|digit| digit.is_ascii_digit());
        let tests = tests
            .split(", ")
            .filter(|test| !test.is_empty())
            .map(|test| {
                let (path, name) = test
                    .trim_matches('`')
                    .split_once("::")
                    .expect("a path and a name");
                (path.to_owned(), name.to_owned())
            });
        (is_row && number.len() > 1).then(|| Row {
            number: number.to_owned(),
            state: state.to_owned(),
            tests: tests.collect(),
        })
    });
    rows.collect()
}

fn has_test(source: &str, name: &str) -> bool {
    let begins = format!("fn {name}(");
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let found = lines.iter().position(|line| line.starts_with(&begins));
    found.is_some_and(|at| {
        let above = lines[..at].iter().rev();
        let mut attributes =
            above.take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        attributes.any(|line| *line == "#[test]")
    })
}

#[test]
fn each_row_of_the_coverage_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("docs/coverage.md")).unwrap();
    let rows = rows(&text);
    assert_eq!(rows.len(), 258, "all of what the documents speak of");
    let mut counts = BTreeMap::new();
    let mut wrong = Vec::new();
    for Row {
        number,
        state,
        tests,
    } in &rows
    {
        *counts.entry(state.as_str()).or_insert(0) += 1;
        if tests.is_empty() && !matches!(state.as_str(), "historic" | "missing") {
            wrong.push(format!("{number}: {state}, and no test"));
        }
        for (path, name) in tests {
            let source = fs::read_to_string(root.join(path)).unwrap_or_default();
            if !has_test(&source, name) {
                wrong.push(format!("{number}: {path} has no test {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    for (state, count) in counts {
        let row = text
            .lines()
            .find(|line| line.starts_with(&format!("| {state} |")));
        let row = row.unwrap_or_else(|| panic!("{state} is not explained"));
        assert!(
            row.ends_with(&format!("| {count} |")),
            "{row}: there are {count}"
        );
    }
}

fn named_tests(text: &str) -> Vec<(&str, &str)> {
    let spans = text
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    let named = spans.filter_map(|span| span.split_once("::"));
    named.filter(|(path, _)| path.ends_with(".rs")).collect()
}

#[test]
fn each_guarantee_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("docs/security.md")).expect("a page");
    let tests = named_tests(&text);
    assert!(tests.len() > 90, "{}", tests.len());
    let is_missing = |(path, name): &&(&str, &str)| {
        let source = fs::read_to_string(root.join(path)).unwrap_or_default();
        !has_test(&source, name)
    };
    let missing: Vec<_> = tests.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    // Each row in a table of guarantees names a test.
    let mut is_guarantee = false;
    for line in text.lines() {
        is_guarantee = match line {
            "| guarantee | tests |" => true,
            _ => is_guarantee && line.starts_with('|'),
        };
        let is_row = is_guarantee && !line.starts_with("|---") && line != "| guarantee | tests |";
        assert!(!is_row || line.contains(".rs"), "{line}");
    }
}

#[test]
fn a_test_is_told_from_a_function() {
    let source =
        "#[test]\n/// Why.\nfn one() {}\nfn two() {}\n#[allow(dead_code)]\nfn three() {}\n";
    assert!(has_test(source, "one"));
    assert!(!has_test(source, "two") && !has_test(source, "three") && !has_test(source, "four"));
}

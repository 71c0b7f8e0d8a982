//! A comparison as JUnit XML: one test case for the program and one per judged function.
//!
//! A function that takes more is a failure. An inconclusive one is skipped, with the smallest
//! detectable change as its message.

use std::io::{self, Write};

use rprof_profile::compare::{Change, FunctionDiff, Gate, ProfileDiff, Verdict};

use super::amount::{change as change_of, interval, percent};
use super::rows::{SortBy, sorted};
use super::{github, words};
use crate::clean::clean;

/// Writes one test suite with this name.
///
/// # Errors
/// Fails if the writer does.
pub fn write(diff: &ProfileDiff, name: &str, out: &mut dyn Write) -> io::Result<()> {
    let failing: Vec<&FunctionDiff> = diff.failing().collect();
    let has_failed = |row: &FunctionDiff| failing.iter().any(|other| std::ptr::eq(*other, row));
    let judged: Vec<&FunctionDiff> = (sorted(diff, SortBy::Change).into_iter())
        .filter(|row| row.own.verdict != Verdict::TooSmall || has_failed(row))
        .collect();
    let gate = diff.gate();
    let certain = gate == Gate::Regressed;
    let mut cases = vec![Case {
        class: "program".into(),
        name: words::whole(diff),
        result: match gate {
            Gate::Regressed => Some(("failure", words::headline(diff))),
            Gate::Inconclusive => Some(("skipped", words::open_question(diff))),
            Gate::Passed => None,
        },
    }];
    cases.extend(judged.into_iter().map(|row| Case {
        class: clean(&row.object).into_owned(),
        name: words::full_name(row),
        result: match has_failed(row) && certain {
            true => Some(("failure", github::about(diff, row))),
            false => unknown(&row.own).map(|why| ("skipped", why)),
        },
    }));
    let number = |kind: &str| {
        let is_kind = |case: &&Case| case.result.as_ref().is_some_and(|(of, _)| *of == kind);
        cases.iter().filter(is_kind).count()
    };
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\"",
        cases.len(),
        number("failure"),
        number("skipped")
    );
    let suite = attribute(name);
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<testsuites name=\"{suite}\" {counts}>")?;
    writeln!(out, "  <testsuite name=\"{suite}\" {counts}>")?;
    for case in &cases {
        let (class, name) = (attribute(&case.class), attribute(&case.name));
        write!(
            out,
            "    <testcase classname=\"{class}\" name=\"{name}\" time=\"0\""
        )?;
        match &case.result {
            Some((kind, message)) => {
                let message = attribute(message);
                writeln!(out, "><{kind} message=\"{message}\"/></testcase>")?;
            }
            None => writeln!(out, "/>")?,
        }
    }
    writeln!(out, "  </testsuite>\n</testsuites>")
}

struct Case {
    class: String,
    name: String,
    /// Child element and its message; `None` if the test passed.
    result: Option<(&'static str, String)>,
}

/// Returns the message of an inconclusive change.
fn unknown(change: &Change) -> Option<String> {
    let word = match change.verdict {
        Verdict::Inconclusive => "inconclusive",
        Verdict::MayExceed => "changed, inconclusive about the threshold",
        _ => return None,
    };
    let interval = interval(change).map(|interval| format!(" {interval}"));
    let visible = change
        .visible
        .map(|visible| format!("; could have seen {}", percent(visible)));
    Some(format!(
        "{word}: {}{}{}",
        change_of(change),
        interval.unwrap_or_default(),
        visible.unwrap_or_default()
    ))
}

fn attribute(text: &str) -> String {
    let text = clean(text).replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::compare::{CompareOptions, compare};
    use rprof_profile::{Filter, Profile, folded};

    #[test]
    fn functions_that_take_more_have_failed_and_names_are_text() {
        let runs = |hot: u64| -> [Profile; 3] {
            [0, 5, 10].map(|more| {
                let text = format!(
                    "main;<T as \"A&B\">::hot {}\nmain;a {}\nmain;b 4000\nmain;c 3000\n",
                    hot + more,
                    5000 - more
                );
                folded::read(text.as_bytes(), "x".as_ref(), &Filter::default()).unwrap()
            })
        };
        let options = CompareOptions {
            threshold: 0.05,
            ..CompareOptions::default()
        };
        let write_of = |new: u64| {
            let mut out = Vec::new();
            let diff = compare(&runs(1000), &runs(new), &options).unwrap();
            write(&diff, "a \"gate\"", &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = write_of(1800);
        assert!(
            text.contains("<testsuite name=\"a &quot;gate&quot;\" tests="),
            "{text}"
        );
        let name = "name=\"&lt;T as &quot;A&amp;B&quot;&gt;::hot\" time=\"0\"><failure message=";
        assert!(text.contains(name), "{text}");
        assert_eq!(
            text.matches("<testcase ").count(),
            5 + usize::from(text.contains("name=\"main\""))
        );
        let text = write_of(1000);
        assert!(text.contains("failures=\"0\""), "{text}");
    }
}

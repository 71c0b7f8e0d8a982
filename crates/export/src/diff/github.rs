//! GitHub annotations: workflow commands in a step's output.
//!
//! GitHub shows ten annotations of each kind per step and silently drops the others. Therefore this
//! module writes at most nine, and one with the number of the rest.

use std::fmt::Write as _;

use rprof_profile::compare::{FunctionDiff, Gate, ProfileDiff};

use super::amount::{amount, change, interval, noun};
use super::words;

const LIMIT: usize = 9;

/// Source line, with a path relative to the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryLine {
    /// Path of the file.
    pub file: String,
    /// 1-based line number.
    pub line: u32,
}

/// Returns the workflow commands of a comparison: an error for each failing function, or a warning
/// if the result is inconclusive. `place` locates functions.
pub fn annotations(
    diff: &ProfileDiff,
    title: &str,
    place: &dyn Fn(&FunctionDiff) -> Option<RepositoryLine>,
) -> String {
    let mut text = String::new();
    match diff.gate() {
        Gate::Passed => command("notice", title, None, &words::headline(diff), &mut text),
        Gate::Inconclusive => {
            command(
                "warning",
                title,
                None,
                &words::open_question(diff),
                &mut text,
            );
        }
        Gate::Regressed => {
            let failing: Vec<&FunctionDiff> = diff.failing().collect();
            for row in failing.iter().take(LIMIT) {
                let message = about(diff, row);
                command("error", title, place(row), &message, &mut text);
            }
            match failing.len() {
                0 => command("error", title, None, &words::headline(diff), &mut text),
                n if n > LIMIT => {
                    let message = format!("and {} more functions", n - LIMIT);
                    command("error", title, None, &message, &mut text);
                }
                _ => {}
            }
        }
    }
    text
}

pub(super) fn about(diff: &ProfileDiff, row: &FunctionDiff) -> String {
    let (of, which) = match row.own.verdict.is_marked() {
        true => (&row.own, ""),
        false => (&row.total, ", with its callees,"),
    };
    format!(
        "{}{which} takes more {}: {} → {}, {}{}",
        words::name(row),
        noun(diff),
        amount(diff, of.old),
        amount(diff, of.new),
        change(of),
        interval(of)
            .map(|interval| format!(" {interval}"))
            .unwrap_or_default()
    )
}

fn command(
    kind: &str,
    title: &str,
    place: Option<RepositoryLine>,
    message: &str,
    out: &mut String,
) {
    let _ = write!(out, "::{kind} title={}", property(title));
    if let Some(RepositoryLine { file, line }) = place {
        let _ = write!(out, ",file={},line={line}", property(&file));
    }
    let _ = writeln!(out, "::{}", data(message));
}

/// Escapes text as the message of a workflow command.
fn data(text: &str) -> String {
    (text.replace('%', "%25").replace('\r', "%0D")).replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::compare::{CompareOptions, compare};
    use rprof_profile::{Filter, Profile, folded};

    fn runs(factor: u64, functions: usize) -> [Profile; 3] {
        [0, 3, 6].map(|more| {
            let mut text = String::from("main;steady 90000\nmain;calm 50000\nmain;still 40000\n");
            for index in 0..functions {
                let _ = writeln!(text, "main;f,{index:02}:x%\ty {}", 2000 * factor + more);
            }
            folded::read(text.as_bytes(), "x".as_ref(), &Filter::default()).unwrap()
        })
    }

    fn annotated(functions: usize, factor: u64) -> String {
        let diff = compare(
            &runs(1, functions),
            &runs(factor, functions),
            &CompareOptions::default(),
        );
        let place = |row: &FunctionDiff| {
            row.name
                .as_deref()
                .filter(|name| name.starts_with("f,00"))
                .map(|_| RepositoryLine {
                    file: "src/a,b:c.rs".into(),
                    line: 88,
                })
        };
        annotations(&diff.unwrap(), "rprof gate", &place)
    }

    #[test]
    fn each_function_that_takes_more_has_one_and_ten_are_never_exceeded() {
        let text = annotated(2, 2);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines
                .iter()
                .all(|line| line.starts_with("::error title=rprof gate")),
            "{text}"
        );
        assert!(
            text.contains(",file=src/a%2Cb%3Ac.rs,line=88::f,00:x%25"),
            "{text}"
        );
        assert!(!text.contains('\t'), "{text}");
        let text = annotated(30, 3);
        assert_eq!(text.lines().count(), 10, "{text}");
        assert!(
            text.lines().last().unwrap().contains("more functions"),
            "{text}"
        );
    }

    #[test]
    fn what_passes_is_a_notice() {
        let text = annotated(2, 1);
        assert!(
            text.starts_with("::notice title=rprof gate::SAME"),
            "{text}"
        );
    }
}

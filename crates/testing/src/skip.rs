//! Skipped tests: counted, listed at the end, and failures if `RPROF_REQUIRE_TOOLS=1`.
//!
//! In libtest, a test cannot become skipped while it runs: if it returns, it passed. This module
//! collects skips until the test binary ends, and prints them below libtest's result. It also
//! appends them to the file in `RPROF_SKIPPED`, for a list of a whole `cargo test --workspace`.

use std::fmt::{self, Write as _};
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;
use std::sync::{Mutex, PoisonError};

/// A skipped test or part of a test.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Skip {
    /// Path of the test, `module::name`. `main` if tests run on the main thread.
    test: String,
    /// File and line.
    place: String,
    why: String,
}

static SKIPS: Mutex<Vec<Skip>> = Mutex::new(Vec::new());

/// Counts the calling test as skipped, at least in part, because a tool or permission is missing.
///
/// # Panics
/// With `RPROF_REQUIRE_TOOLS=1`, which forbids this kind of skip.
#[track_caller]
pub fn skip(why: impl fmt::Display) {
    let required = std::env::var_os("RPROF_REQUIRE_TOOLS").is_some_and(|v| v == "1");
    assert!(!required, "RPROF_REQUIRE_TOOLS=1, and this {why}");
    note(&why, Location::caller());
}

/// Counts the calling test as skipped, at least in part, because its subject does not exist here
/// and cannot be installed: another processor, hardware, the captures.
///
/// This is never a failure. Prefer [`skip`]. CONTRIBUTING.md lists the exceptions.
#[track_caller]
pub fn inapplicable(why: impl fmt::Display) {
    note(&why, Location::caller());
}

fn note(why: &dyn fmt::Display, at: &Location<'_>) {
    let thread = std::thread::current();
    let skip = Skip {
        test: thread.name().unwrap_or("a thread").to_owned(),
        place: format!("{}:{}", at.file(), at.line()),
        why: why.to_string(),
    };
    let mut skips = SKIPS.lock().unwrap_or_else(PoisonError::into_inner);
    if skips.is_empty() {
        // SAFETY: `print_at_exit` neither unwinds nor uses anything of this thread.
        unsafe { libc::atexit(print_at_exit) };
    }
    if !skips.contains(&skip) {
        skips.push(skip);
    }
}

extern "C" fn print_at_exit() {
    // Does not block: a leftover thread may hold the lock forever.
    let Ok(mut skips) = SKIPS.try_lock() else {
        return;
    };
    skips.sort();
    // Bypasses Rust's buffer for standard output, which is closed by now.
    let text = summary(&skips);
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match rustix::io::write(rustix::stdio::stdout(), rest) {
            Ok(n) => rest = &rest[n..],
            Err(_) => break,
        }
    }
    if let Some(file) = std::env::var_os("RPROF_SKIPPED") {
        let lines: String = skips.iter().map(|skip| format!("{skip}\n")).collect();
        let file = OpenOptions::new().append(true).create(true).open(file);
        // A single write, because several binaries may end at the same time.
        let _ = file.and_then(|mut file| file.write_all(lines.as_bytes()));
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.test, self.place, self.why)
    }
}

fn summary(skips: &[Skip]) -> String {
    let mut tests: Vec<_> = skips.iter().map(|skip| &skip.test).collect();
    tests.dedup();
    let mut text = format!(
        "skipped, though counted as passed above: {} {}\n",
        tests.len(),
        if tests.len() == 1 { "test" } else { "tests" }
    );
    for skip in skips {
        let _ = writeln!(text, "    {skip}");
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    #[ignore = "run by the tests below, in a process of its own"]
    fn example() {
        skip("needs something that no machine has");
    }

    #[test]
    #[ignore = "run by the tests below, in a process of its own"]
    fn example_inapplicable() {
        inapplicable("needs a processor that was never built");
    }

    /// Runs the examples above. Returns whether they passed, and their standard output.
    fn run(filter: &str, require: Option<&str>, file: Option<&std::path::Path>) -> (bool, String) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--test-threads=2", filter]);
        command.env_remove("RPROF_REQUIRE_TOOLS");
        command.env_remove("RPROF_SKIPPED");
        if let Some(require) = require {
            command.env("RPROF_REQUIRE_TOOLS", require);
        }
        if let Some(file) = file {
            command.env("RPROF_SKIPPED", file);
        }
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.success(), text)
    }

    #[test]
    fn skipped_tests_are_listed_after_the_result() {
        let file = std::env::temp_dir().join(format!("rprof-skipped-{}", std::process::id()));
        let (passed, text) = run("skip::tests::example", None, Some(&file));
        let listed = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(passed, "{text}");
        let (_, after) = text.split_once("test result: ok. 2 passed").unwrap();
        assert!(
            after.contains("skipped, though counted as passed above: 2 tests\n"),
            "{text}"
        );
        let line = "skip::tests::example (crates/testing/src/skip.rs:";
        assert!(after.contains(line), "{text}");
        assert!(
            after.contains("): needs something that no machine has\n"),
            "{text}"
        );
        assert_eq!(listed.lines().count(), 2, "{listed}");
        assert!(listed.contains("needs a processor"), "{listed}");
    }

    #[test]
    fn a_skip_fails_where_tools_are_required() {
        let (passed, text) = run("skip::tests::example", Some("1"), None);
        assert!(!passed, "{text}");
        assert!(
            text.contains("RPROF_REQUIRE_TOOLS=1, and this needs something"),
            "{text}"
        );
        let (passed, _) = run("skip::tests::example", Some("0"), None);
        assert!(passed);
        let (passed, text) = run("skip::tests::example_inapplicable", Some("1"), None);
        assert!(passed, "{text}");
    }

    #[test]
    fn nothing_is_printed_where_nothing_is_skipped() {
        let (passed, text) = run("no_test_of_this_name", None, None);
        assert!(passed && !text.contains("skipped"), "{text}");
    }
}

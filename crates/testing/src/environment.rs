//! [`in_environment`]: tests of environment variables.

use std::env;
use std::process::Command;

/// Set in the process that runs a test again.
const AGAIN: &str = "RPROF_TEST_AGAIN";

/// Runs a test again in its own process, with these variables. Returns true in that process.
/// Returns false in the caller, after the test has passed there. Setting variables in the current
/// process would affect concurrent tests.
///
/// `module` is `module_path!()`, and `test` the name of the function.
///
/// # Panics
/// If the test fails in the other process.
#[must_use]
pub fn in_environment(module: &str, test: &str, variables: &[(&str, &str)]) -> bool {
    if env::var_os(AGAIN).is_some() {
        return true;
    }
    // Strips the name of the crate.
    let (_, module) = module.split_once("::").unwrap_or(("", ""));
    let mut name = format!("{module}::{test}");
    if module.is_empty() {
        name = test.to_owned();
    }
    let program = env::current_exe().expect("the path of this program");
    let mut command = Command::new(program);
    command.args(["--exact", &name, "--nocapture"]);
    command.env(AGAIN, "1").envs(variables.iter().copied());
    let run = command.output().expect("the test starts again");
    let text = String::from_utf8_lossy(&run.stdout);
    let passed = run.status.success() && text.contains("1 passed");
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(passed, "{name} in {variables:?}: {text}{errors}");
    false
}

//! Runs the tests of the HTML page's modules in Node.js.

use std::path::Path;
use std::process::Command;

use rprof_testing::needs;

#[test]
fn modules_of_the_page_do_what_their_tests_say() {
    needs!(Node);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
    let mut node = Command::new("node");
    // Older versions of Node.js take no folder, newer ones no shell pattern.
    let tests = ["model", "page"].map(|name| format!("tests/{name}.test.js"));
    let run = node.arg("--test").args(tests).current_dir(folder).output();
    let run = run.expect("node runs");
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{text}");
    let passed = text.lines().filter(|line| line.contains("pass ")).count();
    assert!(passed > 0, "nothing was tested: {text}");
}

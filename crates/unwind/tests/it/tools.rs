//! Compilers, other tools, and images of the system.

use std::path::{Path, PathBuf};
use std::process::Command;

use rprof_testing::{Need, has, skip};

/// Returns true if a tool is present. Otherwise the test is skipped.
#[track_caller]
pub(crate) fn present(tool: &'static str) -> bool {
    has(Need::Tool(tool))
}

/// Compiles a source into `directory`. Its path is relative to `tests/fixtures`.
pub(crate) fn compile(
    compiler: &str,
    source: &str,
    flags: &[&str],
    directory: &Path,
) -> Option<PathBuf> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let name = Path::new(source).file_name()?.to_string_lossy();
    let output = directory.join(format!(
        "{name}{}",
        flags
            .concat()
            .replace(|c: char| !c.is_ascii_alphanumeric(), "_")
    ));
    let result = Command::new(compiler)
        .arg(fixtures.join(source))
        .args(flags)
        .arg("-o")
        .arg(&output)
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&result.stderr);
    assert!(
        result.status.success(),
        "{compiler} {source} {flags:?}: {said}"
    );
    Some(output)
}

/// Returns existing images of the system: libraries and programs of different linkers and
/// compilers.
pub(crate) fn system_images() -> Vec<PathBuf> {
    let names = [
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib/x86_64-linux-gnu/libm.so.6",
        "/lib64/ld-linux-x86-64.so.2",
        "/lib32/libc.so.6",
        "/lib32/ld-linux.so.2",
        "/usr/lib32/libm.so.6",
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
        "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
        "/usr/bin/perf",
        "/usr/bin/git",
        "/usr/bin/python3",
        "/bin/bash",
        "/usr/bin/node",
    ];
    let found: Vec<PathBuf> = names
        .iter()
        .map(PathBuf::from)
        .filter(|path| path.exists())
        .collect();
    if found.is_empty() {
        skip("needs programs and libraries of a system for x86-64");
    }
    found
}

//! Python versions.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Finds a Python on PATH or beside it. `perf` exists from 3.12 on, `perf_jit` with a jitdump from
/// 3.13 on.
pub(crate) fn python_with_trampolines(kind: &str) -> Option<PathBuf> {
    let names = ["python3", "python3.14", "python3.13", "python3.12"];
    // A version of a wrapper such as pyenv may be inactive.
    let pyenv = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let pyenv = pyenv.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")));
    let versions = pyenv.and_then(|pyenv| std::fs::read_dir(pyenv.join("versions")).ok());
    let versions = versions.into_iter().flatten().flatten();
    let others = versions.map(|version| version.path().join("bin/python3"));
    let candidates = names.map(PathBuf::from).into_iter().chain(others);
    candidates.into_iter().find_map(|name| {
        let mut command = Command::new(name);
        let ask = "import sys; print(sys.is_stack_trampoline_active() and sys.executable or '')";
        let output = command
            .args(["-X", kind, "-c", ask])
            .stdin(Stdio::null())
            .output()
            .ok()?;
        let path = String::from_utf8(output.stdout).ok()?;
        let is_one = output.status.success() && !path.trim().is_empty();
        is_one.then(|| PathBuf::from(path.trim()))
    })
}

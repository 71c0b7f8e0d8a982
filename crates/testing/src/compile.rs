//! Programs compiled once for all tests and runs.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::need::go;

/// Compiles `source`, or reuses a cached program below `folder`. The cache key is the compiler, the
/// source, the headers beside it, and the flags. Returns the program's path, which ends in the
/// source's name without extension. For `javac` it is a folder of classes. The program is shared,
/// so tests must not change it.
///
/// Two tests may compile the same program at once. Each writes its own file, and the last rename
/// wins; of two folders, the first one.
///
/// # Panics
/// If the compiler cannot run or fails.
pub fn compile(folder: &Path, compiler: &str, source: &Path, flags: &[&str]) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let program = source.file_stem().expect("a source has a name");
    let hash = hash(compiler, source, flags);
    let folder = folder.join("fixtures").join(format!("{hash:016x}"));
    let path = folder.join(program);
    if path.exists() {
        return path;
    }
    fs::create_dir_all(&folder).expect("cannot make a folder for fixtures");
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let temporary = folder.join(format!(".new-{}-{number}", std::process::id()));
    let output = run(Command::new(compiler)
        .arg(source)
        .arg(if compiler == "javac" { "-d" } else { "-o" })
        .arg(&temporary)
        .args(flags)
        // For unstable flags of rustc.
        .env("RUSTC_BOOTSTRAP", "1"));
    assert!(
        output.status.success(),
        "{compiler} {flags:?} does not compile {}:\n{}",
        source.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    let renamed = fs::rename(&temporary, &path);
    assert!(
        renamed.is_ok() || path.is_dir(),
        "cannot put a fixture in its place: {renamed:?}"
    );
    path
}

/// Builds the Go package in the folder `source` as `program`, with flags of `go build`.
///
/// The build cache lies in the target folder. Without it, each test would compile the standard
/// library first.
///
/// # Panics
/// If there is no Go compiler, or if it fails.
pub fn build_go(source: &Path, program: &Path, flags: &[&str]) {
    let tests = std::env::current_exe().expect("a test binary has a path");
    let target = tests.ancestors().nth(3).expect("a target folder");
    let mut build = Command::new(go().expect("a Go compiler"));
    build
        .arg("build")
        .args(flags)
        .arg("-o")
        .arg(program)
        .arg(".");
    build.current_dir(source).env("GO111MODULE", "off");
    build
        .env("GOFLAGS", "")
        .env("GOCACHE", target.join("tmp/go"));
    let output = run(&mut build);
    assert!(
        output.status.success(),
        "cannot build {}:\n{}",
        source.display(),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn run(command: &mut Command) -> std::process::Output {
    (command.stdin(Stdio::null()).output()).unwrap_or_else(|e| {
        let compiler = command.get_program().display();
        panic!("cannot run {compiler}, which the fixtures need: {e}")
    })
}

fn hash(compiler: &str, source: &Path, flags: &[&str]) -> u64 {
    let mut hasher = DefaultHasher::new();
    compiler.hash(&mut hasher);
    run(Command::new(compiler).arg("--version"))
        .stdout
        .hash(&mut hasher);
    flags.hash(&mut hasher);
    source.hash(&mut hasher);
    let beside = source.parent().map(fs::read_dir);
    let beside = beside.into_iter().flatten().flatten().flatten();
    let is_header = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "h");
    let mut inputs: Vec<PathBuf> = beside.map(|entry| entry.path()).filter(is_header).collect();
    inputs.sort();
    inputs.push(source.to_owned());
    for path in inputs {
        let text = fs::read(&path);
        text.unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()))
            .hash(&mut hasher);
    }
    hasher.finish()
}

//! Symbolization succeeds if the system refuses new threads.

use rprof_symbols::{ImageKey, Symbolizer};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Environment variable for the single-threaded child process.
const ALONE: &str = "RPROF_TEST_ALONE";

/// Returns how many offsets of this program have a name, and how many a line.
fn named() -> (usize, usize) {
    let path = std::env::current_exe().unwrap();
    let len = std::fs::metadata(&path).unwrap().len();
    let offsets: Vec<u64> = (0..8000).map(|n| n * (len / 8000)).collect();
    let symbolizer = Symbolizer::builder().threads(4).build();
    let found = symbolizer.resolve_image(&ImageKey::file(path), &offsets);
    let lines = (found.iter().flatten()).filter(|frames| frames.line().is_some());
    (found.iter().flatten().count(), lines.count())
}

#[test]
fn all_is_named_without_further_threads() {
    if std::env::var_os(ALONE).is_some() {
        let refused = std::thread::Builder::new().spawn(|| {}).is_err();
        println!("refused {refused} named {:?}", named());
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let name = "threads::all_is_named_without_further_threads";
    // With one test thread, tests run on the main thread, so no thread is started.
    child.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    child.env(ALONE, "1");
    // SAFETY: the calls are async-signal-safe and touch no memory of the parent.
    unsafe {
        child.pre_exec(|| {
            // The limit does not apply to root, so become `nobody`.
            if libc::geteuid() == 0 && libc::setuid(65_534) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            match libc::setrlimit(libc::RLIMIT_NPROC, &raw const none) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    let (names, lines) = named();
    assert!(names > 300 && lines > 300, "{names} {lines}");
    let expected = format!("refused true named {:?}", (names, lines));
    assert!(text.contains(&expected), "{expected} expected: {text}");
}

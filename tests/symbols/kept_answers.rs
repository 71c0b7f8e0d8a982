//! Symbolization results cached across runs.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::support::{Here, Language, generated, needs};

const CALLS: &str = "
//! calls SECONDS: functions that are inlined into others.
use std::hint::black_box;
use std::time::{Duration, Instant};

#[inline(always)]
fn inner(x: u64) -> u64 {
    (0..1000u64).fold(x, |x, i| black_box(x ^ i))
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let (begin, mut x) = (Instant::now(), 0);
    while begin.elapsed() < Duration::from_secs_f64(seconds) {
        let mut numbers: Vec<u64> = (0..200).map(|n| inner(n ^ x)).collect();
        numbers.sort();
        x = black_box(numbers[3]);
    }
}
";

fn settle(file: &Path) {
    let changed = fs::metadata(file).expect("a file").ctime();
    let until = SystemTime::UNIX_EPOCH + Duration::from_secs(changed.unsigned_abs() + 4);
    if let Ok(left) = until.duration_since(SystemTime::now()) {
        std::thread::sleep(left);
    }
}

#[test]
fn reports_are_the_same_with_and_without_kept_answers() {
    needs!(PerfEvents);
    let here = Here::new();
    let program = generated("calls", CALLS, Language::Rust, &["-Copt-level=3", "-g"]);
    here.record("-F 999 -g -e cpu-clock:u", &program, "0.3");
    settle(&program);
    let kept = here.path("cache");
    fs::create_dir(&kept).expect("a folder");
    let files = || -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(kept.join("rprof")) else {
            return Vec::new();
        };
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let is_answers = |path: &PathBuf| path.to_string_lossy().contains("debug-info-");
        paths.filter(is_answers).collect()
    };
    let run = |args: &str, caches: &Path| {
        let caches = caches.to_str().expect("UTF-8");
        let run = here.rprof(args).env("XDG_CACHE_HOME", caches).ok();
        (run.out(), run.err())
    };
    for args in [
        "report -n 0",
        "report -n 0 --sort srcline",
        "script -F ip,sym,srcline",
        "flamegraph -o -",
        "annotate",
    ] {
        let expected = run(args, &here.path("nowhere"));
        for file in files() {
            fs::remove_file(file).expect("removed");
        }
        assert_eq!(run(args, &kept), expected, "{args}, at first");
        assert!(!files().is_empty(), "{args}");
        assert_eq!(run(args, &kept), expected, "{args}, again");
        for file in files() {
            let mut bytes = fs::read(&file).expect("answers");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(&file, bytes).expect("written");
        }
        assert_eq!(run(args, &kept), expected, "{args}, damaged");
    }
    // With --memory, results depend on the limit.
    for file in files() {
        fs::remove_file(file).expect("removed");
    }
    run("report --memory-limit 1G", &kept);
    assert!(files().is_empty());
}
